"""The judge: what is true of every session, from one reading of the world. Pure: no I/O, no clock, no agent names.

Absence is not death: a session has ended only by one of RULES (world.py), and each answer names the rule that decided.
"""

from __future__ import annotations

from agentctl.findings import session_of, unattached_of
from agentctl.model import (
    AGENT,
    ALIVE,
    CLOSED_TURNS,
    DAEMON,
    DONE,
    EXACT,
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
)
from agentctl.world import Case, Verdict

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Mapping

    from agentctl.processes import Processes
    from agentctl.world import Name, World


def judge(world: World) -> Judgement:
    all_links = (*world.links, *sole_links(world))
    links = group((link.agent, link.id, link) for link in all_links)
    records = newest(world.records)
    homes = homes_of(world)
    held = {link.key for link in all_links if world.processes.alive(link.key)}
    loose = [claim for claim in world.claims if is_loose(claim, held, world.processes)]
    possible: dict[str, list[Claim]] = {}
    for claim in world.claims:
        if may_be_on_any(claim, held, world.processes):
            possible.setdefault(claim.agent, []).append(claim)
    supervisors = group((boss.agent, boss.id, boss) for boss in world.supervisors if world.processes.alive(boss.key))
    launches = group((one.record.agent, one.session_id, one) for one in world.launches if one.session_id)
    started = group((one.launch.agent, key, one) for one in world.launches for key in one.agents)

    def case_of(name: Name, roots: set[str]) -> Case:
        """What concerns this one. Everything is looked up: thousands of sessions are judged at once, and of nearly all
        of them there is only a record."""
        agent, mine = name[0], links.get(name, ())
        live = [link for link in mine if world.processes.alive(link.key)] if mine else []
        keys = {link.key for link in live} if live else set()
        able, bosses = possible.get(agent, ()), supervisors.get(name, ())
        blockers = [claim for claim in able if claim.key not in keys and may_be_on(claim, name, roots)] if able else ()
        ours = launches.get(name, ())
        if keys:
            ours = [*ours, *(one for key in keys for one in started.get((agent, key), ()))]
        return Case(
            agent,
            name[1],
            records.get(name),
            tuple(sorted(live, key=link_order)) if live else (),
            tuple(sorted((link for link in mine if link not in live), key=link_order)) if mine else (),
            next((why for of, root, why in incomplete if of == agent and root in roots), None) if incomplete else None,
            tuple(sorted(blockers, key=claim_order)) if blockers else (),
            tuple(sorted(bosses, key=lambda one: (one.key, one.why))) if bosses else (),
            max(ours, key=lambda one: (one.launch.created_at, one.launch.id)) if ours else None,
        )

    incomplete = sorted((one.agent, one.root, one.incomplete) for one in world.stores if one.incomplete)

    launch_ids = {key: one.launch.id for one in world.launches for key in one.agents}

    cases = {name: case_of(name, homes[name]) for name in sorted(homes)}
    verdicts = {name: (case, decide(case, world)) for name, case in cases.items()}
    for name in [name for name, record in records.items() if record.parent is not None]:
        case, own = verdicts[name]
        top = top_of(name, cases)
        if top in cases:  # the verdict of what is no sub-agent is final
            verdicts[name] = case, decide_child(case, own, cases[top], verdicts[top][1], world)
        elif top is not None:
            verdicts[name] = case, decide_child(case, own, case_of(top, homes[name]), None, world)
    wrappers = {claim.key for claim in world.claims if claim.role == WRAPPER}
    cwds = {claim.key: claim.cwd for claim in world.claims if claim.role == AGENT}
    return Judgement(
        tuple(session_of(*both, world.processes, wrappers, cwds, world.host) for both in verdicts.values()),
        tuple(
            unattached_of(claim, launch_ids.get(claim.key))
            for claim in sorted(loose, key=claim_order)
            if claim.shown or claim.key in launch_ids
        ),
    )


def group(entries: Iterable[tuple[str, Hashable, object]]) -> dict[tuple[str, Hashable], list]:  # type: ignore[type-arg]
    found: dict[tuple[str, Hashable], list[object]] = {}
    for agent, id, value in entries:
        found.setdefault((agent, id), []).append(value)
    return found


def newest(records: Iterable[Record]) -> dict[Name, Record]:
    """One record per session: of two files of one session the one written last. Fresh if one of them is."""
    found: dict[Name, Record] = {}
    for record in records:
        name = (record.agent, record.id)
        other = found.get(name)
        if other is not None:
            record = max(record, other, key=age_order)._replace(fresh=record.fresh or other.fresh)
        found[name] = record
    return found


def age_order(record: Record) -> tuple[float, str, str]:
    return (record.updated_at or 0.0, record.path or "", record.store)


def is_loose(claim: Claim, held: set[ProcessKey], processes: Processes) -> bool:
    """A live process that can be on a session, and no session has it."""
    return claim.role in (AGENT, SPARE) and claim.key not in held and processes.alive(claim.key) is not None


