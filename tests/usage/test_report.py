"""What sessions have spent, on real files: counted by hand, and the same for `status` as for `usage`."""

from __future__ import annotations

import json
import shutil
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from agentctl.agents import load, load_all, load_usage
from agentctl.agents.usage_base import OPEN, PAID, UNPAID, Paid, Spent, settle
from agentctl.files.reader import Reader
from agentctl.model import Tokens
from agentctl.query import roots
from agentctl.usage import query
from agentctl.usage.report import Price, Row, bar, cost_of, fits, human, in_order, money, price_of
from agentctl.usage.sums import SLOT, Known, Sum
from tests.support.worlds import FIXTURES, NAMES, rebuild, states

if TYPE_CHECKING:
    from agentctl.usage.query import Spending


def spent(env: dict[str, str], by: str = "session", agents: list[str] | None = None, **more: Any) -> Spending:
    prices = more.pop("prices", [])
    return query.spent(query.Question(by, **more), load_all(agents), prices, env, lambda done, whole: None)


def env_of(home: Path, **more: str) -> dict[str, str]:
    folders = {f"XDG_{name}_HOME": str(home / f"own-{name.lower()}") for name in ("CACHE", "CONFIG", "DATA", "STATE")}
    return {"HOME": str(home), "AGENTCTL_HOME": str(home / "own-state"), **folders, **more}


def by_session(found: Spending) -> dict[str, tuple[Any, ...]]:
    return {
        str(row.key): (tuple(row.tokens._asdict().values()), row.cost_usd, row.session.parent if row.session else None)
        for row in found.rows
    }


# Counted by hand, line by line. The fake models of the lab answer every call of an agent with the same usage:
# Claude Code 11 input, 42 output, 5 read from the cache, 7 written to it; Codex 1000, 50, 400, 0 and 10 of reasoning;
# OpenCode 800, 40, 200, 0 and 10, and older versions 50 of output. So a count is the number of answers: of Claude Code
# the distinct message ids (not the lines, and not `<synthetic>` ones), of Codex the response ids, of OpenCode the
# messages with tokens that are not older than their session.
CLAUDE = (11, 42, 5, 7, None)
CODEX = (1000, 50, 400, 0, 10)
OPENCODE = (800, 40, 200, 0, 10)
OLDER_OPENCODE = (800, 50, 200, 0, 10)
COUNTED: dict[str, dict[str, tuple[int, tuple[int | None, ...], float | None, str | None]]] = {
    # lines 6 and 7 are one message, line 9 is another
    "claude/usage_repeated_lines": {"67c30c86": (2, CLAUDE, None, None)},
    # lines 6, 8; line 7 repeats the sub-agent's last usage in its result. The sub-agent: lines 3 and 4, 6
    "claude/subagent_finished": {"518991b3": (2, CLAUDE, None, None), "ab4ec759": (2, CLAUDE, None, "518991b3")},
    # lines 8 and 9, 11, 21 and 22, 27, 29; line 17 is synthetic
    "claude/api_error_retrying": {"99b7f3e8": (5, CLAUDE, None, None)},
    "claude/finished_exit_interactive": {"59a22e2d": (4, CLAUDE, None, None)},  # lines 12, 16, 18, 23
    # lines 27 and 28, 35 and 36
    "claude-2.1.325/bg_worker_respawned": {"21fea0ff": (2, CLAUDE, None, None)},
    # lines 20, 29 and 30, 33, 39, 42, 48, 51; its sub-agent has no answer yet
    "claude-2.1.325/headless_streaming_subagent_running": {"305e11f3": (7, CLAUDE, None, None)},
    # line 18; line 22 is its own record of the cost
    "claude-2.1.325/finished_ok_headless": {"bbb7d11d": (1, CLAUDE, 0.00092, None)},
    "claude-2.1.325/sigint_headless_mid_tool": {"20a74045": (1, CLAUDE, 0.00092, None)},  # lines 19 and 20, and 23
    "claude-2.1.325/sigterm_headless_mid_model": {},
    "codex/finished_ok": {"01a1e07f-6a0d": (2, CODEX, None, None)},  # resp_36, resp_37
    # resp_54, resp_55; the sub-agent: resp_56
    "codex/running_subagent": {
        "01a1e080-6695": (2, CODEX, None, None),
        "01a1e080-6823": (1, CODEX, None, "01a1e080-6695-7df0-85e1-720ade5d264a"),
    },
    "codex/idle_background_terminal": {"01a1e083-899c": (2, CODEX, None, None)},  # resp_1, resp_3
    "codex/api_error": {},
    "opencode/finished_ok": {"ses_e1f7a9cf": (2, OPENCODE, 0.00184, None)},
    # The fork has three copies of older messages, and one of its own
    "opencode/subagent_and_fork": {
        "ses_e1f8a41a": (2, OPENCODE, 0.00184, None),
        "ses_e1f8752e": (2, OPENCODE, 0.00184, None),
        "ses_e1f874e2": (1, OPENCODE, 0.00092, "ses_e1f8752e2ffetyfbHbPcaNb08a"),
        "ses_e1f8292a": (1, OPENCODE, 0.00092, None),
    },
    "opencode/legacy_1.0.185_storage": {"ses_e1f7cc1a": (2, OLDER_OPENCODE, 0.00188, None)},
    # Forks: an answer, then a fork with a copy of it, and one more answer there
    "usage/claude-2.1.197_headless_fork": {"69f22496": (1, CLAUDE, None, None), "c07d9898": (1, CLAUDE, None, None)},
    "usage/claude-2.1.197_interactive_fork": {"21eae1bb": (1, CLAUDE, None, None), "b05428b1": (1, CLAUDE, None, None)},
    # The fork's record of the cost has the other's in it: 0.00184 for both, which nobody can take apart
    "usage/claude-2.1.325_headless_fork": {"4cefa35e": (1, CLAUDE, 0.00092, None), "3d76f4e0": (1, CLAUDE, None, None)},
    "usage/claude-2.1.325_interactive_fork": {
        "3ae6b5b5": (1, CLAUDE, 0.00092, None),
        "e02fb255": (1, CLAUDE, None, None),
    },
    # Its running total has the parent's response in it
    "usage/codex_interactive_fork": {"01a1e23e-f538": (1, CODEX, None, None), "01a1e23f-0ad8": (1, CODEX, None, None)},
}


