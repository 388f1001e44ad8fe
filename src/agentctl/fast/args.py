"""Stands for argparse: reads the words of a command that are plain, from the declarations that argparse gets.

Importing argparse and building a parser takes as long as half of bare Python. Whatever is not plain is left to it: a
mistake, --help, `--option=value`, a kind of argument that this module does not know. For those `parse` returns None, so
nothing here has to complain.
"""

from __future__ import annotations

from agentctl.errors import AgentctlError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace
    from collections.abc import Callable, Container
    from typing import Any, NoReturn


class NotPlain(Exception):
    """Raised for words that argparse has to read, or to complain about."""


class Arguments:
    """Stands for argparse.Namespace: what a verb is run with."""


class Argument:
    """One option, or one positional argument."""

    def __init__(
        self, name: str, action: str, type: Callable[[str], object] | None, choices: Container[object] | None
    ) -> None:
        self.name = name
        self.action = action
        self.type = type
        self.choices = choices

    def value(self, word: str) -> object:
        """Convert a word as the declaration says."""
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
    """Stands for argparse.ArgumentParser, for a verb to declare its arguments to."""

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
            raise NotPlain  # argparse converts such a default first
        if not names[0].startswith("-"):
            self.places.append(Argument(names[0], action, type, choices))
            return
        long = next((name for name in names if name.startswith("--")), names[0])
        name = long.lstrip("-").replace("-", "_")
        self.options.update(dict.fromkeys(names, Argument(name, action, type, choices)))
        self.values[name] = False if action == "store_true" else default

    def __getattr__(self, name: str) -> NoReturn:
        raise NotPlain  # a group of arguments, the defaults of a parser

    def read(self, words: list[str]) -> dict[str, object]:
        """Return the values of all arguments by name. Raises NotPlain."""
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
    """Return what argparse would make of these words, and `more` beside it; None if argparse has to read them."""
    declared, arguments = Declared(), Arguments()
    try:
        declare(declared)  # type: ignore[arg-type]
        arguments.__dict__.update({**declared.read(words), **more})
    except NotPlain:
        return None
    return arguments  # type: ignore[return-value]