def may_be_on_any(claim: Claim, held: set[ProcessKey], processes: Processes) -> bool:
    """A live process that may be on a session without a proof of it."""
    if processes.alive(claim.key) is None:
        return False
    return claim.many if claim.role == DAEMON else claim.role == AGENT and (claim.many or claim.key not in held)


def may_be_on(claim: Claim, name: Name, roots: set[str]) -> bool:
    if claim.agent != name[0] or claim.role not in (AGENT, DAEMON):
        return False
    if claim.store is not None and claim.store not in roots:
        return False
    return claim.candidates is None or name[1] in claim.candidates


def homes_of(world: World) -> dict[Name, set[str]]:
    """The stores that have each session."""
    found: dict[Name, set[str]] = {}
    named: tuple[Record | Link, ...] = (*world.records, *world.links)
    for one in named:
        found.setdefault((one.agent, one.id), set()).add(one.store)
    return found


def sole_links(world: World) -> list[Link]:
    """One process, and only one session it can be on, and no other process that can be on that one."""
    held = {link.key for link in world.links if world.processes.alive(link.key)}
    loose = [claim for claim in world.claims if is_loose(claim, held, world.processes)]
    sole = [claim for claim in loose if claim.sole and claim.candidates is not None and len(claim.candidates) == 1]
    if not sole:
        return []  # as mostly: then no record is looked at
    links = group((link.agent, link.id, link) for link in world.links)
    records = newest(world.records)
    homes = homes_of(world)
    possible = [claim for claim in world.claims if may_be_on_any(claim, held, world.processes)]
    found = []
    for claim in sole:
        name = (claim.agent, (claim.candidates or ("",))[0])
        record = records.get(name)
        taken = any(world.processes.alive(link.key) for link in links.get(name, ()))
        able = [other for other in possible if may_be_on(other, name, homes.get(name, set()))]
        if record is not None and not taken and able == [claim]:
            how = "it is the only process that can be on this session, and this the only session it can be on"
            fact = Evidence("rule", f"pid {claim.key.pid}: {how}", pid=claim.key.pid, inferred=True)
            found.append(
                Link(claim.agent, name[1], record.store, claim.key, how, SOLE, inferred=True, evidence=(fact,))
            )
    return found


def claim_order(claim: Claim) -> tuple[str, ProcessKey]:
    return (claim.agent, claim.key)


def link_order(link: Link) -> tuple[bool, int, ProcessKey, str, str]:
    """The link that speaks for the session first: exact before sole, then the one that needs a person."""
    urgency = {WAITING: 0, WORKING: 1, IDLE: 2}.get(link.turn or "", 3)
    return (link.strength != EXACT, urgency, link.key, link.store, link.path or "")


def decide(case: Case, world: World) -> Verdict:
    if case.live:
        return decide_alive(case, unread_of(case, world))
    if case.supervisors:
        one = case.supervisors[0]
        facts = (Evidence("store", one.why, one.path, one.key.pid),)
        return Verdict(UNKNOWN, disk_turn(case), "supervised", f"may be brought back: {one.why}", evidence=facts)
    if case.dead and any(link.here is False for link in case.dead):
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
    """How the last turn stands by what is written. What a dead process said in its own file was read before it was
    seen to be gone, and does not tell how it ended."""
    return case.record.turn if case.record is not None else UNKNOWN


def unread_of(case: Case, world: World) -> str | None:
    """Why nothing could be read of the store that its process works in."""
    stores = {link.store for link in case.live}
    mine = (one for one in world.stores if one.agent == case.agent and one.root in stores)
    return next((one.unread for one in mine if one.unread), None)


def decide_alive(case: Case, unread: str | None) -> Verdict:
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
    if turn == UNKNOWN and unread is not None:
        reason = f"its store could not be read: {unread}"
    elif turn in (UNKNOWN, IDLE) and is_before_its_end(case, link):
        turn, last, inferred = WORKING, None, True
        reason = "launched by us with a prompt, and no end of that turn is recorded"
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


def is_before_its_end(case: Case, link: Link) -> bool:
    """A run of ours that was given one prompt, and whose store has no end that is newer than its start."""
    one, record = case.launched, case.record
    if one is None or link.key not in one.agents or not (one.launch.headless and one.launch.one_shot):
        return False
    if record is not None and record.turn == UNKNOWN:
        return False  # an end that was not read may be there
    if record is None or record.turn not in CLOSED_TURNS:
        return link.turn != IDLE  # what it says of itself
    if record.started_at is not None and record.started_at >= one.launch.created_at:
        return False  # begun by this run, so its end is of this run, whatever its clock says by now
    return record.updated_at is not None and record.updated_at < one.launch.created_at