def place(state: str, folder: Path) -> dict[str, str]:
    shutil.copytree(FIXTURES / state, folder / "home")
    home = folder / "home"
    data = str(home / "xdg_data")
    return env_of(
        home, CLAUDE_CONFIG_DIR=str(home / ".claude"), CODEX_HOME=str(home / "codex_home"), XDG_DATA_HOME=data
    )


@pytest.mark.parametrize("state", COUNTED)
def test_as_counted_by_hand(state: str, tmp_path: Path) -> None:
    env = place(state, tmp_path)
    expected = {}
    for id, (calls, each, cost, parent) in COUNTED[state].items():
        expected[id] = (tuple(None if one is None else calls * one for one in each), cost, parent)
    for _ in range(2):  # the second time from the index
        found = by_session(spent(env))
        whole = {next(id for id in found if id.startswith(prefix)): values for prefix, values in expected.items()}
        assert {id: (tokens, cost) for id, (tokens, cost, _) in found.items()} == {
            id: (tokens, cost) for id, (tokens, cost, _) in whole.items()
        }
        for id, (_, _, parent) in whole.items():
            assert (found[id][2] or "").startswith(parent or "") and bool(found[id][2]) == bool(parent)


@pytest.mark.parametrize(("agent", "state"), states(), ids=lambda value: str(value))
def test_status_counts_the_same(agent: str, state: str, tmp_path: Path) -> None:
    """Of each session and sub-agent of every fixture: its own record, and its row."""
    world = rebuild(agent, state, tmp_path)
    env = {**env_of(tmp_path / "home"), **world.env}
    found = spent(env, agents=[NAMES[agent]])
    assert found.problems == ()
    rows = {row.key: row for row in found.rows}
    (root,) = roots.known([load(NAMES[agent])], env)[NAMES[agent]]
    store = load(NAMES[agent]).open_store(root)
    store.survey()
    counted = 0
    ids = set(store.find(""))
    for id in sorted(ids | {child for one in ids for child in store.children(one)}):
        record = store.record(id, tokens=True)
        assert record is not None
        if record.tokens is None:
            assert id not in rows
            continue
        counted += 1
        assert rows[id].tokens == record.tokens
        assert rows[id].cost_usd == pytest.approx(record.cost_usd)
    assert counted == len(rows)


