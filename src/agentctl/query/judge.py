"""The judge: what is true of every session, from one reading of the world. Pure: no I/O, no clock, no agent names.

It only looks up rows in the process table. What only the kernel can answer, the look has asked before (`World.ended`).

Absence is not death: a session has ended only by one of RULES (world.py), and each answer names the rule that decided.
"""

from __future__ import annotations

from agentctl.model import (
    AGENT,
    ALIVE,
    CLOSED_TURNS,
    DONE,
    GONE,
    IDLE,
    INTERRUPTED,
    SOLE,
    UNKNOWN,
    WAITING,
    WORKING,
    WRAPPER,
    Claim,
    Evidence,
    Judgement,
    Link,
    Record,
    Unattached,
)
from agentctl.query.cases import (
    case_of,
    claim_order,
    held_keys,
    homes_of,
    is_loose,
    is_older,
    may_be_on,
    may_be_on_any,
    newest,
    sort,
)
from agentctl.query.present import session_of, unattached_of
from agentctl.query.world import Case, Scene, Verdict

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from agentctl.model import Launch
    from agentctl.query.cases import Sorted
    from agentctl.query.world import Name, World


def judge(world: World) -> Judgement:
    """Judge every session. The links of the world include the sole ones already: see `sole_links`."""
    facts = sort(world)
    homes = homes_of(world)
    cases = {name: case_of(name, homes[name], facts) for name in sorted(homes)}
    verdicts = {name: decide(case, world) for name, case in cases.items()}
    verdicts.update(verdicts_of_children(cases, verdicts, homes, facts, world))
    scene = scene_of(world)
    sessions = tuple(session_of(case, verdicts[name], scene) for name, case in cases.items())
    return Judgement(sessions, unattached_in(world))


def scene_of(world: World) -> Scene:
    return Scene(
        world.processes,
        world.ended,
        world.frozen,
        wrappers=frozenset({claim.key for claim in world.claims if claim.role == WRAPPER}),
        cwds={claim.key: claim.cwd for claim in world.claims if claim.role == AGENT},
        host=world.host,
    )


# Live processes without a proof


def unattached_in(world: World) -> tuple[Unattached, ...]:
    """Return the live processes that no session explains: those of this HOME, and those that we launched."""
    held = held_keys(world)
    launch_ids = {key: ours.launch.id for ours in world.launches for key in ours.agents}
    loose = [claim for claim in world.claims if is_loose(claim, held, world.processes)]
    shown = [claim for claim in loose if claim.shown or claim.key in launch_ids]
    return tuple(unattached_of(claim, launch_ids.get(claim.key)) for claim in sorted(shown, key=claim_order))


def sole_links(world: World) -> list[Link]:
    """Return the links that follow from all claims together: the process can be on one session only, and no other
    process can be on that session. The look has their stores observe them, and adds them to the links of the world."""
    held = held_keys(world)
    loose = [claim for claim in world.claims if is_loose(claim, held, world.processes)]
    sole = [(claim, id) for claim in loose if (id := only_candidate(claim)) is not None]
    if not sole:
        return []  # the usual case: no record is looked at
    records, homes = newest(world.records), homes_of(world)
    taken = {(link.agent, link.id) for link in world.links if link.key in held}
    possible = [claim for claim in world.claims if may_be_on_any(claim, held, world.processes)]
    links = []
    for claim, id in sole:
        name = (claim.agent, id)
        able = [other for other in possible if may_be_on(other, name, homes.get(name, set()))]
        if name in records and name not in taken and able == [claim] and not was_of_an_ended_run(records[name], world):
            links.append(sole_link(claim, records[name]))
    return links


def was_of_an_ended_run(record: Record, world: World) -> bool:
    """Return whether a runner of ours saw the process end that was the last to write this session. No other process is
    taken for the one on it: that would be a guess against what was seen."""
    name = (record.agent, record.id)
    ours = (one for one in world.launches if (one.record.agent, one.session_id) == name)
    return any(not one.agents and one.last_end(record) is not None for one in ours)


def only_candidate(claim: Claim) -> str | None:
    """Return the one session that this process can be on, if a single candidate may be taken for its session."""
    ids = claim.candidates
    return ids[0] if claim.sole and ids is not None and len(ids) == 1 else None


