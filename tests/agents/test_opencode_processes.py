"""What a process is to OpenCode, and where it keeps its sessions."""

from __future__ import annotations

import pytest

from agentctl.agents.opencode import adapter
from agentctl.model import AGENT, CLIENT, DAEMON, HELPER, WRAPPER, Details, Process, ProcessKey


@pytest.mark.parametrize(
    ("argv", "role"),
    [
        (["opencode"], AGENT),
        (["opencode", "/some/project"], AGENT),
        (["/x/.bin/opencode", "run", "fix serve"], AGENT),
        (["opencode", "--print-logs", "--log-level", "INFO", "run", "hi"], AGENT),
        (["opencode", "-s", "ses_1"], AGENT),
        (["opencode", "github", "run"], AGENT),
        (["opencode", "github", "install"], CLIENT),
        (["opencode", "run", "--attach", "http://127.0.0.1:4096", "hi"], CLIENT),
        (["opencode", "attach", "http://127.0.0.1:4096"], CLIENT),
        (["opencode", "serve", "--port", "4111"], DAEMON),
        (["opencode", "--port", "4111", "acp"], DAEMON),
        (["opencode", "web"], DAEMON),
        (["opencode", "auth", "login"], CLIENT),
        (["opencode", "session", "list"], CLIENT),
        (["opencode", "db", "select 1"], CLIENT),
        (["opencode", "--version"], CLIENT),
        (["node", "/x/node_modules/.bin/opencode", "run", "hi"], WRAPPER),
        (["node", "/x/node_modules/opencode-ai/bin/opencode"], WRAPPER),
        (["node", "server.js"], None),
        (["vim", "opencode"], None),
        ([], None),
    ],
)
def test_what_a_process_is_to_it(argv: list[str], role: str | None) -> None:
    process = Process(ProcessKey("boot", 7, 1), 1, "opencode", "S")
    assert adapter.ADAPTER.claims(process, Details(tuple(argv), None)) == role


def test_its_binary_as_a_package_manager_is_a_helper() -> None:
    process = Process(ProcessKey("boot", 7, 1), 1, "opencode", "S")
    details = Details(("/x/opencode", "add", "some-plugin"), "/x/opencode", env={"BUN_BE_BUN": "1"})
    assert adapter.ADAPTER.claims(process, details) == HELPER


@pytest.mark.parametrize(
    ("env", "root"),
    [
        ({"HOME": "/h"}, "/h/.local/share/opencode"),
        ({"HOME": "/h", "XDG_DATA_HOME": "/d"}, "/d/opencode"),
        ({"HOME": "/h", "XDG_DATA_HOME": "relative"}, "relative/opencode"),  # from its directory (measured)
        ({"HOME": "/h", "XDG_DATA_HOME": ""}, "/h/.local/share/opencode"),
        ({"HOME": "/h", "XDG_DATA_HOME": "/d//a/../b/"}, "/d/b/opencode"),  # by the text of the path (measured)
        ({"HOME": "/h", "OPENCODE_DB": "/x/own.db"}, "/x/own.db"),
        ({"HOME": "/h", "OPENCODE_DB": "own.db"}, "/h/.local/share/opencode/own.db"),
        ({"HOME": "/h", "XDG_DATA_HOME": "/d", "OPENCODE_DB": "/d/opencode/opencode.db"}, "/d/opencode"),
        ({"HOME": "/h", "OPENCODE_DB": ":memory:"}, "/h/.local/share/opencode/:memory:"),
    ],
)
def test_where_its_store_is(env: dict[str, str], root: str) -> None:
    assert adapter.ADAPTER.roots(env) == (root,)
