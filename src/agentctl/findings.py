"""A verdict written out: the session that people and programs see, with the evidence and what was set aside.

Pure, like the judge: nothing is decided here.
"""

from __future__ import annotations

from agentctl.model import (
    AGENT,
    FAILED,
    GONE,
    WRAPPER,
    Claim,
    Evidence,
    Link,
    ProcessKey,
    Record,
    Session,
    Unattached,
    status_word,
    terminal_of,
)
from agentctl.world import RULES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from agentctl.processes import Processes
    from agentctl.world import Case, Verdict


def session_of(
    case: Case,
    verdict: Verdict,
    processes: Processes,
    wrappers: set[ProcessKey],
    cwds: Mapping[ProcessKey, str | None],
) -> Session:
    record = case.record or Record(case.agent, case.id, "")
    ours = [link for link in (case.live or ((verdict.link,) if verdict.link else ())) if link is not None]
    main = verdict.link
    row = processes.alive(main.key) if main else None
    turn_failed = verdict.turn == FAILED or verdict.last_turn == FAILED
    return Session(
        id=case.id,
        agent=case.agent,
        status=status_word(verdict.process, verdict.turn),
        process=verdict.process,
        turn=verdict.turn,
        agent_version=record.version,
        last_turn=verdict.last_turn,
        reason=verdict.reason,
        error=record.error if turn_failed else None,
        waiting_for=verdict.waiting_for,
        pid=main.key.pid if main else None,
        process_key=str(main.key) if main else None,
        processes=tuple(entry for link in ours for entry in holders(link, processes, wrappers)),
        suspended=bool(row and row.suspended),
        terminal=terminal_of(row.tty) if row else None,
        cwd=record.cwd or (cwds.get(main.key) if main else None),
        branch=record.branch,
        model=record.model,
        title=record.title,
        prompt=record.prompt,
        started_at=record.started_at,
        updated_at=record.updated_at,
        ended_at=record.updated_at if verdict.process == GONE else None,
        tokens=record.tokens,
        cost_usd=record.cost_usd,
        parent=record.parent,
        forked_from=record.forked_from,
        inferred=verdict.inferred,
        link=main.strength if main else None,
        evidence=evidence_of(case, verdict, processes),
        rule=verdict.rule,
        rejected=tuple(rejected_of(case, processes)),
        store=record.store or (main.store if main else None),
        path=record.path,
    )


def holders(link: Link, processes: Processes, wrappers: set[ProcessKey]) -> list[dict[str, object]]:
    """The process of a link, and the wrappers above it."""
    found: list[dict[str, object]] = [{"pid": link.key.pid, "role": AGENT, "key": str(link.key), "link": link.strength}]
    row = processes.alive(link.key)
    for _ in wrappers:  # at most so many: rows that were read one after the other may name each other as parent
        row = processes.get(row.parent) if row is not None else None
        if row is None or row.key not in wrappers:
            break
        found.append({"pid": row.pid, "role": WRAPPER, "key": str(row.key), "link": None})
    return found


def evidence_of(case: Case, verdict: Verdict, processes: Processes) -> tuple[Evidence, ...]:
    found: list[Evidence] = []
    for link in case.live:
        row = processes.alive(link.key)
        since = f"alive since {clock(processes.started_at(link.key))} (tick {link.key.start})"
        state = f", {row.comm}, state {row.state}" if row else ""
        found.append(Evidence("kernel", f"pid {link.key.pid} is {since}{state}", pid=link.key.pid))
        found.extend(link.evidence)
    for link in case.dead:
        seen = "gone" if processes.gone(link.key) else "not seen"
        found.append(Evidence("kernel", f"pid {link.key.pid} of start tick {link.key.start} is {seen}"))
        found.extend(link.evidence)
    if case.record:
        found.extend(case.record.evidence)
    found.extend(verdict.evidence)
    found.append(Evidence("rule", f"{verdict.rule}: {RULES[verdict.rule]}", inferred=verdict.inferred))
    return tuple(found)


def rejected_of(case: Case, processes: Processes) -> list[str]:
    """The processes that were looked at and are not it, each with its reason."""
    found = []
    for link in case.dead:
        row = processes.by_pid.get(link.key.pid)
        if row is None or processes.alive(link.key):
            continue
        if row.key == link.key:
            found.append(f"pid {row.pid} is a zombie: dead, not yet reaped")
        else:
            was, now = (clock(processes.started_at(key)) for key in (link.key, row.key))
            found.append(f"pid {row.pid} is alive but started {now}, not {was}: another process ({row.comm})")
    found.extend(f"pid {claim.key.pid} may be on it, which cannot be proved: {claim.why}" for claim in case.blockers)
    return found


def clock(moment: float) -> str:
    from time import localtime, strftime

    try:
        return strftime("%H:%M:%S", localtime(moment))
    except (OverflowError, OSError, ValueError):
        return "at no time"  # of a start that somebody made up


def unattached_of(claim: Claim) -> Unattached:
    return Unattached(claim.agent, claim.key.pid, claim.cwd, claim.why, claim.candidates or ())
