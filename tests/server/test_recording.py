"""What the daemon records: `events --since` shows it, also what happened while no daemon ran, and goes on with it."""

from __future__ import annotations

import json
import os
import signal
from typing import TYPE_CHECKING, Any

import pytest

from tests.cli.test_events import Stream
from tests.support.daemon_home import DaemonHome, daemon_home
from tests.support.demo_home import wait_until
from tests.support.event_log import folded

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.linux


@pytest.fixture
def home() -> Iterator[DaemonHome]:
    with daemon_home() as found:
        yield found


@pytest.fixture
def streams() -> Iterator[list[Stream]]:
    found: list[Stream] = []
    yield found
    for stream in found:
        if stream.child.poll() is None:
            stream.end(signal.SIGKILL)


def test_what_it_recorded_can_be_replayed(home: DaemonHome) -> None:
    home.start_daemon()
    id, child = home.start("[[ask:make tea]] [[idle]]")
    home.tells(id, "waiting")
    (home.folder(id) / "answer").write_text("n")
    home.tells(id, "idle")
    child.kill()
    child.wait()
    last = home.tells(id, "done")
    told = home.replayed()
    assert [entry["seq"] for entry in told] == [*range(1, last["seq"] + 1)]
    assert {entry["late"] for entry in told} == {False}
    assert home.replayed(f"{last['log']}.{last['seq'] - 1}") == [last]
    gap, event = home.replayed("1h", "--type", "session.done")
    assert (gap["type"], event) == ("gap", last)  # it does not know the time before
    assert "the log begins later" in gap["reason"]
    assert home.replayed("0", "--agent", "codex") == []
    assert home.replayed("0", "--group", "nobody") == []
    (line,) = home.ctl("events", "--since", str(last["seq"] - 1), "--text").stdout.splitlines()
    assert "idle -> done" in line


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_what_happened_while_no_daemon_ran_is_told_late_and_once(home: DaemonHome, number: signal.Signals) -> None:
    ends, child = home.start("[[sleep:300]]")
    stays, _ = home.start("[[sleep:300]]")
    home.start_daemon()
    home.signal_daemon(number)
    wait_until(lambda: home.status()["state"] == "not running", "its end")
    child.kill()
    child.wait()
    begun, _ = home.start("[[sleep:300]]")
    home.start_daemon()
    home.tells(begun, "running")
    told = home.replayed()
    assert sorted((entry["id"], entry["to"], entry["late"]) for entry in told) == sorted(
        [(ends, "stopped", True), (begun, "running", True)]
    )
    home.ctl("daemon", "restart")
    assert home.replayed() == told  # nothing happened
    assert "told late" in home.ctl("events", "--since", "0", "--text").stdout
    assert stays not in {entry["id"] for entry in told}


def test_the_stream_goes_on_over_a_restart_without_loss_or_doubles(home: DaemonHome, streams: list[Stream]) -> None:
    home.start_daemon()
    id, child = home.start("[[ask:make tea]] [[idle]]")
    home.tells(id, "waiting")
    streams.append(stream := Stream(home, "--since", "0"))
    stream.comes(id=id, to="waiting")
    for number in (signal.SIGKILL, signal.SIGTERM):
        home.signal_daemon(number)
        wait_until(lambda: home.status()["state"] == "not running", "its end")
        if number == signal.SIGKILL:
            (home.folder(id) / "answer").write_text("n")
        else:
            child.kill()
            child.wait()
        home.start_daemon()
        stream.comes(id=id, to="idle" if number == signal.SIGKILL else "done")
    told = stream.events()
    assert [entry["seq"] for entry in told] == [*range(1, len(told) + 1)]
    assert told == home.replayed()
    assert stream.end() == (130, "")


def test_a_log_that_was_deleted_is_said_to_whoever_goes_on(home: DaemonHome) -> None:
    home.start_daemon()
    id, child = home.start("[[sleep:300]]")
    first = home.tells(id, "running")
    for name in os.listdir(log := home.folder_of_daemon.parent / "events"):
        if name.endswith(".ndjson"):
            (log / name).unlink()
    child.kill()
    child.wait()
    wait_until(lambda: home.health()["events"]["seq"] > first["seq"], "one more event")
    told = home.replayed(str(first["seq"] - 1))
    assert [entry["type"] for entry in told] == ["gap", "checkpoint", "session.stopped"]
    assert folded(told) == {id: "stopped"}
    text = home.ctl("events", "--since", "0", "--text").stdout
    assert "-- events are missing here: " in text
    assert home.replayed(f"00000000.{first['seq']}")[0]["type"] == "gap"


def test_secrets_are_not_recorded(home: DaemonHome) -> None:
    home.start_daemon()
    key = "sk-" + "a1B2" * 6
    id, _ = home.start(f"[[sleep:300]] use {key}")
    event = home.tells(id, "running")
    assert "[redacted]" in event["session"]["prompt"]
    for path in (home.folder_of_daemon.parent / "events").glob("*.ndjson"):
        assert key not in path.read_text()


def test_list_does_not_ask_it(home: DaemonHome) -> None:
    """A daemon that does not answer keeps nobody from anything, and the answers are the same."""
    id, _ = home.start("[[sleep:300]]")

    def listed() -> dict[str, Any]:
        found: dict[str, Any] = json.loads(home.ctl("list", "--json").stdout)
        del found["not_shown"]  # agents of other homes: other tests start some
        return found

    before = listed()
    home.start_daemon()
    with_daemon = listed()
    home.signal_daemon(signal.SIGSTOP)
    try:
        assert listed() == with_daemon == before
        assert id in home.ctl("status", id).stdout
        home.ctl("why", id)
        home.ctl("wait", id, "--timeout", "0s", code=124)
        home.ctl("stop", id)
    finally:
        home.signal_daemon(signal.SIGCONT)
    home.tells(id, "stopped")
