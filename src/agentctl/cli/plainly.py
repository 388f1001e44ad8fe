"""The words of a command, read without argparse: to import that and to build a parser takes as long as half of bare
Python.

A verb declares its arguments to both alike. Whatever is not plain (a mistake, --help, `--option=value`, a kind of
argument that is not known here) is left to argparse: `parse` gives None. So nothing has to be complained about here.
"""

from __future__ import annotations

from agentctl.errors import AgentctlError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace
    from collections.abc import Callable, Container
    from typing import Any, NoReturn


class NotPlain(Exception):
    """For argparse to read, or to complain about."""


class Arguments:
    """What a verb is run with: a namespace."""


class Argument:
    def __init__(
        self, name: str, action: str, type: Callable[[str], object] | None, choices: Container[object] | None
    ) -> None:
        self.name = name
        self.action = action
        self.type = type
        self.choices = choices

    def value(self, word: str) -> object:
        if word.startswith("-"):
            raise NotPlain
        try:
            value = word if self.type is None else self.type(word)
        except (ValueError, TypeError, AgentctlError):
            raise NotPlain from None
        if self.choices is not None and value not in self.choices:
            raise NotPlain
        return value


class Declared:
    """Stands in for the parser that a verb adds its arguments to."""

    def __init__(self) -> None:
        self.options: dict[str, Argument] = {}
        self.places: list[Argument] = []
        self.values: dict[str, object] = {}

    def add_argument(
        self,
        *names: str,
        action: str = "store",
        type: Callable[[str], object] | None = None,
        choices: Container[object] | None = None,
        default: object = None,
        help: str | None = None,
        metavar: str | None = None,
        **more: object,
    ) -> None:
        if more or action not in ("store", "store_true", "append"):
            raise NotPlain
        if not (default is None or default.__class__ is int or (default.__class__ is str and type is None)):
            raise NotPlain  # of others argparse makes something first
        if not names[0].startswith("-"):
            self.places.append(Argument(names[0], action, type, choices))
            return
        long = next((name for name in names if name.startswith("--")), names[0])
        name = long.lstrip("-").replace("-", "_")
        self.options.update(dict.fromkeys(names, Argument(name, action, type, choices)))
        self.values[name] = False if action == "store_true" else default

    def __getattr__(self, name: str) -> NoReturn:
        raise NotPlain  # groups of arguments, defaults of a parser

    def read(self, words: list[str]) -> dict[str, object]:
        found, places = dict(self.values), iter(self.places)
        rest = iter(words)
        for word in rest:
            option = self.options.get(word) if word.startswith("-") else next(places, None)
            if option is None:
                raise NotPlain
            if option.action == "store_true":
                found[option.name] = True
                continue
            value = option.value(next(rest, "-") if word.startswith("-") else word)
            if option.action == "append":
                before = found[option.name]
                found[option.name] = [*before, value] if isinstance(before, list) else [value]
            else:
                found[option.name] = value
        if next(places, None) is not None:
            raise NotPlain
        return found


def parse(declare: Callable[[ArgumentParser], None], words: list[str], **more: Any) -> Namespace | None:
    declared, arguments = Declared(), Arguments()
    try:
        declare(declared)  # type: ignore[arg-type]
        arguments.__dict__.update({**declared.read(words), **more})
    except NotPlain:
        return None
    return arguments  # type: ignore[return-value]