def proved_gone(case: Case, world: World) -> Link | None:
    """A link whose process is proved to have ended: seen to be gone, in a table that would have shown it. Every process
    that was named for the session must be: it may have been brought back by another."""
    if not case.dead:
        return None
    complete = case.incomplete is None
    gone = all(world.processes.gone(link.key) and (link.here or complete) for link in case.dead)
    return case.dead[0] if gone else None


def decide_open(case: Case, world: World) -> Verdict:
    """No process is on it, and its last turn has no end."""
    record = case.record
    ending = f"; {record.ending}" if record and record.ending else ""
    inferred = bool(record and record.inferred)
    gone = proved_gone(case, world)
    if gone is not None and not case.blockers:
        why = f"its process (pid {gone.key.pid}) is gone, in mid-turn{ending}"
        return Verdict(GONE, INTERRUPTED, "key-gone", why, last_turn=INTERRUPTED, inferred=inferred)
    if case.blockers:
        return Verdict(UNKNOWN, WORKING, "candidate", f"in mid-turn, and {who_may_be_on(case)}")
    unseen = why_incomplete(case, world)
    if unseen:
        return Verdict(UNKNOWN, WORKING, "unseen", f"in mid-turn, no process seen, but {unseen}")
    why = f"ended in mid-turn: no live process of its agent can be on it{ending}"
    return Verdict(GONE, INTERRUPTED, "exhausted", why, last_turn=INTERRUPTED, inferred=inferred)


def who_may_be_on(case: Case) -> str:
    pids = ", ".join(str(claim.key.pid) for claim in case.blockers)
    return f"pid {pids} may be on it: {case.blockers[0].why}"


def decide_closed(case: Case, turn: str, world: World) -> Verdict:
    """No process is proved to be on it, and its last turn is closed: it keeps its word."""
    record = case.record
    reason = record.reason if record else None
    doubt = why_incomplete(case, world)
    if doubt and proved_gone(case, world) is not None:
        doubt = None
    if case.blockers:
        doubt = who_may_be_on(case)
    if turn == IDLE and case.blockers:
        return Verdict(UNKNOWN, IDLE, "candidate", f"no turn was begun, and {doubt}")
    if turn == IDLE:
        turn, reason = DONE, "it ended at its prompt; no turn was begun"
    reason = f"{reason}; {doubt}" if doubt and reason else reason or doubt
    inferred = bool(doubt) or bool(record and record.inferred)
    return Verdict(GONE, turn, "closed", reason, turn, None, inferred, None, ())  # all fields: thousands are made


def decide_unread(case: Case, world: World) -> Verdict:
    silent = "its store says nothing of its turn" if case.record else "no record of it was read"
    why = (case.record.reason if case.record else None) or silent
    # How it ended cannot be told, but that it has may be: nothing can be on it.
    exhausted = case.record is not None and case.record.parent is None and why_incomplete(case, world) is None
    gone = (exhausted or proved_gone(case, world) is not None) and not case.blockers
    return Verdict(GONE if gone else UNKNOWN, UNKNOWN, "unread", why)


def top_of(name: Name, cases: Mapping[Name, Case]) -> Name | None:
    """The session in whose process a sub-agent lives; None for one that is no sub-agent, or only of itself."""
    passed: list[Name] = []
    while name not in passed:
        passed.append(name)
        case = cases.get(name)
        if case is None or case.live or case.record is None or case.record.parent is None:
            return name if len(passed) > 1 else None
        name = (case.agent, case.record.parent)
    return None


def decide_child(case: Case, own: Verdict, above: Case, parent: Verdict | None, world: World) -> Verdict:
    """A sub-agent lives in its parent's process: with an open turn it runs while its parent does, and it has ended
    only if both have: the parent as if it were in mid-turn, for a closed turn does not end a process."""
    if disk_turn(case) == WORKING and parent is not None and parent.process == ALIVE:
        if parent.turn in (WORKING, WAITING):
            why = "a sub-agent in mid-turn, in its parent's process"
            return Verdict(ALIVE, WORKING, "parent", why, inferred=True, link=parent.link)
        if own.process == GONE and parent.link is not None and parent.link.turn == IDLE:
            why = "a sub-agent in mid-turn, and its parent is at its prompt"
            return Verdict(GONE, INTERRUPTED, "parent", why, last_turn=INTERRUPTED, inferred=True)
    if disk_turn(case) != WORKING or own.process == UNKNOWN:
        return own
    unsure = parent.process != GONE if parent is not None else bool(above.supervisors)
    if unsure or decide_open(above, world).process == UNKNOWN:
        return Verdict(UNKNOWN, WORKING, "parent", "a sub-agent in mid-turn, and its parent's state is not known")
    if parent is None:
        return own
    why = "a sub-agent in mid-turn, and its parent has ended"
    return Verdict(GONE, INTERRUPTED, "parent", why, last_turn=INTERRUPTED, inferred=own.inferred)


def why_incomplete(case: Case, world: World) -> str | None:
    return world.processes.hidden or case.incomplete