def sole_link(claim: Claim, record: Record) -> Link:
    how = "it is the only process that can be on this session, and this the only session it can be on"
    fact = Evidence("rule", f"pid {claim.key.pid}: {how}", pid=claim.key.pid, inferred=True)
    return Link(claim.agent, record.id, record.store, claim.key, how, SOLE, inferred=True, evidence=(fact,))


# The verdict on a session


def decide(case: Case, world: World) -> Verdict:
    """Return the verdict on a session by itself. A sub-agent's is not final: see `decide_child`."""
    if case.live:
        return decide_alive(case, unread_of(case, world))
    turn = disk_turn(case)
    if case.supervisors:
        boss = case.supervisors[0]
        fact = Evidence("store", boss.why, boss.path, boss.key.pid)
        return Verdict(UNKNOWN, turn, "supervised", f"may be brought back: {boss.why}", evidence=(fact,))
    if case.dead and any(link.here is False for link in case.dead):
        why = "its process was recorded in another PID namespace or on another machine, where we cannot look"
        return Verdict(UNKNOWN, turn, "elsewhere", world.processes.blind or why)
    if case.unseen is not None:
        return Verdict(UNKNOWN, turn, "elsewhere", case.unseen)
    launched = case.launched
    if launched is not None and launched.handed and turn in (WORKING, UNKNOWN) and not launched.saw(case.dead):
        rule = "wrapped" if launched.wrapped_by is not None else "handed-on"
        return Verdict(UNKNOWN, turn, rule, launched.handed)
    if case.record is not None and case.record.fresh:
        return Verdict(UNKNOWN, turn, "newer", "it was written while we looked; ask again")
    if turn == UNKNOWN:
        return decide_unread(case, world)
    if turn == WORKING or (case.dead and was_at_work(case)):
        return decide_open(case, world)
    return decide_closed(case, turn, world)


def was_at_work(case: Case) -> str | None:
    """Return the word of a dead process of this session against the end of its last turn: its own file says that it
    was at work, since later, or with more than that turn, so it did not end at its prompt. (That file was read before
    the record.)"""
    end = case.record.updated_at if case.record is not None and case.record.turn != WORKING else None
    if end is None:
        return None
    for link in case.dead:
        if link.turn == WORKING and link.left is None:
            if link.since is not None and link.since > end:
                return "its own file says that it went to work behind the last record of the session"
            if link.reason is not None:
                return link.reason
    return None


def disk_turn(case: Case) -> str:
    """Return how the last turn stands by its record. What a dead process said in its own file counts only if that is
    newer than the record (`was_at_work`): it does not tell how the process ended."""
    return case.record.turn if case.record is not None else UNKNOWN


def unread_of(case: Case, world: World) -> str | None:
    """Return why the store that its process works in could not be read."""
    roots = {link.store for link in case.live}
    reasons = (store.unread for store in world.stores if store.agent == case.agent and store.root in roots)
    return next((why for why in reasons if why), None)


def decide_alive(case: Case, unread: str | None) -> Verdict:
    """Return the verdict on a session that a live process is on."""
    link, record = case.live[0], case.record
    turn, reason, inferred = turn_of(link, record)
    last = last_turn_of(record, turn)
    if turn == UNKNOWN and unread is not None:
        reason = f"its store could not be read: {unread}"
    elif turn in (UNKNOWN, IDLE) and is_before_its_end(case, link):
        turn, last, inferred = WORKING, None, True
        reason = "launched by us with a prompt, and no end of that turn is recorded"
    elif turn == IDLE and is_before_its_prompt(case, link):
        turn, last = UNKNOWN, None
        reason = "prompt not taken yet: agentctl launched it with one, and its store shows no turn since"
    waiting_for = link.waiting_for if turn == WAITING else None
    return Verdict(ALIVE, turn, "alive", reason, last, waiting_for, inferred, link)


def turn_of(link: Link, record: Record | None) -> tuple[str, str | None, bool]:
    """Return turn, reason, and whether it is inferred: by what the process says of itself, else by its record."""
    inferred = link.inferred or link.strength == SOLE
    if link.turn is not None:
        return link.turn, link.reason, inferred
    if record is None:
        return UNKNOWN, link.reason, inferred
    turn = IDLE if record.turn in CLOSED_TURNS else record.turn
    return turn, link.reason or record.reason, inferred or record.inferred


