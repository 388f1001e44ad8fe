"""The state folder, ids, and what is read back of a launch: also when somebody else wrote it, or half of it."""

from __future__ import annotations

import json
import os
import re
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from agentctl.errors import MissingProgram, NotFound, Refused
from agentctl.files.redaction import redact, redact_text
from agentctl.kernel import recorded
from agentctl.launch.spawn import executable
from agentctl.launches import records as launches
from agentctl.model import Launch, Problem, ProcessKey

if TYPE_CHECKING:
    from collections.abc import Callable

BOOT = "12809862-6756-4bea-9194-571d7e301a05"


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    return {"AGENTCTL_HOME": str(tmp_path / "state"), "HOME": str(tmp_path)}


def facts(id: str, **changes: object) -> dict[str, Any]:
    return {
        "id": id,
        "agent": "demo",
        "argv": ["demo", "-p", "hi"],
        "env_names": ["PATH"],
        "cwd": "/work",
        "hooks": {"on_create": "true"},
        "created_at": "2026-11-15T21:53:44Z",
        "headless": True,
        "one_shot": True,
        "runner": f"{BOOT}:3:532649",
        "child": f"{BOOT}:4:532650",
        **changes,
    }


def write(reserved: launches.Reserved, content: object, name: str = launches.LAUNCH) -> None:
    Path(reserved.folder, name).write_bytes(content if isinstance(content, bytes) else json.dumps(content).encode())


# The state folder


def test_where_it_is() -> None:
    assert launches.state_folder({"AGENTCTL_HOME": "/a", "XDG_STATE_HOME": "/b", "HOME": "/c"}) == "/a"
    assert launches.state_folder({"XDG_STATE_HOME": "/b", "HOME": "/c"}) == "/b/agentctl"
    assert launches.state_folder({"XDG_STATE_HOME": "b", "HOME": "/c"}) == "/c/.local/state/agentctl"


def test_it_is_made_for_us_alone(env: dict[str, str]) -> None:
    before = os.umask(0)
    try:
        reserved = launches.reserve(env)
    finally:
        os.umask(before)
    for path in (reserved.folder, os.path.dirname(reserved.folder), env["AGENTCTL_HOME"]):
        assert os.stat(path).st_mode & 0o777 == 0o700
    assert os.listdir(reserved.folder) == []


def shared(folder: Path) -> None:
    folder.mkdir()
    folder.chmod(0o770)


def a_file(folder: Path) -> None:
    folder.write_text("")


def of_another(folder: Path) -> None:
    folder.mkdir(mode=0o700)
    os.chown(folder, 12345, -1)


def link_of_another(folder: Path) -> None:
    (folder.parent / "mine").mkdir(mode=0o700)
    folder.symlink_to("mine")
    os.chown(folder, 12345, -1, follow_symlinks=False)


def dangling(folder: Path) -> None:
    folder.symlink_to("nowhere")


@pytest.mark.parametrize("make", [shared, a_file, of_another, link_of_another, dangling])
def test_a_folder_that_is_not_ours_alone_is_refused(env: dict[str, str], make: Callable[[Path], None]) -> None:
    folder = Path(env["AGENTCTL_HOME"])
    try:
        make(folder)
    except PermissionError:
        pytest.skip("only root can give files away")
    with pytest.raises(Refused, match=str(folder)):
        launches.reserve(env)


