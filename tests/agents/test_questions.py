"""What sessions ask: of every agent's real files, of calls of all shapes, and that a question has one identity."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from agentctl.agents import asking
from agentctl.agents.asking import TOO_DEEP, Call, detail_of, question_of
from agentctl.agents.claude_code import asking as claude
from agentctl.agents.claude_code.observing import BEHIND, observed_waiting
from agentctl.agents.codex import asking as codex
from agentctl.agents.opencode import api
from agentctl.agents.opencode import asking as opencode
from agentctl.agents.opencode.turn import Tool
from agentctl.cli.asked import lines_of
from agentctl.cli.output import question_json
from agentctl.files.reader import Reader
from agentctl.files.redaction import redact_text
from agentctl.model import WAITING, WORKING, Link, ProcessKey, Question, Record
from agentctl.query.asked import identified, shown
from tests.agents.test_contract import CASES, ask
from tests.agents.test_contract import world as world

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.worlds import FixtureWorld

KEY = ProcessKey("boot", 7, 70)
DEEP = 400
WHICH = [{"label": "A", "description": "a"}, {"label": "B", "description": "b"}]
COLOURS = [{"label": "Red", "description": "the first"}, {"label": "Blue", "description": "the second"}]
# kind, tool, and the command or the options: of every fixture in which a session waits.
ASKED: dict[str, tuple[str, str, Any]] = {
    "claude/bg_waiting_permission": ("permission", "Bash", "touch /labhome/claude/tmp/bgperm"),
    "claude/headless_waiting_permission_stdio": ("permission", "Bash", "touch /labhome/claude/tmp/sj"),
    "claude/waiting_permission": ("permission", "Bash", "sleep 8; touch /labhome/claude/tmp/x1"),
    "claude/waiting_question": ("question", "AskUserQuestion", WHICH),
    "claude-2.1.118/cleared_waiting_question": ("question", "AskUserQuestion", COLOURS),
    "claude-2.1.118/waiting_permission": ("permission", "Bash", "touch forbidden"),
    "claude-2.1.325/headless_waiting_permission_stdio": ("permission", "Bash", "touch /labhome/newclaude/tmp/fx"),
    "claude-2.1.325/headless_waiting_question_stdio": ("question", "AskUserQuestion", WHICH),
    "claude-2.1.325/waiting_dialog_open_mid_turn": ("permission", "Bash", "touch /labhome/newclaude/tmp/auto2"),
    "claude-2.1.325/waiting_question_interactive": ("question", "AskUserQuestion", WHICH),
    "codex/waiting_approval": ("permission", "exec_command", "touch /home/user/work/zz9"),
    "codex/waiting_approval_daemon": ("permission", "exec_command", "touch /home/user/work/zz9"),
    "opencode/waiting_permission": ("permission", "bash", "sleep 12"),
}


@pytest.mark.parametrize(("world", "agent", "state"), CASES, indirect=["world"])
def test_a_session_asks_if_it_waits_and_only_then(world: FixtureWorld, agent: str, state: str) -> None:
    first, again = (ask(world, agent, since=0.0).sessions for _ in range(2))
    asking_ones = [session for session in first if session.questions]
    assert asking_ones == [session for session in first if session.status == "waiting"]
    assert [one.questions for one in first] == [one.questions for one in again]  # the same id at every look
    if f"{agent}/{state}" not in ASKED:
        assert asking_ones == []
        return
    ((question,),) = [session.questions for session in asking_ones]
    kind, tool, what = ASKED[f"{agent}/{state}"]
    assert (question.kind, question.tool, question.by, question.answerable) == (kind, tool, "main", None)
    assert len(question.id) == 12 and question.own and question.asked_at
    assert question.detail is not None
    if kind == "permission":
        assert (question.detail, question.options) == ({"command": what}, None)
    else:
        (asked,) = question.detail["questions"]
        assert asked["options"] == what
        assert question.options == tuple(option["label"] for option in what)


# The shapes of calls

DETAILS: list[tuple[dict[str, Any], dict[str, Any] | None]] = [
    ({"command": "make", "description": "build"}, {"command": "make"}),
    ({"cmd": ["ls", "-l"]}, {"command": "ls -l"}),
    ({"file_path": "/a", "old_string": "x\ny", "new_string": "z"}, {"path": "/a", "diff": "-x\n-y\n+z"}),
    ({"filePath": "/a", "content": "new"}, {"path": "/a", "diff": "+new"}),
    (
        {"file_path": "/a", "edits": [{"old_string": "1", "new_string": "2"}, {"old_string": "3", "new_string": ""}]},
        {"path": "/a", "diff": "-1\n+2\n-3"},
    ),
    ({"filepath": "/a", "diff": "@@ -1 +1 @@\n-a\n+b"}, {"path": "/a", "diff": "@@ -1 +1 @@\n-a\n+b"}),
    ({"patch": "*** Begin Patch"}, {"path": None, "diff": "*** Begin Patch"}),
    ({"plan": "first this"}, {"plan": "first this"}),
    ({"url": "https://x.example", "prompt": "p"}, {"url": "https://x.example"}),
    ({"file_path": "/a"}, {"path": "/a"}),
    ({"query": 1, "deep": {"x": [2]}}, {"input": {"query": 1, "deep": {"x": [2]}}}),
    ({}, None),
    ({"command": 5}, {"input": {"command": 5}}),  # hostile: of another type
    ({"questions": "none"}, {"input": {"questions": "none"}}),
    ({"edits": "none", "file_path": ["/a"]}, {"input": {"edits": "none", "file_path": ["/a"]}}),
]


@pytest.mark.parametrize(("given", "detail"), DETAILS)
def test_what_a_call_would_do(given: dict[str, Any], detail: dict[str, Any] | None) -> None:
    assert detail_of(given) == (detail, None)


def test_what_an_agent_wrote_cannot_break_an_answer(tmp_path: Path) -> None:
    """Nested too deeply for those who walk through it, numbers that JSON does not have, ids that are no texts."""
    deep: Any = []
    for _ in range(DEEP):
        deep = [deep]
    call = {"id": {"a": [1]}, "name": ["Bash"], "input": {"deep": deep, "none": float("nan"), "most": float("inf")}}
    odd = {"type": "user", "message": {"content": [{"type": "tool_result", "tool_use_id": ["x"]}]}}
    paths = transcripts(tmp_path, s=[PROMPT, answer(call), odd])
    found = claude.questions(link(), paths, Reader("demo", str(tmp_path)))
    (question,) = identified(link()._replace(asks=found))
    assert (question.own, question.tool) == (None, None)
    text = json.dumps(question_json(shown(question, redact_text)), allow_nan=False)
    assert TOO_DEEP in text
    assert [name for name, _ in lines_of([question])] == ["asks", "input"]


def test_several_questions_are_one_call_and_have_no_options_of_their_own() -> None:
    one = {"question": "Which?", "options": ["A", {"label": "B"}, 5, {"description": "nameless"}]}
    detail, options = detail_of({"questions": [one]})
    assert options == ("A", "B")
    detail, options = detail_of({"questions": [one, {"question": "And?", "multiSelect": True}]})
    assert detail is not None and options is None
    assert [(each["question"], each["multiple"]) for each in detail["questions"]] == [("Which?", False), ("And?", True)]


# Which call is asked about


def link(words: str = "permission prompt", **fields: Any) -> Link:
    return Link("demo", "s", "/store", KEY, "how", turn=WAITING, waiting_for=words, **fields)


def answer(*calls: dict[str, Any], id: str = "m1") -> dict[str, Any]:
    return {"type": "assistant", "message": {"id": id, "content": [{"type": "tool_use", **call} for call in calls]}}


def result(id: str) -> dict[str, Any]:
    content = [{"type": "tool_result", "tool_use_id": id, "content": "ok"}]
    return {"type": "user", "message": {"role": "user", "content": content}}


def bash(id: str, command: str = "make") -> dict[str, Any]:
    return {"id": id, "name": "Bash", "input": {"command": command}}


PROMPT = {"type": "user", "message": {"role": "user", "content": "go"}}
TASK = {"id": "t0", "name": "Task", "input": {"prompt": "do"}}


def transcripts(folder: Path, **lines: list[dict[str, Any]]) -> dict[str, str]:
    paths = {}
    for name, records in lines.items():
        path = folder / f"{name}.jsonl"
        path.write_text("".join(json.dumps(record) + "\n" for record in records))
        paths[name] = str(path)
    return paths


@pytest.mark.parametrize(
    ("records", "own"),
    [
        ([PROMPT, answer(bash("t1"))], "t1"),
        ([PROMPT, answer(bash("t1")), result("t1"), answer(bash("t2"), id="m2")], "t2"),
        ([PROMPT, answer(bash("t1")), answer(bash("t2")), result("t1")], "t2"),  # two records of one answer
        ([PROMPT, answer(bash("t1"), bash("t2"))], None),  # nothing tells which one
        ([PROMPT, answer(bash("t1")), result("t1")], None),
        ([PROMPT, answer(bash("t1")), PROMPT], None),  # a call that was never answered, and a new prompt
        ([PROMPT], None),
        ([], None),
    ],
)
def test_the_call_without_a_result_is_asked_about(
    tmp_path: Path, records: list[dict[str, Any]], own: str | None
) -> None:
    (question,) = claude.questions(link(), transcripts(tmp_path, s=records), Reader("demo", str(tmp_path)))
    assert (question.own, question.kind) == (own, "permission")
    assert (question.tool, question.by) == (("Bash", "main") if own else (None, None))


def test_one_of_several_calls_is_asked_about(tmp_path: Path) -> None:
    """The record ends with the last call: a person must not take that one for what is asked."""
    paths = transcripts(tmp_path, s=[PROMPT, answer(bash("t1", "git push --force")), answer(bash("t2", "ls"))])
    seen = link("permission prompt: Bash: ls")
    asked = claude.questions(seen, paths, Reader("demo", str(tmp_path)), "t2")
    assert asking.words_for(seen, asked) == "permission prompt: one of 2 calls: Bash: git push --force; Bash: ls"
    calls = [("c1", "exec_command", "git push --force"), ("c2", "exec_command", "ls")]
    seen = link("approval: ls")
    asked = codex.questions(seen, calls, None, Reader("demo", str(tmp_path)))
    assert asking.words_for(seen, asked) == "approval: one of 2 calls: git push --force; ls"


def test_what_a_sub_agent_asks_is_in_the_words_of_its_session(tmp_path: Path) -> None:
    paths = transcripts(tmp_path, s=[PROMPT, answer(TASK)], child=[PROMPT, answer(bash("t1", "rm -r build"))])
    seen = link("permission prompt: Task")
    asked = claude.questions(seen, paths, Reader("demo", str(tmp_path)), "t0")
    assert asking.words_for(seen, asked) == "permission prompt: Bash: rm -r build (sub-agent child)"
    alone = claude.questions(link(), transcripts(tmp_path, s=[PROMPT, answer(bash("t1"))]), Reader("demo", "/x"), "t1")
    assert asking.words_for(link("permission prompt: Bash: make"), alone) == "permission prompt: Bash: make"


def test_a_prompt_that_was_written_behind_its_answer(tmp_path: Path) -> None:
    paths = transcripts(tmp_path, s=[answer(bash("t1")), PROMPT])
    reader = Reader("demo", str(tmp_path))
    (question,) = claude.questions(link(), paths, reader, "t1")
    assert question.own == "t1"
    (question,) = claude.questions(link(), paths, reader, None)
    assert question.own is None  # a call that was never answered, and a new prompt


def test_the_call_before_is_not_what_is_asked(tmp_path: Path) -> None:
    """The file of a process says that it asks before its transcript has the call: the newest one there has run."""
    paths = transcripts(tmp_path, s=[PROMPT, answer(bash("t1", "sleep 3"))])
    record = Record("claude-code", "s", "/store", WORKING, pending="Bash: sleep 3", pending_id="t1", updated_at=97.0)
    asks = link("permission prompt", since=100.0)
    behind = observed_waiting(asks, record, 100.1)
    assert (behind.waiting_for, behind.doubt) == ("permission prompt", BEHIND)
    (question,) = claude.questions(behind, paths, Reader("demo", str(tmp_path)), "t1")
    assert (question.own, question.detail, question.kind) == (None, None, "permission")
    for its, now in ((record, 110.0), (record._replace(updated_at=99.9), 100.1)):  # it waits for long; it is new
        seen = observed_waiting(asks, its, now)
        assert seen.waiting_for == "permission prompt: Bash: sleep 3"
        (question,) = claude.questions(seen, paths, Reader("demo", str(tmp_path)), "t1")
        assert question.own == "t1"


def test_a_question_that_is_new_is_looked_at_twice() -> None:
    record = Record("claude-code", "s", "/store", WORKING, pending="Bash: make", pending_id="t1", updated_at=99.9)
    asks = link("permission prompt", since=100.0)
    assert observed_waiting(asks, record, 100.1).doubt is not None
    assert observed_waiting(asks, record, 101.0).doubt is None
    assert observed_waiting(asks._replace(since=None), record, 101.0).doubt is None


def test_a_sub_agent_asks(tmp_path: Path) -> None:
    main = [PROMPT, answer(TASK)]
    reader = Reader("demo", str(tmp_path))
    paths = transcripts(
        tmp_path, s=main, a1=[PROMPT, answer(bash("t1"))], a2=[PROMPT, answer(bash("t2")), result("t2")]
    )
    (question,) = claude.questions(link(), paths, reader)
    assert (question.own, question.by) == ("t1", "a1")
    paths = transcripts(tmp_path, s=main, a1=[PROMPT, answer(bash("t1"))], a2=[PROMPT, answer(bash("t2"))])
    (question,) = claude.questions(link(), paths, reader)
    assert (question.own, question.by, question.detail) == (None, None, None)  # one asks, one may run


def test_a_question_of_a_person_is_told_from_a_command_that_runs_beside_it(tmp_path: Path) -> None:
    asks = {"id": "t2", "name": "AskUserQuestion", "input": {"questions": [{"question": "Which?"}]}}
    paths = transcripts(tmp_path, s=[PROMPT, answer(TASK), answer(asks)], a1=[PROMPT, answer(bash("t1"))])
    (question,) = claude.questions(link("input needed"), paths, Reader("demo", str(tmp_path)))
    assert (question.own, question.kind, question.by) == ("t2", "question", "main")


def test_a_plan_is_shown_if_the_call_has_it(tmp_path: Path) -> None:
    reader = Reader("demo", str(tmp_path))
    for given, detail in (({"plan": "1. tests"}, {"plan": "1. tests"}), ({}, None)):
        call = {"id": "t1", "name": "ExitPlanMode", "input": given}
        (question,) = claude.questions(link(), transcripts(tmp_path, s=[PROMPT, answer(call)]), reader)
        assert (question.kind, question.detail) == ("plan", detail)


def test_what_cannot_be_read_may_be_what_is_asked(tmp_path: Path) -> None:
    paths = transcripts(tmp_path, s=[PROMPT, answer(bash("t1"))])
    (tmp_path / "folder").mkdir()
    reader = Reader("demo", str(tmp_path))
    (question,) = claude.questions(link(), {**paths, "a1": str(tmp_path / "folder")}, reader)
    assert (question.own, question.detail, question.summary) == (None, None, "permission prompt")
    assert [gap.path for gap in reader.gaps] == [str(tmp_path / "folder")]


def test_a_call_that_is_too_long_is_not_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(claude, "LIMIT", 1000)
    paths = transcripts(tmp_path, s=[PROMPT, answer(bash("t1", "x" * 5000))], a1=[PROMPT, answer(bash("t2"))])
    (question,) = claude.questions(link(), paths, Reader("demo", str(tmp_path)))
    assert question.own is None


def test_a_line_that_is_not_whole_may_be_what_is_asked(tmp_path: Path) -> None:
    paths = transcripts(tmp_path, s=[PROMPT, answer(bash("t1"))])
    with open(paths["s"], "a") as file:
        file.write(json.dumps(answer(bash("t2")))[:60])
    (question,) = claude.questions(link(), paths, Reader("demo", str(tmp_path)))
    assert question.own is None


def rollout(folder: Path, *calls: dict[str, Any]) -> str:
    path = folder / "rollout.jsonl"
    lines = [{"type": "response_item", "timestamp": "2026-11-15T18:37:18.707Z", "payload": call} for call in calls]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return str(path)


def test_codex_asks_about_one_call(tmp_path: Path) -> None:
    path, reader = tmp_path, Reader("demo", str(tmp_path))
    questions = {"questions": [{"id": "q", "question": "Which?", "options": [{"label": "A"}]}]}
    run = {"type": "function_call", "name": "exec_command", "call_id": "c1", "arguments": json.dumps({"cmd": "make"})}
    patch = {"type": "custom_tool_call", "name": "apply_patch", "call_id": "c2", "input": "*** Begin Patch\n+x"}
    asks = {
        "type": "function_call",
        "name": "request_user_input",
        "call_id": "c3",
        "arguments": json.dumps(questions),
    }
    file = rollout(path, run, patch, asks)
    pending = {"c1": ("c1", "exec_command", "make"), "c2": ("c2", "apply_patch", "apply_patch")}
    (question,) = codex.questions(link("approval: make"), [pending["c1"]], file, reader)
    assert (question.kind, question.own, question.detail) == ("permission", "c1", {"command": "make"})
    (question,) = codex.questions(link("approval: apply_patch"), [pending["c2"]], file, reader)
    assert (question.tool, question.detail) == ("apply_patch", {"path": None, "diff": "*** Begin Patch\n+x"})
    (question,) = codex.questions(link("approval"), [*pending.values()], file, reader)
    assert (question.kind, question.own, question.detail) == ("permission", None, None)
    told = [*pending.values(), ("c3", "request_user_input", "Which?")]
    (question,) = codex.questions(link("input: Which?"), told, file, reader)
    assert (question.kind, question.own, question.options) == ("question", "c3", ("A",))
    (question,) = codex.questions(link("approval: make"), [pending["c1"]], str(path / "gone"), reader)
    assert (question.own, question.tool, question.detail) == ("c1", "exec_command", None)


def tool(call: str = "call_1", name: str = "bash", **given: Any) -> Tool:
    return Tool(name, call, str(next(iter(given.values()), "")), 5.0, quiet=True, given=given)


def permission(call: str | None = "call_1", name: str = "bash", session: str = "s", **metadata: Any) -> api.Answer:
    given: dict[str, Any] = {"id": "per_1", "sessionID": session, "permission": name, "metadata": metadata}
    if call is not None:
        given["tool"] = {"messageID": "msg", "callID": call}
    return api.Answer({}, {}, (api.Request(session, f"permission: {name}", given),))


def test_one_question_through_two_channels_is_one() -> None:
    """OpenCode's interface and its database both tell of it; either may be silent for a while."""
    for name, asked, given in (
        ("bash", "bash", {"command": "make"}),
        ("write", "edit", {"filePath": "/a", "content": "x"}),
    ):
        tools = [("s", tool(name=name, **given))]
        (by_database,) = opencode.questions(link(), tools, None)
        (by_api,) = opencode.questions(link(), tools, [permission(name=asked, **given)])
        assert by_api == by_database
        if name == asked:  # what the interface says before the database has the call
            for early in ([], [("s", Tool(name, "call_1", "", 5.0))]):  # its input comes last
                told = opencode.questions(link(since=5.0), early, [permission(name=asked, **given)])
                assert told == (by_api,)
        twice = [permission(name=asked, **given), permission(name=asked, **given)]  # two directories of one process
        assert opencode.questions(link(), tools, twice) == (by_api,)