def last_turn_of(record: Record | None, turn: str) -> str | None:
    """Return how the last turn of a live session ended; None if it has not, or that is not known."""
    if record is None:
        return None
    if record.turn in CLOSED_TURNS:
        return record.turn
    # At its prompt while its last turn has no end: it was interrupted before an answer, and wrote nothing of it.
    return INTERRUPTED if turn == IDLE and record.turn == WORKING and record.path is not None else None


def is_before_its_end(case: Case, link: Link) -> bool:
    """Return whether this is a run of ours with one prompt, and its store has no end that is newer than its start. That
    it calls itself idle says nothing: it does so before it takes its prompt, too."""
    launch = launch_on(case, link)
    return launch is not None and launch.headless and launch.one_shot and not has_ended_a_turn(case.record, launch)


def is_before_its_prompt(case: Case, link: Link) -> bool:
    """Return whether we launched this screen with a prompt on this session, and its store shows no turn since."""
    launch, record = launch_on(case, link), case.record
    if launch is None or launch.headless or launch.prompt is None or launch.session_id != case.id:
        return False
    if record is not None and record.turn == WORKING and (record.updated_at or launch.created_at) >= launch.created_at:
        return False
    return not has_ended_a_turn(record, launch)


def launch_on(case: Case, link: Link) -> Launch | None:
    """Return the launch that started the process of this link."""
    launched = case.launched
    return launched.launch if launched is not None and link.key in launched.agents else None


def has_ended_a_turn(record: Record | None, launch: Launch) -> bool:
    """Return whether a turn has ended since this launch, or may have, unread."""
    if record is None or record.turn not in (*CLOSED_TURNS, UNKNOWN):
        return False
    if record.turn == UNKNOWN:
        return True
    if record.started_at is not None and record.started_at >= launch.created_at:
        return True  # this run began the session, so the end is of this run, whatever its clock says by now
    return record.updated_at is None or record.updated_at >= launch.created_at


def proved_gone(case: Case, world: World) -> Link | None:
    """Return a link whose process is proved to have ended: it is gone from a table that would have shown it. This must
    be so for every process that was named for the session: another one may have brought it back."""
    if not case.dead:
        return None
    complete = case.incomplete is None
    gone = all(link.left or (link.key in world.ended and (link.here or complete)) for link in case.dead)
    return case.dead[0] if gone else None


def decide_open(case: Case, world: World) -> Verdict:
    """Return the verdict if no process is on it, and its last turn has no end, or none that can be trusted."""
    ending, inferred = ending_of(case)
    gone = proved_gone(case, world)
    if gone is not None and not case.blockers and not any(claim.proof for claim in case.strangers):
        what = f"lives, but {gone.left}" if gone.left else "is gone, in mid-turn"
        why = f"its process (pid {gone.key.pid}) {what}{ending}"
        inferred = inferred or bool(gone.left and gone.inferred)  # by what its program is called, not by a fact
        return Verdict(GONE, INTERRUPTED, "key-gone", why, last_turn=INTERRUPTED, inferred=inferred)
    if case.blockers:
        return Verdict(UNKNOWN, WORKING, "candidate", f"in mid-turn, and {who_may_be_on(case)}")
    unseen = why_incomplete(case, world)
    if unseen:
        return Verdict(UNKNOWN, WORKING, "unseen", f"in mid-turn, no process seen, but {unseen}")
    if case.strangers:
        rule = "candidate" if any(claim.proof for claim in case.strangers) else "stranger"
        return Verdict(UNKNOWN, WORKING, rule, f"in mid-turn, and {who_may_be_on(case)}")
    if any(claim.key not in held_keys(world) for claim in case.unlikely):
        return Verdict(UNKNOWN, WORKING, "candidate", f"in mid-turn, and {who_may_be_on(case)}")
    why = f"ended in mid-turn: no live process of its agent can be on it{ending}"
    return Verdict(GONE, INTERRUPTED, "exhausted", why, last_turn=INTERRUPTED, inferred=inferred)