@pytest.mark.parametrize("state", [state for state in COUNTED if state.startswith("usage/claude")])
def test_status_of_a_fork_has_only_its_own(state: str, tmp_path: Path) -> None:
    env = place(state, tmp_path)
    rows = {row.key: row.tokens for row in spent(env).rows}
    store = load("claude-code").open_store(env["CLAUDE_CONFIG_DIR"])
    store.survey()
    for id in store.find(""):
        record = store.record(id, tokens=True)
        assert record is not None and record.tokens == rows[id] == Tokens(11, 42, 5, 7)


def test_all_homes_in_one_give_the_sum_of_all(tmp_path: Path) -> None:
    """By any heading; and one that is in several fixtures (a session at several moments) once."""
    env = env_of(tmp_path)
    seen = set()
    for state in COUNTED:
        folder = FIXTURES / state / ".claude" / "projects"
        for path in sorted(folder.rglob("*.jsonl")) if folder.is_dir() else ():
            project, *rest = path.relative_to(folder).parts
            target = tmp_path / ".claude" / "projects" / f"{state.replace('/', '-')}{project}" / Path(*rest)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, target)
            seen.add(path.stem)
    totals = {by: spent(env, by).total for by in ("day", "agent", "model", "project", "group", "session")}
    assert len(seen) > 10
    assert len({row._replace(session=None) for row in totals.values()}) == 1
    for by, total in totals.items():
        found = spent(env, by)
        assert sum(row.total for row in found.rows) == total.total > 0
        for name in ("input", "output", "cache_read", "cache_write"):
            assert sum(getattr(row.tokens, name) or 0 for row in found.rows) == getattr(total.tokens, name)


# Older Codex rollouts


def event(total: int, last: int) -> dict[str, Any]:
    def usage(count: int) -> dict[str, int]:
        return {"input_tokens": count, "cached_input_tokens": 0, "output_tokens": count, "reasoning_output_tokens": 0}

    return {"type": "token_count", "info": {"total_token_usage": usage(total), "last_token_usage": usage(last)}}


def rollout(path: Path, *payloads: tuple[str, dict[str, Any]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = [{"timestamp": "2026-03-01T10:00:00.000Z", "type": kind, "payload": payload} for kind, payload in payloads]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))


def test_older_rollouts_have_events_that_are_repeated_and_copied_into_forks(tmp_path: Path) -> None:
    """As others found them (these versions are not measured here): three responses in the parent, one in the fork."""
    day = tmp_path / ".codex" / "sessions" / "2026" / "03" / "01"
    parent, fork = (f"0000000{number}-0000-7000-8000-000000000000" for number in (1, 2))
    own = [("event_msg", event(10, 10)), ("event_msg", event(10, 10)), ("event_msg", event(30, 20))]
    meta: tuple[str, dict[str, Any]] = ("session_meta", {"id": parent, "cwd": "/work"})
    rollout(day / f"rollout-2026-03-01T10-00-00-{parent}.jsonl", meta, *own, ("event_msg", event(37, 7)))
    forked = ("session_meta", {"id": fork, "cwd": "/work", "forked_from_id": parent})
    rollout(day / f"rollout-2026-03-01T11-00-00-{fork}.jsonl", forked, meta, *own, ("event_msg", event(35, 5)))
    found = spent(env_of(tmp_path), agents=["codex"])
    assert {str(row.key)[7]: row.tokens.output for row in found.rows} == {"1": 37, "2": 5}
    rollout(
        day / f"rollout-2026-03-01T12-00-00-{parent[:7]}3{parent[8:]}.jsonl", ("event_msg", {"type": "token_count"})
    )
    assert spent(env_of(tmp_path), agents=["codex"]).total.tokens.output == 42


