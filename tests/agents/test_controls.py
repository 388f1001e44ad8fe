"""How the agents are started and stopped: the words of every command, the ids in what they print, the ways to stop.

That the real agents do what is asked here is proved by the lab (`python -m tests.lab --controls`).
"""

from __future__ import annotations

import json
import uuid
from typing import TYPE_CHECKING, Any

import pytest

from agentctl.agents import TABLE, load_control
from agentctl.agents.claude_code import control
from agentctl.agents.codex import control as codex_control
from agentctl.agents.opencode import control as opencode_control
from agentctl.agents.recipes import BYPASS, DEFAULT, EDITS, PERMISSIONS, PLAN, Task
from agentctl.errors import Refused, UsageError
from agentctl.model import Session
from tests.support.opencode_home import Home
from tests.support.worlds import FIXTURES

if TYPE_CHECKING:
    from pathlib import Path

OUTPUTS = FIXTURES / "outputs"
REAL = ("claude-code", "codex", "opencode")
ID = "21fea0ff-b7f8-46a5-be2e-8c4dbe3e4c9d"
OPENCODE_ID = "ses_e1e58c0eeffel54O10ToqtQcDt"
ODD = "--help\n'it' \"is\" \\ $HOME 🦊 [[x]]"


def task(**more: Any) -> Task:
    return Task(**{"prompt": "hello", "cwd": "/work", "env": {}, **more})


def session(agent: str, id: str = ID, **more: Any) -> Session:
    return Session(**{"id": id, "agent": agent, "status": "done", "process": "gone", "turn": "done"} | more)


def words(agent: str, **more: Any) -> str:
    """The command of a task, the ids taken out."""
    recipe = load_control(agent).start(task(**more))
    return " ".join("ID" if word == recipe.session_id else word for word in recipe.argv)


CLAUDE = "claude -p --output-format stream-json --verbose"
CODEX = "codex exec --json --skip-git-repo-check"
OPENCODE = "opencode run --format json --print-logs --log-level INFO"


@pytest.mark.parametrize(
    ("agent", "more", "wanted"),
    [
        ("claude-code", {}, f"{CLAUDE} --session-id ID"),
        ("claude-code", {"model": "opus"}, f"{CLAUDE} --session-id ID --model opus"),
        ("claude-code", {"permissions": DEFAULT}, f"{CLAUDE} --session-id ID"),
        ("claude-code", {"permissions": PLAN}, f"{CLAUDE} --session-id ID --permission-mode plan"),
        ("claude-code", {"permissions": EDITS}, f"{CLAUDE} --session-id ID --permission-mode acceptEdits"),
        ("claude-code", {"permissions": BYPASS}, f"{CLAUDE} --session-id ID --permission-mode bypassPermissions"),
        (
            "claude-code",
            {"flags": ("--add-dir", "/a", "/b")},
            "claude --add-dir /a /b -p --output-format stream-json --verbose --session-id ID",
        ),
        ("claude-code", {"session": session("claude-code", model="m")}, f"{CLAUDE} --resume ID"),
        ("codex", {}, f"{CODEX} -"),
        ("codex", {"model": "m"}, f"{CODEX} --model m -"),
        ("codex", {"permissions": DEFAULT}, f"{CODEX} -"),
        ("codex", {"permissions": PLAN}, f"{CODEX} --sandbox read-only -"),
        ("codex", {"permissions": EDITS}, f"{CODEX} --sandbox workspace-write -"),
        ("codex", {"permissions": BYPASS}, f"{CODEX} --dangerously-bypass-approvals-and-sandbox -"),
        ("codex", {"flags": ("-i", "a.png")}, "codex exec -i a.png --json --skip-git-repo-check -"),
        ("codex", {"flags": ("--json",)}, "codex exec --json --skip-git-repo-check -"),
        ("codex", {"session": session("codex")}, f"{CODEX} resume ID -"),
        ("codex", {"session": session("codex", model="m")}, f"{CODEX} --model m resume ID -"),
        ("codex", {"session": session("codex", model="m"), "model": "n"}, f"{CODEX} --model n resume ID -"),
        (
            "codex",
            {"session": session("codex", model="m"), "flags": ("-m", "n")},
            "codex exec -m n --json --skip-git-repo-check resume ID -",
        ),
        (
            "codex",
            {"session": session("codex", model="m"), "flags": ("-c", "model=n")},
            "codex exec -c model=n --json --skip-git-repo-check resume ID -",
        ),
        ("opencode", {}, OPENCODE),
        ("opencode", {"model": "p/m"}, f"{OPENCODE} --model p/m"),
        ("opencode", {"permissions": PLAN}, f"{OPENCODE} --agent plan"),
        ("opencode", {"permissions": EDITS}, OPENCODE),
        ("opencode", {"permissions": BYPASS}, f"{OPENCODE} --auto"),
        (
            "opencode",
            {"flags": ("-f", "a", "b", "--log-level", "DEBUG")},
            "opencode run -f a b --log-level DEBUG --format json --print-logs",
        ),
        ("opencode", {"session": session("opencode", cwd="/work")}, f"{OPENCODE} --session ID"),
    ],
)
def test_the_words_of_a_command(agent: str, more: dict[str, Any], wanted: str) -> None:
    assert words(agent, **more) == wanted


