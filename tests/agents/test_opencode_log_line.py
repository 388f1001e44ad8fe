"""A line of the log, taken apart by hand: held against the patterns that say what it is."""

from __future__ import annotations

import re

from hypothesis import example, given
from hypothesis import strategies as st

from agentctl.agents.opencode import log_line
from agentctl.files.bounded import moment

LINE = re.compile(rb"timestamp=(\S+) level=([A-Z]+) run=([0-9a-f]+) message=")
SESSION = re.compile(
    rb'(?:loop|process|cancel|stream|"exiting loop"|"stream error")(?: providerID=\S+ modelID=\S+)?'
    rb" session\.id=(ses_\w+)"
)
SESSION_ID = re.compile(r"ses_\w+", re.ASCII)
CREATED = re.compile(rb"created id=(ses_\w+) ")
ASKING = re.compile(rb"asking id=(?:per|que)_")
ALLOWED = re.compile(
    rb'evaluated permission=\S+ pattern=(?:"(?:[^"\\]|\\.)*"|[^\s"]\S*|) action\.permission=\S+ action\.action=allow '
)
STREAM_ERROR = re.compile(rb'"stream error" .* error\.error="([^"]*)')
INSTANCE = re.compile(rb'"creating instance" directory=(\S.*)')

BITS = [
    *(b"timestamp=", b"2026-11-15T20:11:36.104Z", b" level=", b"INFO", b"info", b" run=", b"4f1c", b"XY", b" message="),
    *(b"loop", b"process", b"cancel", b"stream", b'"exiting loop"', b'"stream error"', b" providerID=", b" modelID="),
    *(b"x/y-1", b" session.id=", b"ses_", b"2b_Z", b"created id=", b"asking id=", b"per_", b"que_", b" step=1"),
    *(b"evaluated permission=", b"bash", b" pattern=", b'"', b"\\", b"rm -r *", b" action.permission=", b" *"),
    *(b" action.action=allow ", b" action.action=deny ", b" action.action=allow", b' error.error="', b"too long"),
    *(b'"creating instance" directory=', b"/home/a b", b" ", b"\t", b"\x0b", b"\xff", b"\x1c", b"="),
]
junk = st.lists(st.sampled_from(BITS) | st.binary(max_size=3), max_size=14).map(b"".join)
texts = junk.map(lambda text: text.replace(b"\n", b""))


def mostly(*bits: bytes) -> st.SearchStrategy[bytes]:
    """A line as it should be, in which here and there something else stands."""
    parts = [st.just(bit) | st.just(bit) | st.just(bit) | st.sampled_from(BITS) for bit in bits]
    return st.tuples(*parts, texts).map(b"".join)


heads = mostly(b"timestamp=", b"2026-11-15T20:11:36.104Z", b" level=", b"INFO", b" run=", b"4f1c", b" message=")
works = mostly(b"stream", b" providerID=", b"x/y-1", b" modelID=", b"x/y-1", b" session.id=", b"ses_", b"2b_Z")
loops = mostly(b"loop", b" session.id=", b"ses_", b"2b_Z")
begins = mostly(b"created id=", b"ses_", b"2b_Z", b" ")
permits = mostly(
    *(b"evaluated permission=", b"bash", b" pattern=", b'"', b"rm -r *", b"\\", b'"', b"\\", b"\\", b'"'),
    *(b" action.permission=", b"bash", b" action.action=allow "),
)
bare = mostly(
    b"evaluated permission=", b"bash", b" pattern=", b"x/y-1", b" action.permission=", b"*", b" action.action=allow "
)
empty = mostly(b"evaluated permission=", b"bash", b" pattern=", b" action.permission=", b"*", b" action.action=allow ")
fails = mostly(b'"stream error"', b" ", b"x/y-1", b' error.error="', b"too long", b'"', b' error.error="', b"too long")
opens = mostly(b'"creating instance" directory=', b"/home/a b", b'"')


@given(heads | texts)
def test_the_head(text: bytes) -> None:
    found, expected = log_line.read_line(text), LINE.match(text)
    assert (found is None) == (expected is None)
    if found is not None and expected is not None:
        at = moment(expected[1].decode(errors="replace"))
        assert (found.level, found.run, found.message) == (expected[2], expected[3], text[expected.end() :])
        assert found.at == (None if at is None else at + 0.0005)


def decoded(match: re.Match[bytes] | None, errors: str = "strict") -> str | None:
    return match[1].decode(errors=errors) if match else None


@given(works | loops | begins | permits | bare | empty | fails | opens | texts)
@example(b"loop session.id=ses_")
@example(b'evaluated permission=a pattern="\\"" action.permission=b action.action=allow ')
@example(b'evaluated permission=a pattern="b"c action.permission=b action.action=allow ')
@example(b'"stream error"  error.error="')
@example(b'"stream error" error.error="x"')
def test_the_message(text: bytes) -> None:
    assert log_line.worked_on(text) == decoded(SESSION.match(text))
    assert log_line.created(text) == decoded(CREATED.match(text))
    assert text.startswith(log_line.ASKS) == bool(ASKING.match(text))
    assert log_line.is_allowed(text) == bool(ALLOWED.match(text))
    assert log_line.stream_error(text) == decoded(STREAM_ERROR.match(text), "replace")
    opened = decoded(INSTANCE.match(text), "surrogateescape")
    assert log_line.opened_folder(text) == (None if opened is None else opened.strip('"'))


@given(st.text(max_size=8).map(lambda text: "ses_" + text) | st.text(max_size=12))
@example("ses_")
@example("ses_ab\n")
def test_the_ids(id: str) -> None:
    assert log_line.is_session(id) == bool(SESSION_ID.fullmatch(id))


def test_every_kind_of_line_is_read() -> None:
    """That the strategies above do not only make what is no line."""
    text = b"timestamp=2026-11-15T20:11:36.104Z level=INFO run=4f1c message="
    found = log_line.read_line(text + b"loop session.id=ses_2b step=1")
    assert found is not None and found.at is not None
    assert (found.level, found.run, log_line.worked_on(found.message)) == (b"INFO", b"4f1c", "ses_2b")
    assert log_line.worked_on(b'"stream error" providerID=a modelID=b session.id=ses_1 error.error="x y"') == "ses_1"
    assert log_line.stream_error(b'"stream error" providerID=a modelID=b session.id=ses_1 error.error="x y"') == "x y"
    assert log_line.created(b"created id=ses_1 slug=x") == "ses_1"
    assert log_line.is_allowed(
        b'evaluated permission=bash pattern="rm \\"a\\"" action.permission=* action.action=allow ok'
    )
    assert log_line.is_allowed(b"evaluated permission=edit pattern=*.md action.permission=* action.action=allow ok")
    assert log_line.is_allowed(b"evaluated permission=edit pattern= action.permission=* action.action=allow ok")
    assert log_line.opened_folder(b'"creating instance" directory="/a b"') == "/a b"
