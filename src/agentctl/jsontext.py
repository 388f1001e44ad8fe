"""JSON to values, and back: the decoder and the encoder of the standard library, without its package. That one compiles
patterns, and to import what it needs for it takes 10 ms, most of what bare Python takes to start.

Whatever is not plain, and where Python has no such decoder or encoder in C, goes through the package.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, NoReturn

SPACE = " \t\n\r"


class Settings:
    """What json.JSONDecoder() tells its scanner."""

    strict = True
    object_hook = object_pairs_hook = None
    parse_float, parse_int = float, int
    parse_constant = {"-Infinity": float("-inf"), "Infinity": float("inf"), "NaN": float("nan")}.__getitem__


def scanner() -> Callable[[str, int], tuple[Any, int]]:
    try:
        from _json import make_scanner

        return make_scanner(Settings)  # type: ignore[arg-type]
    except (ImportError, AttributeError, TypeError):  # not CPython, or one that wants to be told more
        from json import JSONDecoder

        return JSONDecoder().raw_decode


scan = scanner()


def leading(text: str) -> Any:
    """The value at the beginning of a text, whatever follows. Raises ValueError, and RecursionError."""
    return scanned(text)[0]


def scanned(text: str) -> tuple[Any, int]:
    """The value at the beginning of a text, and where it ends."""
    try:
        return scan(text, 0)
    except (StopIteration, SystemError):
        # So the scanner says that a value is missing. For what else is wrong it looks for the package's exception, and
        # where nobody has imported that, Python 3.11 finds that it raised none: a SystemError.
        raise ValueError("no JSON") from None


def whole(text: str | bytes) -> Any:
    """As json.loads. Only an object in UTF-8 is read here: so begins every line that is worth it."""
    if isinstance(text, bytes):
        if text[:1] != b"{" or text[1:2] == b"\0":  # blanks, a byte order mark, UTF-16: the package knows them
            return loads(text)
        text = text.decode("utf-8", "surrogatepass")
    elif text[:1] != "{":
        return loads(text)
    value, end = scanned(text)
    if end != len(text) and text[end:].strip(SPACE):
        raise ValueError("more than one value")
    return value


def encoder() -> Callable[[object], str]:
    """As json.JSONEncoder(separators=(",", ":")).encode, of what has no circle."""
    try:
        from _json import encode_basestring_ascii, make_encoder

        pieces = make_encoder(None, no_json, encode_basestring_ascii, None, ":", ",", False, False, True)
        return lambda value: "".join(pieces(value, 0))
    except (ImportError, TypeError):
        from json import JSONEncoder

        return JSONEncoder(separators=(",", ":")).encode


def no_json(value: object) -> NoReturn:
    raise TypeError(f"{type(value).__name__} is no JSON")


compact = encoder()


def loads(text: str | bytes) -> Any:
    import json

    return json.loads(text)
