"""Turns a verdict into the session that people and programs see, with its evidence and the rejected processes.

Pure, like the judge. It decides nothing.
"""

from __future__ import annotations

from agentctl.model import (
    AGENT,
    ALIVE,
    CLOSED_TURNS,
    FAILED,
    GONE,
    IDLE,
    INTERRUPTED,
    WAITING,
    WORKING,
    WRAPPER,
    Claim,
    Evidence,
    Exit,
    Link,
    Record,
    Session,
    Unattached,
    Value,
    status_word,
    terminal_of,
)
from agentctl.query.world import RULES

RULE_FACTS = {
    (rule, inferred): Evidence("rule", f"{rule}: {words}", inferred=inferred)
    for rule, words in RULES.items()
    for inferred in (False, True)
}
new_session = Session._in_order(
    "id agent status process turn agent_version last_turn reason error waiting_for pid process_key processes suspended "
    "terminal cwd branch model title prompt started_at updated_at ended_at exit_code signal timed_out tokens cost_usd "
    "parent forked_from group slot launch_id host inferred link evidence rule rejected store path may_be_open_in doing "
    "status_since screens questions"
)
NO_EXIT = Exit(None, None, None, None, None)


TYPE_CHECKING = False
if TYPE_CHECKING:
    from agentctl.kernel.processes import Processes
    from agentctl.model import Process, Question
    from agentctl.query.world import Case, Launched, Scene, Verdict


class Holder(Value):
    """What a session shows of the process that is on it."""

    pid: int | None = None
    key: str | None = None
    processes: tuple[dict[str, object], ...] = ()
    suspended: bool = False
    terminal: dict[str, str | None] | None = None
    cwd: str | None = None
    strength: str | None = None
    store: str | None = None
    began: float | None = None
    screens: tuple[dict[str, object], ...] = ()


class Origin(Value):
    """What a session shows of the launch that it came from."""

    id: str | None = None
    cwd: str | None = None
    prompt: str | None = None
    group: str | None = None
    slot: str | None = None
    exit: Exit = NO_EXIT


NO_HOLDER, NOT_LAUNCHED = Holder(), Origin()  # as of nearly all: thousands are shown at once


def session_of(case: Case, verdict: Verdict, scene: Scene) -> Session:
    """Return a judged session as people and programs see it."""
    record = case.record or Record(case.agent, case.id, "")
    process, turn, last_turn, link = verdict.process, verdict.turn, verdict.last_turn, verdict.link
    holder = holder_of(case, link, scene) if link else NO_HOLDER
    origin = origin_of(case, case.launched, verdict) if case.launched else NOT_LAUNCHED
    end = origin.exit
    ended_at = (end.at or record.updated_at) if process == GONE else None
    doing, since = activity_of(case, verdict) if process == ALIVE else (None, ended_at)
    return new_session(
        case.id,  # id
        case.agent,  # agent
        status_word(process, turn),  # status
        process,  # process
        turn,  # turn
        record.version,  # agent_version
        last_turn,  # last_turn
        with_end(verdict.reason, end) if turn == INTERRUPTED or was_timed_out(end, turn) else verdict.reason,  # reason
        record.error if FAILED in (turn, last_turn) else None,  # error
        verdict.waiting_for,  # waiting_for
        holder.pid,  # pid
        holder.key,  # process_key
        holder.processes,  # processes
        holder.suspended,  # suspended
        holder.terminal,  # terminal
        record.cwd or holder.cwd or origin.cwd,  # cwd
        record.branch,  # branch
        record.model,  # model
        record.title,  # title
        record.prompt or origin.prompt,  # prompt
        started_of(case, holder),  # started_at
        record.updated_at,  # updated_at
        ended_at,  # ended_at
        end.exit_code,  # exit_code
        end.signal,  # signal
        was_timed_out(end, turn),  # timed_out
        record.tokens,  # tokens
        record.cost_usd,  # cost_usd
        record.parent,  # parent
        record.forked_from,  # forked_from
        origin.group,  # group
        origin.slot,  # slot
        origin.id,  # launch_id
        scene.host,  # host
        verdict.inferred,  # inferred
        holder.strength,  # link
        evidence_of(case, verdict, scene, end),  # evidence
        verdict.rule,  # rule
        tuple(rejected_of(case, scene.processes))
        if case.dead or case.strangers or is_doubted(case)
        else (),  # rejected
        record.store or holder.store,  # store
        record.path,  # path
        pids_of(case) if not case.live and is_doubted(case) else (),  # may_be_open_in
        doing,  # doing
        since,  # status_since
        holder.screens,  # screens
        questions_of(case, verdict) if turn == WAITING else (),  # questions
    )