SCREENS: list[tuple[str, dict[str, Any], str]] = [
    ("claude-code", {}, "claude --session-id ID -- hello"),
    ("claude-code", {"prompt": ""}, "claude --session-id ID"),
    (
        "claude-code",
        {"flags": ("--add-dir", "/a"), "permissions": PLAN, "model": "opus"},
        "claude --add-dir /a --session-id ID --model opus --permission-mode plan -- hello",
    ),
    ("claude-code", {"session": session("claude-code")}, "claude --resume ID -- hello"),
    ("codex", {}, "codex --no-daemon -- hello"),
    ("codex", {"prompt": ""}, "codex --no-daemon"),
    ("codex", {"flags": ("--no-daemon",), "permissions": PLAN}, "codex --no-daemon --sandbox read-only -- hello"),
    ("codex", {"session": session("codex", model="m")}, "codex --no-daemon --model m resume ID -- hello"),
    ("opencode", {}, "opencode --prompt=hello"),
    ("opencode", {"prompt": "", "flags": ("--port", "4999")}, "opencode --port 4999"),
    ("opencode", {"permissions": BYPASS, "model": "p/m"}, "opencode --model p/m --auto --prompt=hello"),
    ("opencode", {"session": session("opencode", cwd="/work")}, "opencode --session ID --prompt=hello"),
]


@pytest.mark.parametrize(("agent", "more", "wanted"), SCREENS)
def test_the_words_of_a_screen(agent: str, more: dict[str, Any], wanted: str) -> None:
    assert words(agent, interactive=True, **more) == wanted


@pytest.mark.parametrize("agent", TABLE)
def test_a_screen_has_its_prompt_as_one_word_no_input_and_nobody_refused(agent: str) -> None:
    recipe = load_control(agent).start(task(prompt=ODD, interactive=True))
    assert (recipe.input, recipe.said, recipe.late) == (None, None, None)
    assert recipe.argv[-1].endswith(ODD)
    with pytest.raises(UsageError, match="put it into a file"):
        load_control(agent).start(task(prompt="é" * 61_000, interactive=True))


def test_which_screens_have_no_session_before_a_person_types() -> None:
    late = {agent: load_control(agent).start(task(prompt="", interactive=True)).late for agent in TABLE}
    assert [agent for agent, why in late.items() if why] == ["opencode"]
    one = session("opencode", OPENCODE_ID, cwd="/work")
    assert opencode_control.CONTROL.start(task(prompt="", interactive=True, session=one)).late is None


