"""The actors that act only if they are asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.soak.actors import TABLE, decide
from tests.soak.switched import A_DANGLING_LINK, A_FILE, A_LOOP, SWITCHED, OtherName, StoreAway, away, named

if TYPE_CHECKING:
    from pathlib import Path


def test_nobody_acts_who_was_not_asked_for() -> None:
    assert not set(SWITCHED.values()) & set(TABLE)
    assert named("") == ()
    assert named("store-away,other-name") == (StoreAway, OtherName)
    with pytest.raises(SystemExit, match="no such actor: nobody"):
        named("other-name,nobody")


def test_who_was_asked_for_acts_too() -> None:
    acting = {type(decide("a", number, (OtherName,))[0]) for number in range(1500)}
    assert acting == {*TABLE, OtherName}


@pytest.mark.parametrize("what", [A_FILE, A_DANGLING_LINK, A_LOOP])
def test_a_store_that_was_away_is_back_as_it_was(tmp_path: Path, what: str) -> None:
    store = tmp_path / "store"
    store.mkdir()
    (store / "session").write_text("x")
    with away(store, what):
        assert not store.is_dir() if what == A_FILE else store.is_symlink() and not (store / "session").is_file()
    assert [path.name for path in tmp_path.iterdir()] == ["store"]
    assert (store / "session").read_text() == "x"