# What it cost


def call(key: int, output: int = 10, model: str = "m", **more: Any) -> Spent:
    return Spent(key, "s", model, 1.0, (1, output, 2, 3, None), 1, output, **more)


def paid(cost: float, output: int, number: int = 1, model: str = "m") -> Paid:
    return Paid(f"s {number}", "s", 1.0, {model: (cost, 100, output, 100, 100)})


def test_a_record_of_the_cost_is_believed_for_what_it_has_counted() -> None:
    found = settle([call(1), call(2), paid(3.0, 20), call(3), paid(9.0, 9, 2), call(4)], {})
    assert {key: one.paid for key, one in found.items()} == {1: PAID, 2: PAID, 3: UNPAID, 4: OPEN}
    assert sum(one.cost or 0.0 for one in found.values()) == pytest.approx(3.0)


def test_a_record_of_the_cost_has_calls_that_are_in_no_transcript() -> None:
    other = Paid("s 1", "s", 1.0, {"m": (1.0, 100, 100, 100, 100), "title": (0.5, 9, 9, 9, 9)})
    found = settle([call(1), other], {})
    assert sorted((one.model, one.cost) for one in found.values()) == [("m", 1.0), ("title", 0.5)]
    assert settle([call(1), Paid("s 1", "s", 1.0, None)], {})[1].paid == UNPAID


def test_the_last_line_of_a_call_counts() -> None:
    found = settle([call(1, 3), call(2), call(1, 42)], {})
    assert found[1].output == 42
    assert settle([call(1, 42)], {1: call(1, 3, paid=PAID)})[1].paid == PAID


def test_the_fork_goes_on_with_a_total_that_is_not_its_own(tmp_path: Path) -> None:
    env = place("usage/claude-2.1.325_headless_fork", tmp_path)
    total = spent(env).total
    assert (total.cost_usd, total.cost_complete) == (0.00092, False)


def sum_of(model: str | None, settled: bool = False, cost: float | None = None) -> Sum:
    return Sum("x", "a", model, settled, (100, 20, 30, 40, None, 1_000_000, 100_000), cost, "1")


def test_prices_are_for_what_is_not_on_record() -> None:
    whole = [Price("other"), Price("gpt-*", 2.0, 10.0, 0.5, 3.0)]
    assert cost_of(sum_of("gpt-5", settled=True, cost=7.0), whole) == (7.0, False)
    estimate = 2.0 + 1.0 + 30 * 0.5 / 1e6 + 40 * 3.0 / 1e6
    cost, estimated = cost_of(sum_of("gpt-5"), whole)
    assert estimated and cost == pytest.approx(estimate)
    assert cost_of(sum_of("o3"), whole) == (None, False)
    assert cost_of(sum_of(None), whole) == (None, False)
    assert cost_of(sum_of("gpt-5"), [Price("gpt-5", 2.0, 10.0)]) == (None, False)  # nothing is said of the cache


@pytest.mark.parametrize(
    ("pattern", "text", "is_it"),
    [
        ("a", "a", True),
        ("a", "ab", False),
        ("a*", "ab", True),
        ("*b", "ab", True),
        ("a*b", "ab", True),
        ("ab*b", "ab", False),
        ("a*c*e", "abcde", True),
        ("a*x*e", "abcde", False),
        ("*", "", True),
    ],
)
def test_patterns(pattern: str, text: str, is_it: bool) -> None:
    assert fits(pattern, text) == is_it
    assert (price_of(text, [Price(pattern)]) is not None) == is_it


def test_estimates_in_rows(tmp_path: Path) -> None:
    env = place("usage/claude-2.1.325_headless_fork", tmp_path)
    price = Price("claude-*", 1.0, 1.0, 1.0, 1.0)
    recorded, estimated = sorted(spent(env, prices=[price]).rows, key=lambda row: row.cost_estimated)
    assert (recorded.cost_usd, recorded.cost_estimated) == (0.00092, False)
    assert (estimated.cost_usd, estimated.cost_estimated, estimated.cost_complete) == (65 / 1e6, True, True)