@pytest.mark.parametrize(
    ("agent", "flags"),
    [
        ("claude-code", ("-p",)),
        ("claude-code", ("--print",)),
        ("codex", ("--remote", "x")),
        ("opencode", ("--prompt=x",)),
    ],
)
def test_flags_that_would_break_a_screen_are_refused(agent: str, flags: tuple[str, ...]) -> None:
    with pytest.raises(UsageError, match="cannot be handed on"):
        load_control(agent).start(task(flags=flags, interactive=True))


@pytest.mark.parametrize("agent", TABLE)
@pytest.mark.parametrize("prompt", [ODD, "", "x" * 1024 * 1024])
def test_no_prompt_of_a_headless_run_is_ever_an_argument(agent: str, prompt: str) -> None:
    recipe = load_control(agent).start(task(prompt=prompt))
    assert recipe.input == prompt.encode()
    assert prompt not in recipe.argv or not prompt


def test_a_new_id_each_time_where_it_is_chosen_here() -> None:
    chosen = [control.CONTROL.start(task()).session_id for _ in range(2)]
    assert [uuid.UUID(str(id)).version for id in chosen] == [4, 4]
    assert chosen[0] != chosen[1]


@pytest.mark.parametrize("agent", ["codex", "opencode"])
def test_no_id_where_the_agent_chooses_it(agent: str) -> None:
    assert load_control(agent).start(task()).session_id is None


@pytest.mark.parametrize("agent", TABLE)
def test_a_mode_that_it_does_not_have_is_named_with_those_it_has(agent: str) -> None:
    with pytest.raises(UsageError, match=r"no mode 'root'; it has default"):
        load_control(agent).start(task(permissions="root"))


@pytest.mark.parametrize("agent", REAL)
def test_what_a_headless_run_cannot_do_is_said(agent: str) -> None:
    said = {mode: load_control(agent).start(task(permissions=mode)).said for mode in PERMISSIONS}
    assert said[BYPASS] is None
    assert all("refused" in str(said[mode]) for mode in (DEFAULT, PLAN, EDITS))


def test_what_goes_on_without_rules_is_not_told_that_it_is_refused_something(tmp_path: Path) -> None:
    one = session("claude-code", path=transcript(tmp_path, PROMPT | {"permissionMode": "bypassPermissions"}))
    free = ("claude", "--permission-mode", "bypassPermissions")
    said = control.CONTROL.start(task(session=one, launched_as=free)).said
    assert said == "it goes on in its mode bypassPermissions"
    one = session("codex", path=rollout(tmp_path, {"type": "danger-full-access"}))
    free = ("codex", "exec", "--dangerously-bypass-approvals-and-sandbox")
    said = codex_control.CONTROL.start(task(session=one, launched_as=free)).said
    assert said == "it goes on in its sandbox danger-full-access"


@pytest.mark.parametrize(
    ("launched_as", "mode", "goes_on"),
    [
        ("", "bypassPermissions", False),
        ("", "auto", False),
        ("", "somethingNew", False),
        ("", "acceptEdits", True),
        ("claude --resume x", "bypassPermissions", False),
        ("claude --permission-mode plan", "default", False),
        ("claude --permission-mode plan", "acceptEdits", False),
        ("claude --permission-mode plan", "plan", True),
        ("claude --permission-mode=acceptEdits", "acceptEdits", True),
        ("claude --permission-mode acceptEdits", "bypassPermissions", False),
        ("claude --permission-mode acceptEdits", "plan", True),
        ("claude --dangerously-skip-permissions", "bypassPermissions", True),
    ],
)
def test_claude_gets_no_more_rights_by_what_its_transcript_says(
    tmp_path: Path, launched_as: str, mode: str, goes_on: bool
) -> None:
    one = session("claude-code", path=transcript(tmp_path, {"type": "note", "permissionMode": mode}))
    order = task(session=one, launched_as=tuple(launched_as.split()))
    if goes_on:
        assert mode in control.CONTROL.start(order).argv
    else:
        with pytest.raises(Refused, match=f"was in {mode}.*--permission"):
            control.CONTROL.start(order)
    assert control.CONTROL.start(order._replace(permissions=BYPASS)).argv[-1] == "bypassPermissions"


