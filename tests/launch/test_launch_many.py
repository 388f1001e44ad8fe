"""Many launches at one moment: each its own id, prompt, output and end; and one directory for one of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.support.launch_home import LONG, TIMEOUT, Home

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = [pytest.mark.linux, pytest.mark.stress]
MANY, RACING = 50, 20


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    home = Home(tmp_path)
    try:
        yield home
    finally:
        home.end_all()


def finished(child: subprocess.Popen[str]) -> tuple[int, str, str]:
    out, err = child.communicate(timeout=TIMEOUT * 3)
    return child.returncode, out.strip(), err


def test_fifty_at_once(home: Home) -> None:
    started = [
        home.start("launch", "demo", "-p", f"[[text:number {number}]]", "--cwd", home.folder_named(f"d{number}"))
        for number in range(MANY)
    ]
    answers = [finished(child) for child in started]
    assert [code for code, _, _ in answers] == [0] * MANY, [err for code, _, err in answers if code]
    ids = [id for _, id, _ in answers]
    assert len(set(ids)) == MANY
    home.wait_until_quiet()
    rows = {row["id"]: row for row in home.listed("-a")["sessions"]}
    assert rows.keys() == set(ids)
    for number, id in enumerate(ids):
        row = rows[id]
        assert (row["status"], row["exit_code"]) == ("done", 0)
        assert row["cwd"] == str(home.folder / f"d{number}")
        assert home.prompt_of(id) == f"[[text:number {number}]]"
        output = home.state / "launches" / row["launch_id"] / "output.log"
        assert output.read_text() == f"session: {id}\nnumber {number}\n"


def test_twenty_race_for_one_directory(home: Home) -> None:
    started = [home.start("launch", "demo", "-p", f"{LONG}{number}") for number in range(RACING)]
    answers = [finished(child) for child in started]
    winners = [id for code, id, _ in answers if code == 0]
    assert len(winners) == 1, answers
    (launch,) = home.launches()
    for code, out, err in answers:
        if code != 0:
            assert (code, out) == (4, "")
            assert winners[0][:8] in err or launch.id in err, err
    (row,) = home.listed()["sessions"]
    assert row["id"] == winners[0]