def ending_of(case: Case) -> tuple[str, bool]:
    """Return what is known of the end of an open turn, in words, and whether that it was open is inferred."""
    record, against = case.record, was_at_work(case)
    words = "".join(f"; {why}" for why in (record and record.ending, against, case.why_open) if why)
    open_perhaps = bool(record and record.inferred) or against is not None
    return words, open_perhaps or bool(case.screens) or bool(case.unlikely)


def who_may_be_on(case: Case) -> str:
    claims = case.blockers or case.strangers or case.unlikely
    pids = ", ".join(str(claim.key.pid) for claim in claims)
    return f"pid {pids} may be on it: {claims[0].why}"


def decide_closed(case: Case, turn: str, world: World) -> Verdict:
    """Return the verdict if no process is proved to be on it, and its last turn is closed: the turn keeps its word."""
    record = case.record
    reason = record.reason if record else None
    doubt = why_incomplete(case, world)
    if doubt and proved_gone(case, world) is not None:
        doubt = None
    if case.blockers or case.strangers:
        doubt = who_may_be_on(case)
    elif case.screens:
        doubt = f"{doubt}; {case.why_open}" if doubt else case.why_open
    if turn == IDLE and case.blockers:
        return Verdict(UNKNOWN, IDLE, "candidate", f"no turn was begun, and {doubt}")
    if turn == IDLE:
        turn, reason = DONE, "it ended at its prompt; no turn was begun"
    reason = f"{reason}; {doubt}" if doubt and reason else reason or doubt
    inferred = bool(doubt) or bool(record and record.inferred)
    return Verdict(GONE, turn, "closed", reason, turn, None, inferred, None, ())  # all fields: thousands are made


def decide_unread(case: Case, world: World) -> Verdict:
    """Return the verdict if nothing tells how its last turn stands. That it has ended may be known all the same."""
    silent = "its store says nothing of its turn" if case.record else "no record of it was read"
    why = (case.record.reason if case.record else None) or silent
    exhausted = case.record is not None and case.record.parent is None and why_incomplete(case, world) is None
    doubted = case.blockers or case.strangers or case.unlikely
    gone = (exhausted or proved_gone(case, world) is not None) and not doubted
    return Verdict(GONE if gone else UNKNOWN, UNKNOWN, "unread", why, inferred=gone and bool(case.screens))


def why_incomplete(case: Case, world: World) -> str | None:
    """Return why a missing process proves nothing here."""
    return world.processes.hidden or case.incomplete


# Sub-agents


def verdicts_of_children(
    cases: Mapping[Name, Case],
    verdicts: Mapping[Name, Verdict],
    homes: Mapping[Name, set[str]],
    facts: Sorted,
    world: World,
) -> dict[Name, Verdict]:
    """Return the verdicts on the sub-agents. Each depends on the session in whose process it lives, which is no
    sub-agent itself, so that session's verdict is final."""
    children = {}
    for name in [name for name, record in facts.records.items() if record.parent is not None]:
        top = top_of(name, cases)
        if top is not None and top in cases:
            children[name] = decide_child(cases[name], verdicts[name], cases[top], verdicts[top], world)
        elif top is not None:
            children[name] = decide_child(cases[name], verdicts[name], case_of(top, homes[name], facts), None, world)
    return children


def top_of(name: Name, cases: Mapping[Name, Case]) -> Name | None:
    """Return the session in whose process a sub-agent lives; None if this is no sub-agent, or only of itself."""
    passed: list[Name] = []
    while name not in passed:
        passed.append(name)
        case = cases.get(name)
        if case is None or case.live or case.record is None or case.record.parent is None:
            return name if len(passed) > 1 else None
        name = (case.agent, case.record.parent)
    return None


def decide_child(case: Case, own: Verdict, above: Case, parent: Verdict | None, world: World) -> Verdict:
    """Return the verdict on a sub-agent, which is in its parent's process. In mid-turn it runs while its parent runs.
    It has ended only if both have: the parent as if it were in mid-turn, for a closed turn does not end a process."""
    if disk_turn(case) == WORKING and parent is not None and parent.process == ALIVE:
        if own.process == GONE and parent.link and is_older(case.record, parent.link, world.processes):
            why = "a sub-agent in mid-turn, and older than its parent's process: it ended with an earlier one"
            return Verdict(GONE, INTERRUPTED, "parent", why, last_turn=INTERRUPTED, inferred=True)
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
