"""A verdict written out: the session that people and programs see, with the evidence and what was set aside.

Pure, like the judge: nothing is decided here.
"""

from __future__ import annotations

from agentctl.model import (
    AGENT,
    FAILED,
    GONE,
    INTERRUPTED,
    WRAPPER,
    Claim,
    Evidence,
    Exit,
    Link,
    ProcessKey,
    Record,
    Session,
    Unattached,
    status_word,
    terminal_of,
)
from agentctl.world import RULES

RULE_FACTS = {
    (rule, inferred): Evidence("rule", f"{rule}: {words}", inferred=inferred)
    for rule, words in RULES.items()
    for inferred in (False, True)
}
CLOCKS_DIFFER = 1.0  # seconds: an agent may note a time that is rounded

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
    host: str | None = None,
) -> Session:
    """All fields in their order: thousands are made at once, and of nearly all of them there is only a record."""
    record = case.record or Record(case.agent, case.id, "")
    process, turn, last_turn, main = verdict.process, verdict.turn, verdict.last_turn, verdict.link
    ours = case.live or ((main,) if main else ())
    row = processes.alive(main.key) if main else None
    launch = case.launched.launch if case.launched else None
    end = exit_of(case, verdict) if launch else None
    written = record.updated_at
    return Session(
        case.id,  # id
        case.agent,  # agent
        status_word(process, turn),  # status
        process,  # process
        turn,  # turn
        record.version,  # agent_version
        last_turn,  # last_turn
        with_exit(verdict.reason, turn, end) if end else verdict.reason,  # reason
        record.error if FAILED in (turn, last_turn) else None,  # error
        verdict.waiting_for,  # waiting_for
        main.key.pid if main else None,  # pid
        str(main.key) if main else None,  # process_key
        tuple(entry for link in ours for entry in holders(link, processes, wrappers)) if ours else (),  # processes
        bool(row and row.suspended),  # suspended
        terminal_of(row.tty) if row else None,  # terminal
        record.cwd or (cwds.get(main.key) if main else None) or (launch.cwd if launch else None),  # cwd
        record.branch,  # branch
        record.model,  # model
        record.title,  # title
        record.prompt or (launch.prompt if launch else None),  # prompt
        record.started_at,  # started_at
        written,  # updated_at
        (end.at if end and end.at else written) if process == GONE else None,  # ended_at
        end.exit_code if end else None,  # exit_code
        end.signal if end else None,  # signal
        record.tokens,  # tokens
        record.cost_usd,  # cost_usd
        record.parent,  # parent
        record.forked_from,  # forked_from
        launch.group if launch else None,  # group
        launch.slot if launch else None,  # slot
        launch.id if launch else None,  # launch_id
        host,  # host
        verdict.inferred,  # inferred
        main.strength if main else None,  # link
        evidence_of(case, verdict, processes, end),  # evidence
        verdict.rule,  # rule
        tuple(rejected_of(case, processes)) if case.dead or case.blockers else (),  # rejected
        record.store or (main.store if main else None),  # store
        record.path,  # path
    )


def exit_of(case: Case, verdict: Verdict) -> Exit | None:
    """How the process that our runner started ended, if it was the last one on this session: what was written later was
    written by another."""
    if case.launched is None or verdict.process != GONE:
        return None
    end = next((one for one in case.launched.exits if one.direct), None)
    written = case.record.updated_at if case.record else None
    if end is None or (written is not None and end.at is not None and written > end.at + CLOCKS_DIFFER):
        return None
    return end


def with_exit(reason: str | None, turn: str, end: Exit | None) -> str | None:
    """What a transcript cannot say: by which signal it was ended."""
    if end is None or end.signal is None or turn != INTERRUPTED:
        return reason
    return f"{reason}; ended by {end.signal}" if reason else f"ended by {end.signal}"


def launch_facts(case: Case, end: Exit | None, processes: Processes) -> list[Evidence]:
    if case.launched is None:
        return []
    launch = case.launched.launch
    found = [Evidence("launch", f"launched by agentctl as {launch.id} at {clock(launch.created_at)}", launch.path)]
    if end is not None:
        how = f"signal {end.signal}" if end.signal else f"exit code {end.exit_code}"
        found.append(Evidence("launch", f"its runner saw it end: {how}", launch.path))
    elif processes.gone(launch.child) and processes.gone(launch.runner) and not case.launched.exits:
        found.append(Evidence("launch", "its runner ended before it: how it ended was seen by nobody", launch.path))
    return found


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


def evidence_of(case: Case, verdict: Verdict, processes: Processes, end: Exit | None) -> tuple[Evidence, ...]:
    rule = RULE_FACTS[verdict.rule, verdict.inferred]
    if not (case.live or case.dead or case.launched or verdict.evidence):
        return (*case.record.evidence, rule) if case.record else (rule,)
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
    if case.launched:
        found.extend(launch_facts(case, end, processes))
    found.extend(verdict.evidence)
    found.append(rule)
    return tuple(found)


def rejected_of(case: Case, processes: Processes) -> list[str]:
    """The processes that were looked at and are not it, each with its reason."""
    found = []
    for link in case.dead:
        row = processes.row(link.key.pid)
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


def unattached_of(claim: Claim, launch_id: str | None) -> Unattached:
    return Unattached(claim.agent, claim.key.pid, claim.cwd, claim.why, claim.candidates or (), launch_id)
