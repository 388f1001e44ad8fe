"""Whose program a process runs is told by its name, its arguments and its file alone."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from agentctl.agents import load_all
from agentctl.kernel.processes import Processes
from agentctl.model import Details, Process, ProcessKey
from agentctl.query.candidates import claim_all
from tests.support.table import source

PROGRAMS = [
    *("claude", "/opt/claude/versions/2.1.325", "codex", "codex-linux-sandbox", "opencode", ".opencode", "node", "bun"),
    *("/usr/bin/node", "python3", "agentctl-demo", "rg", "sleep", "", "claude bg-pty-host"),
]
WORDS = [
    *("/x/@anthropic-ai/claude-code/cli.js", "/usr/bin/codex", "/x/@openai/codex/bin/codex.js", "/x/opencode-ai/bin"),
    *(
        "/usr/bin/opencode",
        "-m",
        "agentctl.demo_agent",
        "exec",
        "run",
        "serve",
        "app-server",
        "daemon",
        "--bg",
        "--version",
    ),
    *("server.js", "mcp", "github", "hello there"),
]
COMMS = ["claude", "node", "MainThread", "codex", "codex-x", "opencode", ".opencode", "python3", "2.1.325", "sleep"]
argvs = st.none() | st.lists(st.sampled_from([*PROGRAMS, *WORDS]), max_size=4).map(tuple)
files = st.none() | st.sampled_from([program for program in PROGRAMS if program])
envs = st.none() | st.fixed_dictionaries(
    {}, optional={"BUN_BE_BUN": st.just("1"), "HOME": st.just("/h"), "CODEX_HOME": st.just("/c")}
)
found = st.builds(
    Details, argv=argvs, exe=files, cwd=st.none() | st.just("/w"), env=envs, uid=st.sampled_from([None, 0])
)
rows = st.lists(st.tuples(st.sampled_from(COMMS), st.none() | found, st.booleans()), max_size=6)


@given(st.sampled_from(COMMS), found)
def test_the_rest_of_the_details_makes_nobody_an_agent(comm: str, details: Details) -> None:
    process = Process(ProcessKey("boot", 7, 1), 1, comm, "S")
    for agent in load_all():
        alone = Details(argv=details.argv, exe=details.exe)
        assert (agent.claims(process, details) is None) == (agent.claims(process, alone) is None)


@given(rows)
def test_who_is_claimed_is_the_same_as_if_all_was_read_of_everybody(
    rows: list[tuple[str, Details | None, bool]],
) -> None:
    table = [Process(ProcessKey("boot", pid, 1), pid - 1, comm, "S") for pid, (comm, _, _) in enumerate(rows, 1)]
    known = {pid: details for pid, (_, details, _) in enumerate(rows, 1)}
    stays = {pid: stays for pid, (_, details, stays) in enumerate(rows, 1) if details is not None}
    asked: list[int] = []

    def read_details(process: Process) -> Details | None:
        asked.append(process.pid)
        return known[process.pid] if stays.get(process.pid) else None

    def read_program(process: Process) -> Details:
        details = known[process.pid] or Details()
        return Details(argv=details.argv, exe=details.exe)

    plain = Processes("boot", table, source(details=read_details))
    brief = Processes(
        "boot",
        table,
        source(details=read_details, program=read_program, still=lambda process: stays.get(process.pid, False)),
    )
    agents = load_all()
    expected = claim_all(agents, plain)
    all_asked = len(asked)
    assert claim_all(agents, brief) == expected
    assert len(asked) - all_asked <= all_asked


def test_of_another_program_nothing_more_is_read() -> None:
    process = Process(ProcessKey("boot", 7, 1), 1, "node", "S")
    asked: list[int] = []
    table = Processes(
        "boot",
        [process],
        source(
            details=lambda process: asked.append(process.pid),
            program=lambda process: Details(argv=("node", "server.js"), exe="/usr/bin/node"),
            still=lambda process: True,
        ),
    )
    assert claim_all(load_all(), table) == [] and asked == []