@pytest.mark.parametrize(
    ("launched_as", "sandbox", "goes_on"),
    [
        ("", "danger-full-access", False),
        ("", "workspace-write", True),
        ("codex exec --sandbox read-only", "workspace-write", False),
        ("codex exec --sandbox workspace-write", "danger-full-access", False),
        ("codex exec -s workspace-write", "read-only", True),
        ("codex exec --dangerously-bypass-approvals-and-sandbox", "danger-full-access", True),
    ],
)
def test_codex_gets_no_more_rights_by_what_its_rollout_says(
    tmp_path: Path, launched_as: str, sandbox: str, goes_on: bool
) -> None:
    one = session("codex", path=rollout(tmp_path, {"type": sandbox}))
    order = task(session=one, launched_as=tuple(launched_as.split()))
    if goes_on:
        assert sandbox in codex_control.CONTROL.start(order).argv
    else:
        with pytest.raises(Refused, match=f"was in {sandbox}.*--permissions"):
            codex_control.CONTROL.start(order)


def test_opencode_gets_no_more_rights_by_what_its_database_says(tmp_path: Path) -> None:
    home = Home(tmp_path)
    home.session("ses_a", 1, "/work")
    home.message("ses_a", 1, "user", agent="build")
    one = session("opencode", "ses_a", cwd="/work", store=str(home.data), path=str(home.path))
    order = task(session=one, cwd="/work", launched_as=("opencode", "run", "--agent", "plan"))
    with pytest.raises(Refused, match="its agent build"):
        opencode_control.CONTROL.start(order)
    assert "build" in opencode_control.CONTROL.start(order._replace(launched_as=())).argv


@pytest.mark.parametrize(
    ("agent", "flags"),
    [
        ("claude-code", ("--resume", ID)),
        ("claude-code", (f"--session-id={ID}",)),
        ("claude-code", ("--bg",)),
        ("claude-code", ("--output-format", "text")),
        ("codex", ("--ephemeral",)),
        ("codex", ("--cd", "/elsewhere")),
        ("codex", ("resume", "--last")),
        ("opencode", ("--session", "ses_x")),
        ("opencode", ("--attach", "http://127.0.0.1:1")),
        ("opencode", ("--format=default",)),
    ],
)
def test_flags_that_would_break_a_launch_are_refused(agent: str, flags: tuple[str, ...]) -> None:
    with pytest.raises(UsageError, match="cannot be handed on"):
        load_control(agent).start(task(flags=flags))


def test_codex_would_begin_a_thread_and_refuse_its_prompt() -> None:
    with pytest.raises(UsageError, match="1048577 characters"):
        codex_control.CONTROL.start(task(prompt="x" * (1024 * 1024 + 1)))


def test_a_sub_agent_of_claude_cannot_go_on() -> None:
    with pytest.raises(UsageError, match="resume the-parent"):
        control.CONTROL.start(task(session=session("claude-code", "a8da5ad719949314e", parent="the-parent")))


def test_opencode_goes_on_in_its_own_directory_only(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path)
    own = session("opencode", OPENCODE_ID, cwd=str(tmp_path), store=str(tmp_path))
    assert opencode_control.CONTROL.start(task(session=own, cwd=str(tmp_path / "link"))).session_id == OPENCODE_ID
    with pytest.raises(UsageError, match="own directory only"):
        opencode_control.CONTROL.start(task(session=own, cwd="/elsewhere"))


# What a session had


def transcript(tmp_path: Path, *records: dict[str, Any]) -> str:
    path = tmp_path / "transcript.jsonl"
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return str(path)


PROMPT = {"type": "user", "message": {"role": "user", "content": 'say "permissionMode":"plan"'}}