def questions_of(case: Case, verdict: Verdict) -> tuple[Question, ...]:
    """Return what a session asks. A sub-agent is in its parent's process, whose link tells what both ask."""
    from agentctl.query.asked import identified

    return identified(verdict.link) if verdict.link is not None and verdict.link.id == case.id else ()


def started_of(case: Case, holder: Holder) -> float | None:
    """Return when a session began; by its process, if there is no record of it yet."""
    return case.record.started_at if case.record is not None else holder.began


def activity_of(case: Case, verdict: Verdict) -> tuple[str | None, float | None]:
    """Return what a live session does, and since when it is in its state."""
    return doing_of(case, verdict), since_of(case, verdict)


def doing_of(case: Case, verdict: Verdict) -> str | None:
    """Return what a live session does. A sub-agent is in its parent's process, whose link tells of the parent."""
    if verdict.link is not None and verdict.link.id == case.id:
        return verdict.link.doing
    return case.record.pending if case.record is not None and verdict.turn == WORKING else None


def since_of(case: Case, verdict: Verdict) -> float | None:
    """Return since when a live session is in its state, if its store says so and the verdict is what the store says."""
    link = verdict.link
    if link is None or link.id != case.id or verdict.turn != (link.turn or disk_state(case)):
        return None
    return link.since


def disk_state(case: Case) -> str | None:
    """Return the turn of a live session by its record, for a link that does not say."""
    if case.record is None:
        return None
    return IDLE if case.record.turn in CLOSED_TURNS else case.record.turn


def holder_of(case: Case, link: Link, scene: Scene) -> Holder:
    """Return what is shown of the process of this link, which speaks for the session, and of the others on it."""
    row = scene.processes.alive(link.key)
    own = terminal_of(row.tty) if row else None
    return Holder(
        link.key.pid,
        str(link.key),
        processes=tuple(entry for each in case.live or (link,) for entry in process_entries(each, scene)),
        suspended=bool(row and (row.suspended or row.key in scene.frozen)),
        terminal=terminal_of(shown.tty) if (shown := first_screen(link, scene.processes)) else own,
        cwd=link.cwd or scene.cwds.get(link.key),
        strength=link.strength,
        store=link.store,
        began=link.began if link.id == case.id else None,
        screens=screens_of(link, scene.processes),
    )


def screens_of(link: Link, processes: Processes) -> tuple[dict[str, object], ...]:
    """Return the screens that show a session of a daemon. A sub-agent is on the screen of its parent."""
    seen = [(row, screen.strength) for screen in link.screens if (row := processes.alive(screen.key)) is not None]
    return tuple(
        {"pid": row.pid, "key": str(row.key), "link": strength, "tty": (terminal_of(row.tty) or {}).get("tty")}
        for row, strength in seen
    )


def first_screen(link: Link, processes: Processes) -> Process | None:
    return next((row for screen in link.screens if (row := processes.alive(screen.key)) is not None), None)


def process_entries(link: Link, scene: Scene) -> list[dict[str, object]]:
    """Return the process of a link, and the wrappers above it."""
    key, processes = link.key, scene.processes
    entries: list[dict[str, object]] = [{"pid": key.pid, "role": AGENT, "key": str(key), "link": link.strength}]
    row = processes.alive(key)
    for _ in scene.wrappers:  # at most so many: rows that were read one after the other may name each other as parent
        row = processes.get(row.parent) if row is not None else None
        if row is None or row.key not in scene.wrappers:
            break
        entries.append({"pid": row.pid, "role": WRAPPER, "key": str(row.key), "link": None})
    return entries


def origin_of(case: Case, launched: Launched, verdict: Verdict) -> Origin:
    launch = launched.launch
    end = exit_of(case, verdict) or NO_EXIT
    return Origin(launch.id, launch.cwd, launch.prompt, launch.group, launch.slot, end)


def exit_of(case: Case, verdict: Verdict) -> Exit | None:
    """Return how the process that our runner started ended, if it is gone and was the last one on this session."""
    if case.launched is None or verdict.process != GONE:
        return None
    return case.launched.last_end(case.record)


def was_timed_out(end: Exit, turn: str) -> bool:
    """Return whether the time limit of its launch stopped it: in mid-turn, or at its prompt. A process that ended in
    good order at that moment was not stopped."""
    killed = end.signal is not None or (end.exit_code or 0) != 0
    return end.time_limit is not None and (turn == INTERRUPTED or (killed and turn != FAILED))