def test_a_subagent_is_in_the_record_of_its_parent(tmp_path: Path) -> None:
    """Its tokens are its own, its cost is in its parent's: not priced once more."""
    shutil.copytree(FIXTURES / "claude" / "subagent_finished" / ".claude", tmp_path / ".claude")
    (path,) = (tmp_path / ".claude" / "projects").glob("*/*.jsonl")
    usage = {"inputTokens": 44, "outputTokens": 168, "cacheReadInputTokens": 20, "cacheCreationInputTokens": 28}
    line = {"type": "cost-state", "modelUsage": {"claude-opus-4-8": {**usage, "costUSD": 0.5}}}
    price = Price("claude-*", 1.0, 1.0, 1.0, 1.0)
    before = spent(env_of(tmp_path), prices=[price]).total
    assert before.cost_estimated and before.cost_usd == pytest.approx(4 * 65 / 1e6)
    with path.open("a") as file:
        file.write(json.dumps(line) + "\n")
    found = spent(env_of(tmp_path), prices=[price])
    assert (found.total.cost_usd, found.total.cost_estimated, found.total.cost_complete) == (0.5, False, True)
    assert sorted((row.cost_usd, row.tokens.output) for row in found.rows if row.cost_usd) == [(0.5, 84)]


# When


@pytest.mark.parametrize("zone", ["UTC", "Asia/Kathmandu", "America/St_Johns", "Europe/Berlin", "Australia/Lord_Howe"])
def test_days_are_cut_in_the_local_time_zone(zone: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", zone)
    time.tzset()
    try:
        first, last = (int(time.mktime((2026, month, 1, 0, 0, 0, 0, 0, -1)) // SLOT) for month in (1, 12))
        shifts = query.zone(first, last)
        for slot in range(first, last, 7):
            shift = next(shift for before, shift in shifts if slot < before)
            day = query.label((slot + shift) * SLOT // 86400)
            assert day == time.strftime("%Y-%m-%d", time.localtime(slot * SLOT))
    finally:
        monkeypatch.undo()
        time.tzset()


def test_a_span_of_time(tmp_path: Path) -> None:
    env = place("claude/finished_exit_interactive", tmp_path)
    at = 1794767180.0  # between its second and third answer and its fourth: 18:26:20
    assert spent(env, since=at - at % SLOT).total.tokens.output == 168
    assert spent(env, until=at - at % SLOT).total.tokens.output is None
    assert spent(env, since=at + SLOT).total.sessions == 0


# For people


def test_numbers() -> None:
    shown = [human(count) for count in (None, 0, 999, 1000, 1234, 99949, 99950, 999_999, 1_234_567, 2_500_000_000)]
    assert shown == ["-", "0", "999", "1.0k", "1.2k", "99.9k", "100k", "1000k", "1.2M", "2.5G"]
    row = Row("k", Tokens(), 0, 1234.5, True, False, 1)
    assert money(row) == "~$1,234.50+"
    assert money(row._replace(cost_usd=0.00092, cost_estimated=False, cost_complete=True)) == "$0.0009"
    assert money(row._replace(cost_usd=None)) == "-"
    assert [bar(value, 100, 10) for value in (0, 1, 50, 100)] == ["", "#", "#####", "##########"]


def test_sub_agents_stand_behind_their_parent() -> None:
    def row(key: str, total: int, top: str) -> Row:
        return Row(key, Tokens(), total, None, False, False, 1, Known("a", key, None, top, None))

    rows = [row("child", 9, "parent"), row("parent", 5, "parent"), row("other", 7, "other"), row("lost", 8, "gone")]
    assert [one.key for one in in_order(rows, "session")] == ["lost", "other", "parent", "child"]


def test_every_agent_counts() -> None:
    for agent in load_all():
        assert list(load_usage(agent.NAME).folders(Reader("x", "/nowhere"), [])) == []