@pytest.mark.parametrize(
    ("records", "mode"),
    [
        ([PROMPT | {"permissionMode": "acceptEdits"}], "acceptEdits"),
        ([PROMPT | {"permissionMode": "plan"}, PROMPT | {"permissionMode": "default"}], "default"),
        ([PROMPT | {"permissionMode": "plan"}, PROMPT], "plan"),
        (
            [PROMPT | {"permissionMode": "plan"}, {"type": "permission-mode", "permissionMode": "acceptEdits"}],
            "acceptEdits",
        ),
        ([PROMPT | {"permissionMode": "plan"}, PROMPT | {"permissionMode": "auto", "isSidechain": True}], "plan"),
        ([PROMPT | {"permissionMode": "--dangerously-skip-permissions"}], None),
        ([PROMPT | {"permissionMode": ["plan"]}], None),
        ([PROMPT], None),
    ],
)
def test_claude_goes_on_in_the_mode_of_its_last_prompt(
    tmp_path: Path, records: list[dict[str, Any]], mode: str | None
) -> None:
    one = session("claude-code", path=transcript(tmp_path, *records))
    ending = f" --permission-mode {mode}" if mode else ""
    assert words("claude-code", session=one) == f"{CLAUDE} --resume ID{ending}"


def test_claude_is_told_another_mode(tmp_path: Path) -> None:
    one = session("claude-code", path=transcript(tmp_path, PROMPT | {"permissionMode": "acceptEdits"}))
    assert words("claude-code", session=one, permissions=DEFAULT) == f"{CLAUDE} --resume ID"
    flags = ("--permission-mode", "plan")
    assert words("claude-code", session=one, flags=flags).count("--permission-mode") == 1
    assert "acceptEdits" in str(control.CONTROL.start(task(session=one)).said)


def test_a_transcript_that_is_gone_is_the_agents_to_tell() -> None:
    assert words("claude-code", session=session("claude-code", path="/none")) == f"{CLAUDE} --resume ID"
    assert words("codex", session=session("codex", path="/none")) == f"{CODEX} resume ID -"


def rollout(tmp_path: Path, *sandboxes: object) -> str:
    contexts = ({"type": "turn_context", "payload": {"sandbox_policy": one}} for one in sandboxes)
    return transcript(tmp_path, *contexts, {"type": "event_msg", "payload": {"type": "task_started"}})


@pytest.mark.parametrize(
    ("sandboxes", "wanted"),
    [
        ([{"type": "read-only"}, {"type": "workspace-write"}], "--sandbox workspace-write "),
        ([{"type": "read-only"}, {"type": "--yolo"}], ""),
        (["read-only"], ""),
        ([], ""),
    ],
)
def test_codex_goes_on_in_the_sandbox_of_its_last_turn(tmp_path: Path, sandboxes: list[object], wanted: str) -> None:
    one = session("codex", path=rollout(tmp_path, *sandboxes))
    assert words("codex", session=one) == f"{CODEX} {wanted}resume ID -"


@pytest.mark.parametrize("flags", [("-s", "read-only"), ("--profile=x",), ("-c", "sandbox_mode=read-only")])
def test_codex_is_told_its_sandbox_by_its_own_flags(tmp_path: Path, flags: tuple[str, ...]) -> None:
    one = session("codex", path=rollout(tmp_path, {"type": "danger-full-access"}))
    assert "danger-full-access" not in words("codex", session=one, flags=flags)


def test_codex_reads_a_real_rollout() -> None:
    path = next((FIXTURES / "codex" / "finished_ok").rglob("rollout-*.jsonl"))
    assert codex_control.sandbox_of(session("codex", path=str(path))) == "workspace-write"


def test_opencode_goes_on_as_the_agent_of_its_last_prompt(tmp_path: Path) -> None:
    home = Home(tmp_path)
    home.session("ses_a", 1, "/work")
    home.message("ses_a", 1, "user", agent="build")
    home.message("ses_a", 2, "user", agent="plan")
    home.message("ses_a", 3, "assistant", agent="plan")
    one = session("opencode", "ses_a", cwd="/work", store=str(home.data), path=str(home.path))
    assert words("opencode", session=one) == f"{OPENCODE} --session ID --agent plan"
    assert opencode_control.CONTROL.start(task(session=one)).env == {"OPENCODE_PERMISSION": '{"edit": "deny"}'}
    assert words("opencode", session=one, permissions=DEFAULT) == f"{OPENCODE} --session ID"
    assert words("opencode", session=one, flags=("--agent", "x")).count("--agent") == 1
    home.message("ses_a", 4, "user", agent="--auto")
    assert words("opencode", session=one) == f"{OPENCODE} --session ID"


