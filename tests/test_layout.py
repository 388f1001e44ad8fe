"""How the code is laid out: who may import whom, where agents are named, and what is done on the way to a list."""

from __future__ import annotations

import ast
import inspect
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import agentctl
from tests.support.demo_home import SOURCES, TIMEOUT, Home
from tests.support.worlds import FIXTURES

if TYPE_CHECKING:
    from collections.abc import Iterator

PACKAGE = Path(agentctl.__file__).parent
MODULES = sorted(PACKAGE.rglob("*.py"))
TREES = {path: ast.parse(path.read_text(encoding="utf-8")) for path in MODULES}

# The rooms: each may import itself and what stands before it.
ROOMS = (
    "errors",
    "durations",
    "fast",
    "model",
    "files",
    "config",
    "kernel",
    "agents",
    "launches",
    "query",
    "live",
    "terminal",
    "workspace",
    "launch",
    "stop",
    "wait",
    "send",
    "usage",
    "server",
    "cli",
)
ANYTHING_LAZILY = ("__init__", "__main__")
ON_ITS_OWN = "demo_agent"

AGENT_NAMES = re.compile(r"(?i)(?<![a-z])(claude|codex|opencode|gemini|openclaw|demo)(?![a-z])")
# Help texts, in which an example has to name some agent.
EXAMPLES = {("cli/list.py", "EPILOG"), ("cli/launch.py", "EPILOG"), ("cli/attach.py", "EPILOG")}

HEAVY = ("json", "argparse", "typing", "socket", "subprocess", "sqlite3", "asyncio")
# What the commonest commands do without.
PASSED_OVER = {*HEAVY, "re", "enum", "functools", "threading", "hashlib", "datetime", "importlib", "urllib.parse"}


def place(path: Path) -> str:
    """The room that a file belongs to."""
    return room(".".join(path.relative_to(PACKAGE).with_suffix("").parts))


def room(module: str) -> str:
    """The room of a module, by its name below `agentctl`."""
    return module.split(".")[0]


def label(path: Path) -> str:
    return path.relative_to(PACKAGE).as_posix()


def imports(tree: ast.AST) -> Iterator[tuple[str, ast.stmt]]:
    """Every module that is imported, also in functions and for the type checker alone."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((alias.name, node) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"line {node.lineno}: imports are written out"
            module = node.module or ""
            yield from ((f"{module}.{alias.name}" if module == "agentctl" else module, node) for alias in node.names)


def ours(tree: ast.AST) -> Iterator[tuple[str, ast.stmt]]:
    for module, node in imports(tree):
        if module.split(".")[0] == "agentctl" and module != "agentctl.__version__":
            yield ".".join(module.split(".")[1:]), node


def test_every_module_has_its_place() -> None:
    assert {place(path) for path in MODULES} == {*ROOMS, *ANYTHING_LAZILY, ON_ITS_OWN}


@pytest.mark.parametrize("path", MODULES, ids=label)
def test_imports_only_go_to_the_right(path: Path) -> None:
    me = place(path)
    if me in ANYTHING_LAZILY:
        at_once = [node for module, node in ours(TREES[path]) if node in TREES[path].body]
        assert not at_once, "imports of ours belong into the functions that need them"
        return
    for module, node in ours(TREES[path]):
        target = room(module)
        where = f"line {node.lineno}: {me} imports {module}"
        if me == ON_ITS_OWN or target == ON_ITS_OWN:
            assert target == me, where
        else:
            assert target in ROOMS, where
            assert ROOMS.index(target) <= ROOMS.index(me), where


# Start-up tricks


def private_names(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Every private module of CPython that is imported, and every private name of a public module."""
    public = {name for name, node in imports(tree) if isinstance(node, ast.Import)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names if is_private(alias.name))
        elif isinstance(node, ast.ImportFrom) and room(node.module or "") != "agentctl":
            names = [f"{node.module}.{alias.name}" for alias in node.names]
            yield from ((node.lineno, name) for name in names if is_private(name))
        elif (
            isinstance(node, ast.Call)
            and node.args
            and ast.unparse(node.func).endswith(("__import__", "import_module"))
        ):
            name = node.args[0].value if isinstance(node.args[0], ast.Constant) else None
            if isinstance(name, str) and is_private(name):
                yield node.lineno, name
        elif isinstance(node, ast.Attribute) and ast.unparse(node.value) in public and is_private(node.attr):
            yield node.lineno, ast.unparse(node)


def is_private(name: str) -> bool:
    return any(part.startswith("_") and not part.startswith("__") for part in name.split("."))


OPEN_TO_ALL = {"os._exit"}  # public in spite of its name; what may use it is for a reader to judge


