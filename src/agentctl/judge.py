"""The judge: what is true of every session, from one reading of the world. Pure: no I/O, no clock, no agent names.

Absence is not death: a session has ended only by one of RULES, and each answer names the rule that decided.
"""

from __future__ import annotations

from agentctl.model import (
    AGENT,
    ALIVE,
    CLOSED_TURNS,
    DAEMON,
    DONE,
    EXACT,
    FAILED,
    GONE,
    IDLE,
    INTERRUPTED,
    SOLE,
    SPARE,
    UNKNOWN,
    WAITING,
    WORKING,
    WRAPPER,
    Claim,
    Evidence,
    Judgement,
    Link,
    ProcessKey,
    Record,
    Session,
    StoreView,
    Supervisor,
    Unattached,
    Value,
    status_word,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from agentctl.processes import Processes

Name = tuple[str, str]  # (agent, session id)

RULES = {
    "alive": "a live process is proved to be on it, or is the only one that can be",
    "closed": "no process is on it, and its last turn is closed in its store",
    "key-gone": "the process recorded for it is proved gone, in mid-turn",
    "exhausted": "the process table is complete for its store, and no live process of its agent can be on it",
    "supervised": "its agent's own daemon lives and still has it as unfinished: it may be brought back",
    "candidate": "a live process may be on it, and it cannot be told whether it is",
    "unseen": "the process table is not complete for its store: a missing process proves nothing",
    "elsewhere": "its process was recorded where we cannot look: another PID namespace or machine",
    "newer": "its record was written after the process table was read, so the table says nothing of its writer",
    "parent": "a sub-agent, in its parent's process",
    "unread": "its store could not be read, or says nothing of its turn",
}


class World(Value):
    """Everything that is known at one moment."""

    processes: Processes
    stores: tuple[StoreView, ...] = ()
    records: tuple[Record, ...] = ()
    links: tuple[Link, ...] = ()
    claims: tuple[Claim, ...] = ()
    supervisors: tuple[Supervisor, ...] = ()


class Case(Value):
    """What concerns one session."""

    agent: str
    id: str
    record: Record | None
    live: tuple[Link, ...]
    dead: tuple[Link, ...]
    store: StoreView | None
    blockers: tuple[Claim, ...]
    supervisors: tuple[Supervisor, ...]


class Verdict(Value):
    process: str
    turn: str
    rule: str
    reason: str | None = None
    last_turn: str | None = None
    waiting_for: str | None = None
    inferred: bool = False
    link: Link | None = None
    evidence: tuple[Evidence, ...] = ()


def judge(world: World) -> Judgement:
    all_links = (*world.links, *sole_links(world))
    links = group((link.agent, link.id, link) for link in all_links)
    records = newest(world.records)
    held = {link.key for link in all_links if world.processes.alive(link.key)}
    loose = [claim for claim in world.claims if is_loose(claim, held, world.processes)]
    possible = [claim for claim in world.claims if may_be_on_any(claim, world.processes)]
    supervisors = group((one.agent, one.id, one) for one in world.supervisors if world.processes.alive(one.key))

    verdicts: dict[Name, tuple[Case, Verdict]] = {}
    for name in sorted(set(records) | set(links)):
        case = build_case(name, records.get(name), links.get(name, []), possible, supervisors.get(name, []), world)
        verdicts[name] = case, decide(case, world)
    for name, (case, _) in verdicts.items():
        parent = case.record.parent if case.record else None
        if parent is not None and not case.live and (case.agent, parent) in verdicts:
            verdicts[name] = case, decide_child(case, verdicts[case.agent, parent][1])
    wrappers = {claim.key for claim in world.claims if claim.role == WRAPPER}
    cwds = {claim.key: claim.cwd for claim in world.claims if claim.role == AGENT}
    return Judgement(
        tuple(session_of(case, verdict, world.processes, wrappers, cwds) for case, verdict in verdicts.values()),
        tuple(unattached_of(claim) for claim in sorted(loose, key=claim_order) if claim.shown),
    )


def group(entries: Iterable[tuple[str, str, object]]) -> dict[Name, list]:  # type: ignore[type-arg]
    found: dict[Name, list[object]] = {}
    for agent, id, value in entries:
        found.setdefault((agent, id), []).append(value)
    return found


def newest(records: Iterable[Record]) -> dict[Name, Record]:
    """One record per session: of two files of one session the one written last."""
    found: dict[Name, Record] = {}
    for record in records:
        name = (record.agent, record.id)
        if name not in found or age_order(record) > age_order(found[name]):
            found[name] = record
    return found


def age_order(record: Record) -> tuple[float, str, str]:
    return (record.updated_at or 0.0, record.path or "", record.store)


def is_loose(claim: Claim, held: set[ProcessKey], processes: Processes) -> bool:
    """A live process that can be on a session, and no session has it."""
    return claim.role in (AGENT, SPARE) and claim.key not in held and processes.alive(claim.key) is not None


def may_be_on_any(claim: Claim, processes: Processes) -> bool:
    """A live process that may be on a session without a proof of it: also one that has another session, or a daemon."""
    return claim.role in (AGENT, DAEMON) and claim.candidates != () and processes.alive(claim.key) is not None


def may_be_on(claim: Claim, name: Name, store: str | None) -> bool:
    if claim.agent != name[0] or claim.role not in (AGENT, DAEMON):
        return False
    if claim.store is not None and store is not None and claim.store != store:
        return False
    return claim.candidates is None or name[1] in claim.candidates


def sole_links(world: World) -> list[Link]:
    """One process, and only one session it can be on, and no other process that can be on that one."""
    links = group((link.agent, link.id, link) for link in world.links)
    records = newest(world.records)
    held = {link.key for link in world.links if world.processes.alive(link.key)}
    loose = [claim for claim in world.claims if is_loose(claim, held, world.processes)]
    possible = [claim for claim in world.claims if may_be_on_any(claim, world.processes)]
    found = []
    for claim in loose:
        if not claim.sole or claim.candidates is None or len(claim.candidates) != 1:
            continue
        name = (claim.agent, claim.candidates[0])
        record = records.get(name)
        taken = any(world.processes.alive(link.key) for link in links.get(name, ()))
        rivals = [other for other in possible if other is not claim and may_be_on(other, name, claim.store)]
        if record is not None and not taken and not rivals:
            how = "it is the only process that can be on this session, and this the only session it can be on"
            fact = Evidence("rule", f"pid {claim.key.pid}: {how}", pid=claim.key.pid, inferred=True)
            found.append(
                Link(claim.agent, name[1], record.store, claim.key, how, SOLE, inferred=True, evidence=(fact,))
            )
    return found


def build_case(
    name: Name,
    record: Record | None,
    links: list[Link],
    possible: list[Claim],
    supervisors: list[Supervisor],
    world: World,
) -> Case:
    root = record.store if record else (links[0].store if links else None)
    live = [link for link in links if world.processes.alive(link.key)]
    keys = {link.key for link in live}
    blockers = [claim for claim in possible if claim.key not in keys and may_be_on(claim, name, root)]
    return Case(
        agent=name[0],
        id=name[1],
        record=record,
        live=tuple(sorted(live, key=link_order)),
        dead=tuple(sorted((link for link in links if link not in live), key=link_order)),
        store=next((store for store in world.stores if (store.agent, store.root) == (name[0], root)), None),
        blockers=tuple(sorted(blockers, key=claim_order)),
        supervisors=tuple(sorted(supervisors, key=lambda one: (one.key, one.why))),
    )


def claim_order(claim: Claim) -> tuple[str, ProcessKey]:
    return (claim.agent, claim.key)


def link_order(link: Link) -> tuple[bool, int, ProcessKey]:
    """The link that speaks for the session first: exact before sole, then the one that needs a person."""
    urgency = {WAITING: 0, WORKING: 1, IDLE: 2}.get(link.turn or "", 3)
    return (link.strength != EXACT, urgency, link.key)


def decide(case: Case, world: World) -> Verdict:
    if case.live:
        return decide_alive(case)
    if case.supervisors:
        one = case.supervisors[0]
        facts = (Evidence("store", one.why, one.path, one.key.pid),)
        return Verdict(UNKNOWN, disk_turn(case), "supervised", f"may be brought back: {one.why}", evidence=facts)
    if any(link.here is False for link in case.dead):
        why = "its process was recorded in another PID namespace or on another machine, where we cannot look"
        return Verdict(UNKNOWN, disk_turn(case), "elsewhere", why)
    turn = disk_turn(case)
    if case.record is not None and case.record.fresh:
        return Verdict(UNKNOWN, turn, "newer", "it was written while we looked; ask again")
    if turn == UNKNOWN:
        return decide_unread(case, world)
    if turn == WORKING:
        return decide_open(case, world)
    return decide_closed(case, turn, world)


def disk_turn(case: Case) -> str:
    """How the last turn stands by what is written; a process that is gone left what its own file said last."""
    if case.record is not None:
        return case.record.turn
    said = case.dead[0].turn if case.dead else None
    return WORKING if said in (WORKING, WAITING) else (said or UNKNOWN)


def decide_alive(case: Case) -> Verdict:
    link, record = case.live[0], case.record
    last = record.turn if record and record.turn in CLOSED_TURNS else None
    turn, inferred = link.turn, link.inferred or link.strength == SOLE
    reason = link.reason
    if turn is None:
        turn = IDLE if last is not None else (record.turn if record else UNKNOWN)
        inferred = inferred or bool(record and record.inferred)
        reason = reason or (record.reason if record else None)
    if turn == IDLE and last is None and record is not None and record.turn == WORKING and record.path is not None:
        # At its prompt while its last turn has no end: interrupted before an answer, and nothing was written.
        last = INTERRUPTED
    return Verdict(
        ALIVE,
        turn,
        "alive",
        reason,
        last_turn=last,
        waiting_for=link.waiting_for if turn == WAITING else None,
        inferred=inferred,
        link=link,
    )


def proved_gone(case: Case, world: World) -> Link | None:
    """A link whose process is proved to have ended: seen to be gone, in a table that would have shown it."""
    complete = case.store is None or case.store.incomplete is None
    return next((link for link in case.dead if world.processes.gone(link.key) and (link.here or complete)), None)


def decide_open(case: Case, world: World) -> Verdict:
    """No process is on it, and its last turn has no end."""
    record = case.record
    ending = f"; {record.ending}" if record and record.ending else ""
    named = [claim for claim in case.blockers if claim.candidates is not None and len(claim.candidates) == 1]
    gone = proved_gone(case, world)
    if gone is not None and not named:
        why = f"its process (pid {gone.key.pid}) is gone, in mid-turn{ending}"
        return Verdict(GONE, INTERRUPTED, "key-gone", why, last_turn=INTERRUPTED)
    if case.blockers:
        pids = ", ".join(str(claim.key.pid) for claim in case.blockers)
        why = f"in mid-turn, and pid {pids} may be on it: {case.blockers[0].why}"
        return Verdict(UNKNOWN, WORKING, "candidate", why)
    unseen = why_incomplete(case, world)
    if unseen:
        return Verdict(UNKNOWN, WORKING, "unseen", f"in mid-turn, no process seen, but {unseen}")
    why = f"ended in mid-turn: no live process of its agent can be on it{ending}"
    return Verdict(
        GONE, INTERRUPTED, "exhausted", why, last_turn=INTERRUPTED, inferred=bool(record and record.inferred)
    )


def decide_closed(case: Case, turn: str, world: World) -> Verdict:
    """No process is proved to be on it, and its last turn is closed: it keeps its word."""
    record = case.record
    reason = record.reason if record else None
    doubt = why_incomplete(case, world) if proved_gone(case, world) is None else None
    if case.blockers:
        doubt = f"pid {case.blockers[0].key.pid} may be on it: {case.blockers[0].why}"
    if turn == IDLE and case.blockers:
        return Verdict(UNKNOWN, IDLE, "candidate", f"no turn was begun, and {doubt}")
    if turn == IDLE:
        turn, reason = DONE, "it ended at its prompt; no turn was begun"
    return Verdict(
        GONE,
        turn,
        "closed",
        f"{reason}; {doubt}" if doubt and reason else reason,
        last_turn=turn,
        inferred=bool(doubt) or bool(record and record.inferred),
    )


def decide_unread(case: Case, world: World) -> Verdict:
    why = (case.record.reason if case.record else None) or "its store says nothing of its turn"
    gone = proved_gone(case, world) is not None
    return Verdict(GONE if gone else UNKNOWN, UNKNOWN, "unread", why)


def decide_child(case: Case, parent: Verdict) -> Verdict:
    """A sub-agent lives in its parent's process: with an open turn it runs while its parent does."""
    turn = disk_turn(case)
    if turn != WORKING:
        return decide_child_at_rest(case, turn)
    if parent.process == ALIVE and parent.turn in (WORKING, WAITING):
        why = "a sub-agent in mid-turn, in its parent's process"
        return Verdict(ALIVE, WORKING, "parent", why, inferred=True, link=parent.link)
    if parent.process == UNKNOWN or parent.turn == UNKNOWN:
        return Verdict(UNKNOWN, WORKING, "parent", "a sub-agent in mid-turn, and its parent's state is not known")
    why = (
        "a sub-agent in mid-turn, and its parent has ended"
        if parent.process == GONE
        else ("a sub-agent in mid-turn, and its parent is at its prompt")
    )
    return Verdict(GONE, INTERRUPTED, "parent", why, last_turn=INTERRUPTED, inferred=parent.process == ALIVE)


def decide_child_at_rest(case: Case, turn: str) -> Verdict:
    record = case.record
    if turn == UNKNOWN:
        return Verdict(UNKNOWN, UNKNOWN, "unread", record.reason if record else None)
    closed = DONE if turn == IDLE else turn
    return Verdict(GONE, closed, "closed", record.reason if record else None, last_turn=closed)


def why_incomplete(case: Case, world: World) -> str | None:
    return world.processes.hidden or (case.store.incomplete if case.store else None)


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
    while row is not None and (row := processes.get(row.parent)) is not None and row.key in wrappers:
        found.append({"pid": row.pid, "role": WRAPPER, "key": str(row.key), "link": None})
    return found


def terminal_of(tty: int) -> dict[str, str | None] | None:
    """The terminal of a process, from the device number in its row."""
    major, minor = (tty >> 8) & 0xFFF, (tty & 0xFF) | ((tty >> 12) & 0xFFF00)
    if 136 <= major <= 143:
        return {"tty": f"/dev/pts/{minor + (major - 136) * 256}", "tmux": None}
    return {"tty": f"/dev/tty{minor}", "tmux": None} if major == 4 and minor < 64 else None


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

    return strftime("%H:%M:%S", localtime(moment))


def unattached_of(claim: Claim) -> Unattached:
    return Unattached(claim.agent, claim.key.pid, claim.cwd, claim.why, claim.candidates or ())
