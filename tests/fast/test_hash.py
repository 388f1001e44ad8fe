"""blake2b without hashlib is hashlib's."""

from __future__ import annotations

import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentctl.fast.hash import blake2b
from tests.support.bare_python import run_bare


@given(st.lists(st.binary(max_size=300), max_size=4), st.integers(1, 64))
def test_the_digest_is_that_of_hashlib(pieces: list[bytes], size: int) -> None:
    found, expected = blake2b(digest_size=size), hashlib.blake2b(digest_size=size)
    for piece in pieces:
        found.update(piece)
        expected.update(piece)
    assert found.digest() == expected.digest() == blake2b(b"".join(pieces), digest_size=size).digest()


WORK = """
for data in (b"", b"abc", bytes(range(256)) * 9):
    print(blake2b(data).hexdigest(), blake2b(data, digest_size=8).hexdigest())
"""


@pytest.mark.parametrize("private", [True, False], ids=["as it is", "without private modules"])
def test_it_works_where_nobody_has_imported_hashlib(private: bool) -> None:
    found = run_bare("from agentctl.fast.hash import blake2b" + WORK, private=private)
    assert found.stdout == run_bare("from hashlib import blake2b" + WORK).stdout != ""
    assert ("hashlib" in found.modules) == (not private)