def test_opencode_keeps_the_rules_that_the_environment_has() -> None:
    env = {"OPENCODE_PERMISSION": '{"bash": "deny", "edit": "ask"}'}
    rules = opencode_control.CONTROL.start(task(permissions=EDITS, env=env)).env
    assert rules == {"OPENCODE_PERMISSION": '{"bash": "deny", "edit": "allow"}'}
    assert opencode_control.CONTROL.start(task(permissions=PLAN)).env == {"OPENCODE_PERMISSION": '{"edit": "deny"}'}
    assert opencode_control.CONTROL.start(task(env=env)).env is None
    with pytest.raises(UsageError, match="OPENCODE_PERMISSION"):
        opencode_control.CONTROL.start(task(permissions=EDITS, env={"OPENCODE_PERMISSION": "allow"}))


# What they print


@pytest.mark.parametrize(
    ("name", "id"),
    [
        ("claude-code-2.1.197", "9f22104e-7bd8-4f60-af2e-4f83cd0caff5"),
        ("claude-code-2.1.325", "50b12ef5-a28c-4d2b-be3e-15aa9439c8e9"),
        ("claude-code-2.1.325-hooks", "4bd18344-188a-45db-8d3d-5f377575cc2c"),
        ("codex-0.166.0", "01a1e1a6-81e0-7052-b9fe-f768cf9204b6"),
        ("opencode-1.18.33", "ses_e1e5938aaffeJMI3W7uQk9nz2h"),
        ("opencode-1.18.33-sub", OPENCODE_ID),  # with a sub-agent, whose session is created later
    ],
)
def test_the_id_in_a_real_output_however_it_is_torn(name: str, id: str) -> None:
    printed_id = load_control(next(agent for agent in REAL if name.startswith(agent))).printed_id
    output = (OUTPUTS / f"{name}.log").read_bytes()
    seen = [printed_id(output[:size]) for size in range(len(output) + 1)]
    assert seen[0] is None
    assert seen[-1] == id
    first = seen.index(id)
    assert set(seen[:first]) == {None}
    assert set(seen[first:]) == {id}
    warned = b"WARNING: proceeding, even though\n\x1b[93m! \x1b[0m{not json\n" + output
    assert printed_id(warned) == id


def test_opencode_says_its_id_in_its_events_where_it_has_no_log() -> None:
    lines = (OUTPUTS / "opencode-1.18.33.log").read_bytes().splitlines(keepends=True)
    events = b"".join(line for line in lines if line.startswith(b"{"))
    assert opencode_control.CONTROL.printed_id(events) == "ses_e1e5938aaffeJMI3W7uQk9nz2h"
    assert opencode_control.CONTROL.printed_id(b"".join(line for line in lines if b"created" not in line)) is not None


@pytest.mark.parametrize("agent", TABLE)
@pytest.mark.parametrize(
    "output",
    [
        b"",
        b"{}\n[]\n1\nnull\n",
        b'{"type":"system","session_id":7}\n{"type":"thread.started","thread_id":null}\n{"sessionID":[]}\n',
        b"Error: No conversation found with session ID: x\n",
        b"\xff\xfe{\n" + b"{" * 5000 + b"\n",
        b'say {"type":"system","session_id":"x"}\nsaid timestamp=1 level=INFO run=1 message=created id=ses_x '
        b"parentID=undefined title=x\n",
    ],
)
def test_what_names_no_session_is_none(agent: str, output: bytes) -> None:
    assert load_control(agent).printed_id(output) is None