def test_two_permissions_for_one_call_are_two_questions() -> None:
    tools = [("s", tool(command="make"))]
    (outside,) = opencode.questions(link(), tools, [permission(name="external_directory", command="make")])
    (itself,) = opencode.questions(link(), tools, [permission(command="make")])
    assert outside.own != itself.own
    assert outside.detail == itself.detail == {"command": "make"}


def test_opencode_without_its_database_and_by_a_sub_agent() -> None:
    (question,) = opencode.questions(link(), [], [permission(command="make")])
    assert (question.own, question.tool, question.detail) == ("call_1", "bash", {"command": "make"})
    (question,) = opencode.questions(link(), [], [permission(call=None, command="make")])
    assert question.own == "per_1"
    tools = [("s", Tool("task", "call_0", "", 1.0, child="child")), ("child", tool(command="make"))]
    for answers in (None, [permission(session="child", command="make")]):
        (question,) = opencode.questions(link(), tools, answers)
        assert (question.by, question.own) == ("child", "call_1")
    both = [("s", tool(command="make")), ("s", tool("call_2", command="test"))]
    (question,) = opencode.questions(link(), both, None)
    assert question.own is None
    assert opencode.questions(link(), both, [permission(session="other")])[0].own is None


def test_without_a_call_only_the_words_are_known() -> None:
    assert asking.vague(link("a person", since=3.0), None) == (Question(None, None, "a person", asked_at=3.0),)
    question = question_of(Call("c", "Bash", {}, at=4.0), "permission", "x", link())
    assert question.asked_at == 4.0
    assert question_of(Call("c", "Bash", {}, at=4.0), "permission", "x", link(since=3.0)).asked_at == 3.0


def test_every_question_is_of_a_fixture() -> None:
    assert ASKED.keys() <= {f"{agent}/{state}" for agent, state in (case.values[1:] for case in CASES)}