@pytest.mark.parametrize("path", [path for path in MODULES if place(path) != "fast"], ids=label)
def test_nothing_private_of_python_is_used_outside_fast(path: Path) -> None:
    assert [found for found in private_names(TREES[path]) if found[1] not in OPEN_TO_ALL] == []


@pytest.mark.parametrize(
    ("code", "found"),
    [
        ("import _json", ["_json"]),
        ("def f():\n    from _thread import get_ident", ["_thread.get_ident"]),
        ("if TYPE_CHECKING:\n    import _sqlite3 as sqlite3", ["_sqlite3"]),
        ("from functools import _lru_cache_wrapper", ["functools._lru_cache_wrapper"]),
        ("import re._parser", ["re._parser"]),
        ("import sys\nsys._getframe()", ["sys._getframe"]),
        ("__import__('_json')", ["_json"]),
        ("importlib.import_module('_json')", ["_json"]),
        ("from __future__ import annotations\nimport json\njson.loads('{}')\nself._json = 1\n__import__(name)", []),
        ("from agentctl.fast.value import Value\nimport os\nos.path._x\nvalue._replace(a=1)", []),
    ],
)
def test_what_counts_as_private(code: str, found: list[str]) -> None:
    assert [name for _, name in private_names(ast.parse(code))] == found


FAST = [path for path in MODULES if place(path) == "fast"]
TRICKS = [path for path in FAST if path.name != "__init__.py"]


def test_fast_knows_nothing_of_agentctl() -> None:
    """So that each trick can be read, tested and removed by itself."""
    for path in FAST:
        assert {room(module) for module, _ in ours(TREES[path])} <= {"errors", "fast"}, label(path)


def test_every_trick_says_what_it_stands_for_and_is_tested_and_explained() -> None:
    page = (PACKAGE / "fast" / "README.md").read_text(encoding="utf-8")
    assert len(TRICKS) > 1
    for path in TRICKS:
        assert (ast.get_docstring(TREES[path]) or "").startswith("Stands for "), label(path)
        assert (Path(__file__).parent / "fast" / f"test_{path.name}").exists(), label(path)
        assert f"| `{path.name}` |" in page, label(path)
    assert page.count("\n| `") == len(TRICKS), "the page explains what there is, and nothing else"


PURE = {
    "live/difference.py": {"agentctl.model", "collections.abc"},
    "usage/report.py": {"agentctl.model", "agentctl.usage.sums", "collections.abc"},
    "query/world.py": {"agentctl.launches.written", "agentctl.model", "agentctl.kernel.processes", "collections.abc"},
    "query/asked.py": {"agentctl.fast.hash", "agentctl.model", "collections.abc", "typing"},
    "query/present.py": {
        "agentctl.model",
        "agentctl.kernel.processes",
        "agentctl.query.asked",
        "agentctl.query.world",
    },
    "query/cases.py": {
        "agentctl.model",
        "agentctl.kernel.processes",
        "agentctl.query.world",
        "collections.abc",
    },
    "query/judge.py": {
        "agentctl.query.cases",
        "agentctl.query.present",
        "agentctl.model",
        "agentctl.query.world",
        "collections.abc",
    },
}
FOR_THE_TYPE_CHECKER = {"agentctl.kernel.processes", "agentctl.usage.sums"}


@pytest.mark.parametrize("name", PURE)
def test_the_judge_is_pure(name: str) -> None:
    tree = TREES[PACKAGE / name]
    clocks = [node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == "clock"]
    in_clock = {id(node) for clock in clocks for node in ast.walk(clock)}
    found = {module for module, node in imports(tree) if id(node) not in in_clock}
    assert found == {"__future__", *PURE[name]}
    assert {module for module, node in imports(tree) if id(node) in in_clock} == ({"time"} if clocks else set())
    at_run_time = {node.module for node in tree.body if isinstance(node, ast.ImportFrom)}
    assert not FOR_THE_TYPE_CHECKER & at_run_time
    called = {node.func.id for node in ast.walk(tree) if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)}
    assert not called & {"open", "print", "input", "eval", "exec", "__import__"}


def code_words(path: Path) -> Iterator[tuple[int, str]]:
    """Names and strings of the code, with their lines: no comments, no docstrings, no help examples."""
    tree = TREES[path]
    skipped: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) and node.body:
            first = node.body[0]
            if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant):
                skipped.add(id(first.value))
        if isinstance(node, ast.Assign) and (label(path), ast.unparse(node.targets[0])) in EXAMPLES:
            skipped.add(id(node.value))
    for node in ast.walk(tree):
        if id(node) in skipped:
            continue
        line = getattr(node, "lineno", 0)
        for value in (
            getattr(node, field, None) for field in ("id", "attr", "name", "arg", "module", "asname", "value")
        ):
            if isinstance(value, str | bytes):
                yield line, value if isinstance(value, str) else value.decode(errors="replace")


