"""Stands for json: `loads`, `dumps`, and `raw_decode` as of json.JSONDecoder().

It calls the decoder and the encoder in C that the package calls. The package compiles patterns: importing it takes as
long as half of bare Python. Whatever is not plain goes to the package, and so does everything on a Python that has no
such decoder or encoder. For a text that is no JSON it raises ValueError, of which json.JSONDecodeError is a subclass,
and does not say where the fault is.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, NoReturn

SPACE = " \t\n\r"
COMPACT = (",", ":")


class Settings:
    """What json.JSONDecoder() tells its scanner."""

    strict = True
    object_hook = object_pairs_hook = None
    parse_float, parse_int = float, int
    parse_constant = {"-Infinity": float("-inf"), "Infinity": float("inf"), "NaN": float("nan")}.__getitem__


def scanner() -> Callable[[str, int], tuple[Any, int]]:
    """Return a function that reads the value at a place in a text, and says where it ends."""
    try:
        from _json import make_scanner

        return make_scanner(Settings)  # type: ignore[arg-type]
    except (ImportError, AttributeError, TypeError):  # not CPython, or one that wants to be told more
        from json import JSONDecoder

        return JSONDecoder().raw_decode


scan = scanner()


def raw_decode(text: str, start: int = 0) -> tuple[Any, int]:
    """Return the value at a place in a text, whatever follows it, and where it ends. Raises ValueError, and
    RecursionError."""
    try:
        return scan(text, start)
    except (StopIteration, SystemError):
        # The scanner raises StopIteration if a value is missing. For other faults it looks for the package's exception;
        # if nobody has imported the package, Python 3.11 notices that it raised none: a SystemError.
        raise ValueError("no JSON") from None


def loads(text: str | bytes) -> Any:
    """Return the value of a text. An object in UTF-8 is read here, for all our lines are objects; everything else by
    the package. Raises ValueError, and RecursionError."""
    if isinstance(text, bytes):
        if text[:1] != b"{" or text[1:2] == b"\0":  # blanks, a byte order mark, UTF-16: the package knows them
            return loads_by_package(text)
        text = text.decode("utf-8", "surrogatepass")
    elif text[:1] != "{":
        return loads_by_package(text)
    value, end = raw_decode(text)
    if end != len(text) and text[end:].strip(SPACE):
        raise ValueError("more than one value")
    return value


def loads_by_package(text: str | bytes) -> Any:
    import json

    return json.loads(text)


def encoder() -> Callable[[object], str] | None:
    """Return what json.JSONEncoder(separators=(",", ":")).encode does; None if Python has no such encoder in C."""
    try:
        from _json import encode_basestring_ascii, make_encoder

        def encode(value: object) -> str:
            seen: dict[int, object] = {}  # what the value is inside of: so a circle is noticed
            pieces = make_encoder(seen, no_json, encode_basestring_ascii, None, ":", ",", False, False, True)
            return "".join(pieces(value, 0))

        encode(None)
    except (ImportError, TypeError):
        return None
    return encode


def no_json(value: object) -> NoReturn:
    raise TypeError(f"Object of type {type(value).__name__} is not JSON serializable")


encode_compactly = encoder()


def dumps(value: object, *, separators: tuple[str, str] | None = None) -> str:
    """Return the text of a value. Only the compact form, separators=(",", ":"), is written here; any other one by the
    package. Raises TypeError for what JSON cannot hold, and ValueError for a circle."""
    if separators == COMPACT and encode_compactly is not None:
        return encode_compactly(value)
    import json

    return json.dumps(value, separators=separators)