def test_a_link_of_our_own_is_followed(env: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir(mode=0o700)
    Path(env["AGENTCTL_HOME"]).symlink_to("elsewhere")
    reserved = launches.reserve(env)
    assert (tmp_path / "elsewhere" / "launches" / reserved.id).is_dir()


def test_reading_makes_nothing(env: dict[str, str]) -> None:
    assert launches.read_all(env) == ([], [])
    assert launches.exits("mwidg5ajn6c6", env) == []
    with pytest.raises(NotFound):
        launches.read("mwidg5ajn6c6", env)
    assert not os.path.exists(env["AGENTCTL_HOME"])


def test_a_folder_of_others_is_not_believed(env: dict[str, str]) -> None:
    reserved = launches.reserve(env)
    write(reserved, facts(reserved.id))
    os.chmod(env["AGENTCTL_HOME"], 0o777)
    found, (problem,) = launches.read_all(env)
    assert found == [] and "others can write" in problem.problem


# Ids


def test_ids_are_unique_and_sort_by_time(env: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    ids = {launches.new_id() for _ in range(1000)}
    assert len(ids) > 990  # of about one millisecond; the folder makes the rest sure
    assert all(re.fullmatch("[a-z0-9]{12}", id) and launches.is_id(id) for id in ids)
    moments = [1_600_000_000_000, 1_794_779_624_000, 1_794_779_624_001, 2_500_000_000_000]
    for moment in moments:
        monkeypatch.setattr(time, "time_ns", lambda moment=moment: moment * 1_000_000)
        monkeypatch.setattr(os, "urandom", lambda count: bytes(count))
        first = launches.reserve(env)
        monkeypatch.setattr(os, "urandom", lambda count, numbers=[0, 0, 1]: bytes([numbers.pop(0)] * count))
        assert launches.reserve(env).id > first.id, "the taken id was given again"
    made = os.listdir(launches.launches_folder(env))
    assert len(made) == 2 * len(moments)
    assert sorted(made) == sorted(made, key=lambda id: int(id, 36))


@pytest.mark.parametrize(
    "name", ["", "..", "../../etc", "MWIDG5AJN6C6", "mwidg5ajn6c6/", "a" * 15, "a" * 9, "mwidg5ajn6é6"]
)
def test_what_is_no_id_is_no_path(env: dict[str, str], name: str) -> None:
    launches.reserve(env)
    with pytest.raises(NotFound):
        launches.read(name, env)
    assert launches.exits(name, env) == []


# Reading back


def test_a_launch_is_read_as_it_was_written(env: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recorded, "own_boot", lambda: BOOT)
    reserved = launches.reserve(env)
    write(reserved, facts(reserved.id, group="night", session_id="s-1", time_limit=60))
    launch = launches.read(reserved.id, env)
    assert isinstance(launch, Launch)
    assert (launch.runner, launch.child) == (ProcessKey(BOOT, 3, 532649), ProcessKey(BOOT, 4, 532650))
    assert (launch.argv, launch.env_names, launch.hooks) == (("demo", "-p", "hi"), ("PATH",), (("on_create", "true"),))
    assert (launch.group, launch.session_id, launch.time_limit, launch.prompt) == ("night", "s-1", 60.0, None)
    assert launch.created_at == 1794779624.0 and launch.headless and launch.one_shot
    assert launches.read_all(env) == ([launch], [])


DAMAGED = [
    b"",
    b"{",
    b"null",
    b"[]",
    b"\0" * 100,
    b"\xff\xfe{}",
    b"[" * 100_000,
    {},
    {"runner": None},
    {"runner": f"{BOOT}:0:5"},
    {"child": f"{BOOT}:-1:5"},
    {"child": f"{BOOT}:1e3:5"},
    {"child": f"{BOOT}:٣:5"},
    {"child": 17},
    {"child": f"{BOOT}:{'9' * 30}:5"},
    {"agent": 5},
    {"cwd": ["/"]},
    {"created_at": "yesterday"},
    {"created_at": 1e300},
    {"id": "mwidg5ajn6c6"},
]


@pytest.mark.parametrize("damage", DAMAGED, ids=str)
def test_a_damaged_record_is_a_problem_and_never_a_crash(
    env: dict[str, str], damage: bytes | dict[str, object]
) -> None:
    whole, broken = launches.reserve(env), launches.reserve(env)
    write(whole, facts(whole.id))
    content = {**facts(broken.id), **damage} if isinstance(damage, dict) and damage else damage
    write(broken, content)
    found, (problem,) = launches.read_all(env)
    assert [launch.id for launch in found] == [whole.id]
    assert problem.path == os.path.join(broken.folder, launches.LAUNCH)
    assert isinstance(launches.read(broken.id, env), Problem)


def test_a_record_that_is_not_taken_apart_says_the_same_as_the_launch(env: dict[str, str]) -> None:
    for more in ({"session_id": "s-1"}, {"one_shot": False}, {"headless": False}, {"headless": False, "one_shot": 1}):
        reserved = launches.reserve(env)
        write(reserved, facts(reserved.id, **more))
        launches.note_session(reserved.folder, "noted")
    records, problems = launches.read_records(env)
    found = launches.read_all(env)
    assert found == ([one.launch for one in records], problems) and len(records) == 4
    for one in records:
        for name in ("agent", "child", "path", "session_id", "one_shot"):
            assert getattr(one, name) == getattr(one.launch, name)
    assert sorted(str(one.session_id) for one in records) == ["None", "noted", "noted", "s-1"]


def test_what_stands_in_the_place_of_a_record(env: dict[str, str]) -> None:
    whole, fifo, folder, loop, empty = (launches.reserve(env) for _ in range(5))
    write(whole, facts(whole.id))
    os.mkfifo(os.path.join(fifo.folder, launches.LAUNCH))
    os.mkdir(os.path.join(folder.folder, launches.LAUNCH))
    os.symlink(launches.LAUNCH, os.path.join(loop.folder, launches.LAUNCH))
    parent = launches.launches_folder(env)
    os.symlink(whole.folder, os.path.join(parent, "mwidg5ajn6c6"))
    Path(parent, "mwidg5ajn6c7").write_text("a file")
    found, problems = launches.read_all(env)
    assert [launch.id for launch in found] == [whole.id]
    assert {os.path.basename(os.path.dirname(problem.path or "")) for problem in problems} == {
        fifo.id,
        folder.id,
        loop.id,
        "mwidg5ajn6c6",
    }
    assert empty.id not in str(problems)


def test_odd_optional_fields_are_none(env: dict[str, str]) -> None:
    reserved = launches.reserve(env)
    odd = {
        "argv": "demo",
        "env_names": [1, "A"],
        "hooks": [],
        "group": 5,
        "prompt": {},
        "headless": 1,
        "time_limit": "x",
    }
    write(reserved, facts(reserved.id, **odd))
    launch = launches.read(reserved.id, env)
    assert isinstance(launch, Launch)
    assert (launch.argv, launch.env_names, launch.hooks) == ((), ("A",), ())
    assert (launch.group, launch.prompt, launch.headless, launch.time_limit) == (None, None, False, None)


def test_exits_pass_over_what_is_torn(env: dict[str, str]) -> None:
    reserved = launches.reserve(env)
    lines = [
        b'{"key": "%b:4:5", "comm": "sh", "exit_code": 3, "at": "2026-11-15T21:53:46.682Z", "direct": true,'
        b' "rusage": {"utime": 1.5, "stime": 0.5, "maxrss": 10584}}' % BOOT.encode(),
        b'{"key": "to',
        b"\0\0\xff",
        b"[]",
        b'{"key": -1, "comm": 5, "exit_code": true, "signal": 9, "at": [], "rusage": [], "direct": "yes"}',
        b'{"key": null, "comm": null, "signal": "SIGKILL"',
        b'{"key": "%b:6:7", "signal": "SIGKILL"}' % BOOT.encode(),
        b'{"key": "unfinis',
    ]
    write(reserved, b"\n".join(lines), launches.EXITS)
    first, odd, last = launches.exits(reserved.id, env)
    assert (first.key, first.comm, first.exit_code, first.signal) == (ProcessKey(BOOT, 4, 5), "sh", 3, None)
    assert (first.at, first.direct, first.cpu_seconds, first.max_rss) == (1794779626.682, True, 2.0, 10584)
    assert set(odd._asdict().values()) == {None, False}
    assert (last.key, last.exit_code, last.signal, last.direct) == (ProcessKey(BOOT, 6, 7), None, "SIGKILL", False)


# Secrets


@pytest.mark.parametrize(
    ("argv", "shown"),
    [
        (["--api-key", "abc"], ["--api-key", "[redacted]"]),
        (["--api-key=abc"], ["--api-key=[redacted]"]),
        (["--openai_api_key", "a b"], ["--openai_api_key", "[redacted]"]),
        (["--token", "--verbose"], ["--token", "--verbose"]),
        (["--max-tokens", "500"], ["--max-tokens", "500"]),
        (["--keyboard", "us"], ["--keyboard", "us"]),
        (["OPENAI_API_KEY=abc", "MODE=fast"], ["OPENAI_API_KEY=[redacted]", "MODE=fast"]),
        (["-c", 'providers.x.auth_token="abc"'], ["-c", "providers.x.auth_token=[redacted]"]),
        (["-p", "my key is sk-ant-api03-abcdefgh_123-x!"], ["-p", "my key is sk-[redacted]!"]),
        (["ghp_0123456789abcdef"], ["ghp_[redacted]"]),
        (["x=xoxb-1234-5678-abcd"], ["x=xoxb-[redacted]"]),
        (["AKIAIOSFODNN7EXAMPLE"], ["AKIA[redacted]"]),
        (["-H", "Authorization: Bearer abcdef123456"], ["-H", "Authorization: Bearer [redacted]"]),
        (["https://me:hunter2@host/x"], ["https://me:[redacted]@host/x"]),
        (["--", "skate", "task-sk", "a=b", "", "token"], ["--", "skate", "task-sk", "a=b", "", "token"]),
    ],
)
def test_known_patterns_of_keys_are_taken_out(argv: list[str], shown: list[str]) -> None:
    assert redact(argv) == shown


def test_long_words_are_shortened_and_prompts_keep_their_lines() -> None:
    (word,) = redact(["x" * 100_000])
    assert len(word) < 5000 and word.endswith("…")
    assert redact_text("line one\nline two") == "line one\nline two"


def test_a_relative_binary_is_taken_from_the_agents_folder() -> None:
    assert executable("./run", {}, "/work") == "/work/./run"
    assert executable("sh", {"PATH": "/nowhere:/bin"}, "/work") == "/bin/sh"
    with pytest.raises(MissingProgram):
        executable("sh", {"PATH": "/nowhere"}, "/bin/..")