@pytest.mark.parametrize("path", [path for path in MODULES if place(path) not in ("agents", ON_ITS_OWN)], ids=label)
def test_no_agent_is_named_outside_agents(path: Path) -> None:
    assert [(line, word) for line, word in code_words(path) if AGENT_NAMES.search(word)] == []


@pytest.mark.parametrize(
    ("word", "named"),
    [
        ("claude", True),
        ("claude_code", True),
        ("~/.codex", True),
        ("DEMO", True),
        ("democracy", False),
        ("code", False),
    ],
)
def test_what_counts_as_a_name(word: str, named: bool) -> None:
    assert bool(AGENT_NAMES.search(word)) == named


# The public face


def test_the_public_names() -> None:
    assert sorted(agentctl.__all__) == [
        "Answer",
        "Evidence",
        "Problem",
        "Session",
        "Unattached",
        "__version__",
        "get_session",
        "list_sessions",
    ]
    for name in agentctl.__all__:
        assert getattr(agentctl, name) is not None
    assert list(inspect.signature(agentctl.list_sessions).parameters) == ["agents", "ended_since", "subagents"]
    assert list(inspect.signature(agentctl.get_session).parameters) == ["id"]
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        _ = agentctl.nonsense


def modules_after(code: str, *arguments: str, env: dict[str, str] | None = None) -> set[str]:
    """The modules of a bare interpreter (no site, nothing of its environment) after this code."""
    script = f"import sys; sys.path.insert(0, {SOURCES!r}); {code}; print('\\n' + ' '.join(sys.modules))"
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", script, *arguments],
        env=env,
        capture_output=True,
        text=True,
        timeout=TIMEOUT,
        check=True,
    )
    return set(done.stdout.splitlines()[-1].split())


def test_importing_it_imports_nothing_heavy() -> None:
    found = modules_after("import agentctl")
    assert "agentctl" in found
    assert not found & set(HEAVY)
    assert not [name for name in found if name.startswith("agentctl.")]


def test_the_version_needs_nothing_heavy() -> None:
    found = modules_after("from agentctl.__main__ import main; main()", "--version")
    assert "agentctl.__main__" in found
    assert not found & set(HEAVY)


# What `list` does to the machine

GUARD = """\
import os, signal, sys

CACHE = os.environ["XDG_CACHE_HOME"]
WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
RUNS = ("subprocess.", "os.system", "os.exec", "os.posix_spawn", "os.fork", "os.spawn", "pty.spawn")
SENDS = ("os.kill", "os.killpg", "signal.", "fcntl.flock", "fcntl.lockf", "ptrace")
CHANGES = ("os.remove", "os.rename", "os.rmdir", "os.mkdir", "os.chmod", "os.chown", "os.link", "os.symlink",
           "os.truncate", "os.utime", "os.setxattr", "shutil.")
seen, broken = set(), []


def inside_cache(path):
    path = os.fsdecode(path) if not isinstance(path, int) else None
    return path is None or os.path.abspath(path) == CACHE or os.path.abspath(path).startswith(CACHE + os.sep)


def guard(event, args):
    seen.add(event)
    bad = event.startswith(RUNS) or event.startswith(SENDS)
    if event == "open":
        bad = bool(args[2] & WRITES) and not inside_cache(args[0])
    elif event.startswith(CHANGES):
        bad = not inside_cache(args[0])
    elif event in ("socket.connect", "socket.sendto", "socket.bind"):
        sock, address = args
        bad = int(sock.family) != 1 and not (isinstance(address, tuple) and address[0] == "127.0.0.1")
    elif event in ("socket.getaddrinfo", "socket.gethostbyname"):
        bad = True
    if bad:
        broken.append((event, repr(args)))
        raise RuntimeError(f"{event} {args!r}")


def never(*args):
    broken.append(("signal.pidfd_send_signal", repr(args)))


signal.pidfd_send_signal = never
sys.addaudithook(guard)
code = 1
try:
    ACTION
finally:
    sys.stdout.flush()
    for what in broken:
        print("did:", *what, file=sys.stderr)
    print("seen:", *sorted(seen), file=sys.stderr)
sys.exit(97 if broken else code)
"""
LIST = 'from agentctl.cli import run; code = run(["list", "-a", "--since", "all", "--tree", "--json"])'

linux_only = pytest.mark.linux


def guarded(home: Home, action: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-B", "-c", GUARD.replace("ACTION", action)],
        env=home.env,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=TIMEOUT,
        check=False,
    )


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    home = Home(tmp_path)
    try:
        yield home
    finally:
        home.end_all()


