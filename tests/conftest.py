"""Every test runs in a home of its own: nothing here may read or write a person's agents."""

from __future__ import annotations

import os
import signal
import sys
import tempfile
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

from agentctl.agents import load_all
from tests.support.children import source as source
from tests.support.children import spawn as spawn

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator

settings.register_profile("agentctl", deadline=None)  # no test is about time
settings.load_profile("agentctl")

# A shell starts what runs in its background with SIGINT ignored, and so would be all that is started from here.
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

NO_SKIPS = "--no-skips"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(NO_SKIPS, action="store_true", help="a test that is skipped fails: so in CI, where all can run")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what is of another system. What else a test needs, it finds, or it skips itself and says why."""
    elsewhere = [item for item in items if sys.platform != "linux" and item.get_closest_marker("linux")]
    if elsewhere:
        config.hook.pytest_deselected(items=elsewhere)
        items[:] = [item for item in items if item not in elsewhere]


def must_run(report: pytest.TestReport | pytest.CollectReport, config: pytest.Config) -> None:
    """Turn a skip into a failure, if none is allowed. An expected failure is no skip."""
    if report.skipped and not hasattr(report, "wasxfail") and config.getoption(NO_SKIPS):
        why = report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longrepr
        report.outcome = "failed"
        report.longrepr = f"{report.nodeid}: this test has to run here. {why}"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    must_run(report, item.config)
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    report = yield
    must_run(report, collector.config)
    return report


def variables_of_agents() -> set[str]:
    """Return the variables that lead an adapter to a person's own store."""
    names = {name for adapter in load_all() for name in adapter.ENV}
    return {name for name in names if name != "HOME" and not name.startswith("XDG_")}


@pytest.fixture(autouse=True, scope="session")
def a_home_of_our_own() -> Iterator[None]:
    with tempfile.TemporaryDirectory(prefix="agentctl-test-home-") as home, pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOME", home)
        patch.setenv("TMUX_TMPDIR", home)
        patch.setenv("AGENTCTL_HOME", os.path.join(home, "agentctl"))
        for name in ("DATA", "STATE", "CACHE", "CONFIG", "RUNTIME"):
            patch.setenv(f"XDG_{name}_{'DIR' if name == 'RUNTIME' else 'HOME'}", os.path.join(home, name.lower()))
        for name in ("TMUX", "TMUX_PANE", *variables_of_agents()):
            patch.delenv(name, raising=False)
        yield
