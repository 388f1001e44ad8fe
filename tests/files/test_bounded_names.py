"""Paths and names that somebody wrote into a file: the short way against the plain one."""

from __future__ import annotations

import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentctl.files import bounded

STEPS = ["a", "b", "link", "up", "loop", "gone", "file", "..", ".", "é \n", "x (deleted)", ""]


@pytest.fixture(scope="module")
def crooked(tmp_path_factory: pytest.TempPathFactory) -> str:
    root = tmp_path_factory.mktemp("crooked")
    for folder in (root, root / "a", root / "a" / "b", root / "é \n", root / "x (deleted)"):
        folder.mkdir(exist_ok=True)
        (folder / "link").symlink_to(root / "a")
        (folder / "up").symlink_to("../b")
        (folder / "loop").symlink_to("loop")
        (folder / "gone").symlink_to("nowhere/at/all")
        (folder / "file").write_text("x")
    return str(root)


@given(steps=st.lists(st.sampled_from(STEPS), max_size=5), relative=st.booleans())
def test_a_real_path_is_the_one_that_python_finds(crooked: str, steps: list[str], relative: bool) -> None:
    path = os.path.join(os.path.relpath(crooked) if relative else crooked, *steps)
    assert bounded.real_path(path) == os.path.realpath(path)


@given(st.text(max_size=8) | st.sampled_from(["", ".", "/", "//", "\0", "/proc/self/cwd", "/proc/self/fd/0", "/tmp//"]))
def test_also_of_what_is_no_path(text: str) -> None:
    try:
        expected = os.path.realpath(text)
    except (OSError, ValueError):
        expected = text
    assert bounded.real_path(text) == expected


@given(st.text(max_size=6) | st.text("/\\ \t\n\x1c\x85\u2003-.ab", max_size=6) | st.just("x" * 201))
def test_the_names_of_sessions_char_by_char(text: str) -> None:
    plain = 0 < len(text) <= bounded.ID_LENGTH and text.isprintable() and not text.startswith(("-", "."))
    assert bounded.is_session_id(text) == (plain and not any(char in bounded.NOT_IN_AN_ID for char in text))


@pytest.mark.parametrize(
    ("written", "since", "may"),
    [(2e9, 2e9 + 1.9, True), (2e9, 2e9 + 2.1, False), (2e9 + 0.5, 2e9 + 0.6, False), (2e9 + 0.5, 2e9 + 0.4, True)],
)
def test_a_time_of_whole_seconds_may_be_of_a_coarse_clock(written: float, since: float, may: bool) -> None:
    assert bounded.may_be_since(written, since) is may
