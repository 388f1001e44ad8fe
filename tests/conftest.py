"""Every test runs in a home of its own: nothing here may read or write a person's agents."""

from __future__ import annotations

import os
import signal
import tempfile
from typing import TYPE_CHECKING

import pytest

from tests.children import source as source
from tests.children import spawn as spawn

if TYPE_CHECKING:
    from collections.abc import Iterator

# A shell starts what runs in its background with SIGINT ignored, and so would be all that is started from here.
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

AGENTS_OWN = ("CLAUDE_CONFIG_DIR", "CODEX_HOME", "TMUX", "TMUX_PANE")


@pytest.fixture(autouse=True, scope="session")
def a_home_of_our_own() -> Iterator[None]:
    with tempfile.TemporaryDirectory(prefix="agentctl-test-home-") as home, pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOME", home)
        patch.setenv("TMUX_TMPDIR", home)
        patch.setenv("AGENTCTL_HOME", os.path.join(home, "agentctl"))
        for name in ("DATA", "STATE", "CACHE", "CONFIG", "RUNTIME"):
            patch.setenv(f"XDG_{name}_{'DIR' if name == 'RUNTIME' else 'HOME'}", os.path.join(home, name.lower()))
        for name in AGENTS_OWN:
            patch.delenv(name, raising=False)
        yield