def fill_stores(home: Home, folder: Path) -> None:
    shutil.copytree(FIXTURES / "codex" / "running_subagent" / "codex_home", folder / ".codex")
    shutil.copytree(FIXTURES / "claude-2.1.325" / "sigkill_headless_mid_tool" / ".claude", folder / ".claude")
    data = Path(home.env["XDG_DATA_HOME"])
    shutil.copytree(FIXTURES / "opencode" / "subagent_and_fork" / "xdg_data", data, dirs_exist_ok=True)


@linux_only
@pytest.mark.parametrize("verb", ["list", "status", "why", "peek"])
def test_the_commonest_commands_import_nothing_heavy(home: Home, tmp_path: Path, verb: str) -> None:
    """Each of these takes as long as half of bare Python, and the patterns that some of them compile as long again. All
    agents have a store, as on the machines of those who need this."""
    fill_stores(home, tmp_path)
    id, _ = home.start("[[sleep:300]]")
    home.wait_for_status(id, "busy")
    words = [verb] if verb == "list" else [verb, id]
    found = modules_after("from agentctl.cli import run; assert run(sys.argv[1:]) == 0", *words, env=home.env)
    assert "agentctl.kernel.linux" in found
    own = {"functools"} if "_sqlite3" in found else set()  # that module imports it itself
    assert not found & PASSED_OVER - own
    assert not [name for name in found if name.startswith("agentctl.live")]  # only what follows needs it
    assert ("_sqlite3" in found) == (verb != "list")  # nobody lives there: a list does not open that store


def test_counting_imports_nothing_heavy(home: Home, tmp_path: Path) -> None:
    """The first time, when all is counted and written to the index, and again."""
    fill_stores(home, tmp_path)
    for _ in range(2):
        found = modules_after("from agentctl.cli import run; assert run(sys.argv[1:]) == 0", "usage", env=home.env)
        assert "_sqlite3" in found
        assert not found & PASSED_OVER - {"functools"}  # that module imports it itself


@linux_only
def test_events_run_nothing_send_nothing_and_write_only_the_cache(home: Home) -> None:
    id, _ = home.start("[[sleep:300]]")
    done = guarded(home, 'from agentctl.cli import run; code = run(["events", "--json"])')
    assert done.returncode == 0, done.stderr
    assert [session["id"] for session in json.loads(done.stdout)["sessions"]] == [id]


@linux_only
def test_a_list_runs_nothing_sends_nothing_and_writes_only_its_cache(home: Home, tmp_path: Path) -> None:
    shutil.copytree(FIXTURES / "codex" / "running_subagent" / "codex_home", tmp_path / ".codex")
    shutil.copytree(FIXTURES / "claude-2.1.325" / "sigkill_headless_mid_tool" / ".claude", tmp_path / ".claude")
    expected = {}
    for prompt, file_says, status in (
        ("[[sleep:300]]", "busy", "running"),
        ("[[ask:make coffee]]", "waiting", "waiting"),
        ("[[idle]]", "idle", "idle"),
    ):
        id, _ = home.start(prompt)
        home.wait_for_status(id, file_says)
        expected[id] = status
    done = guarded(home, LIST)
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    assert answer["problems"] == []
    rows = {row["id"]: row for row in answer["sessions"]}
    assert {id: rows[id]["status"] for id in expected} == expected
    assert {row["agent"] for row in rows.values()} == {"demo", "codex", "claude-code"}
    assert "seen:" in done.stderr
    assert " open " in done.stderr  # the hook was there


@linux_only
@pytest.mark.parametrize(
    "action",
    [
        "import subprocess; subprocess.run(['true'])",
        "os.system('true')",
        "os.posix_spawn('/bin/true', ['true'], {})",
        "os.fork()",
        "os.kill(os.getpid(), 0)",
        "signal.pidfd_send_signal(0, 0)",
        "import socket; socket.socket().connect(('192.0.2.1', 9))",
        "import socket; socket.getaddrinfo('localhost', 9)",
        "open(os.path.join(os.environ['HOME'], 'file'), 'w')",
        "os.open(os.path.join(os.environ['HOME'], 'file'), os.O_RDWR | os.O_CREAT)",
        "os.rename(os.environ['HOME'], os.environ['HOME'] + '-2')",
        "import fcntl; fcntl.flock(0, fcntl.LOCK_SH)",
    ],
)
def test_the_guard_bites(home: Home, action: str) -> None:
    done = guarded(home, action)
    assert done.returncode != 0
    assert "did:" in done.stderr


@linux_only
def test_the_guard_lets_the_cache_be_written(home: Home) -> None:
    action = "os.makedirs(CACHE); open(os.path.join(CACHE, 'roots.json'), 'w').close(); code = 0"
    done = guarded(home, action)
    assert done.returncode == 0, done.stderr