def with_end(reason: str | None, end: Exit) -> str | None:
    """Return the reason with what a transcript cannot say: the time limit that was over, and the signal that ended its
    process."""
    if end.time_limit is not None:
        reason = f"its time limit of {end.time_limit:g} s was over" + (f"; {reason}" if reason else "")
    if end.signal is None:
        return reason
    return f"{reason}; ended by {end.signal}" if reason else f"ended by {end.signal}"


def evidence_of(case: Case, verdict: Verdict, scene: Scene, end: Exit) -> tuple[Evidence, ...]:
    """Return the facts that speak for the verdict, and its rule as the last one."""
    rule = RULE_FACTS[verdict.rule, verdict.inferred]
    stored = case.record.evidence if case.record else ()
    if not (case.live or case.dead or case.launched or verdict.evidence):
        return (*stored, rule)
    facts: list[Evidence] = []
    for link in case.live:
        facts += (fact_of_a_live_process(link, scene.processes), *link.evidence)
        if link.key in scene.frozen:
            facts.append(Evidence("kernel", f"pid {link.key.pid} is frozen by its cgroup", pid=link.key.pid))
    for link in case.dead:
        state = "is gone" if link.key in scene.ended else "is not seen"
        seen = f"lives, but {link.left}" if link.left else state
        fact = Evidence("kernel", f"pid {link.key.pid} of start tick {link.key.start} {seen}")
        facts += (fact, *link.evidence)
    ours = facts_of_a_launch(case.launched, end) if case.launched else ()
    return (*facts, *stored, *ours, *verdict.evidence, rule)


def fact_of_a_live_process(link: Link, processes: Processes) -> Evidence:
    row = processes.alive(link.key)
    since = f"alive since {clock(processes.started_at(link.key))} (tick {link.key.start})"
    state = f", {row.comm}, state {row.state}" if row else ""
    return Evidence("kernel", f"pid {link.key.pid} is {since}{state}", pid=link.key.pid)


def facts_of_a_launch(launched: Launched, end: Exit) -> list[Evidence]:
    launch = launched.launch
    facts = [Evidence("launch", f"launched by agentctl as {launch.id} at {clock(launch.created_at)}", launch.path)]
    if end is not NO_EXIT:
        how = f"signal {end.signal}" if end.signal else f"exit code {end.exit_code}"
        facts.append(Evidence("launch", f"its runner saw it end: {how}", launch.path))
    elif launched.ended and not launched.exits:
        facts.append(Evidence("launch", "its runner ended before it: how it ended was seen by nobody", launch.path))
    return facts


def rejected_of(case: Case, processes: Processes) -> list[str]:
    """Return the processes that were looked at and are not on this session, each with the reason."""
    rejected = []
    for link in case.dead:
        row = processes.row(link.key.pid)
        if link.left is not None and row is not None:
            rejected.append(f"pid {row.pid} is alive ({row.comm}), but {link.left}")
        if row is None or processes.alive(link.key):
            continue
        if row.key == link.key:
            rejected.append(f"pid {row.pid} is a zombie: dead, not yet reaped")
        else:
            was, now = (clock(processes.started_at(key)) for key in (link.key, row.key))
            rejected.append(f"pid {row.pid} is alive but started {now}, not {was}: another process ({row.comm})")
    doubted = (*case.blockers, *case.strangers, *case.unlikely)
    rejected += (f"pid {claim.key.pid} may be on it, which cannot be proved: {claim.why}" for claim in doubted)
    rejected += (f"pid {claim.key.pid} may have it open on its screen: it can show it" for claim in case.screens)
    return rejected


def is_doubted(case: Case) -> bool:
    """Return whether a live process may be on a session, or may show it, without a proof."""
    return bool(case.blockers or case.screens or case.unlikely)


def pids_of(case: Case) -> tuple[int, ...]:
    """Return the pids that may be on a session, or may show it, without a proof."""
    return tuple(sorted({claim.key.pid for claim in (*case.blockers, *case.screens, *case.unlikely)}))


def clock(moment: float) -> str:
    from time import localtime, strftime

    try:
        return strftime("%H:%M:%S", localtime(moment))
    except (OverflowError, OSError, ValueError):
        return "at no time"  # somebody made up this start


def unattached_of(claim: Claim, launch_id: str | None) -> Unattached:
    ids = (*(claim.candidates or ()), *sorted(claim.unlikely))
    return Unattached(claim.agent, claim.key.pid, claim.cwd, claim.why, ids, launch_id, claim.lost)
