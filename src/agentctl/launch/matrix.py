"""Reads a file that says which agents are to work side by side. It is YAML, read as a tree of nodes, so that every
error names its line. No node becomes a Python object, and nothing is expanded before it is counted.

    prompt: Fix the failing test.        # for every slot that has none of its own
    cwd: ../app                          # from where this file is; ~ is the home
    matrix:
      - agent: claude
        model: [opus, sonnet]            # a list in any field: one slot for each combination
        permissions: edits
      - agent: codex
        prompt: Fix it, and nothing else.
        base_branch: main
        env: {LOG: debug}
        flags: [--search]                # a list of its own: a list of lists is one slot for each
"""

from __future__ import annotations

import os
from itertools import product
from math import prod

from agentctl.agents import TABLE, canonical_name
from agentctl.agents.recipes import PERMISSIONS
from agentctl.errors import AgentctlError, UsageError
from agentctl.launch import prompt as prompts
from agentctl.launch import slots
from agentctl.launch.slots import Wanted
from agentctl.model import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, Protocol

    class Node(Protocol):
        """As PyYAML composes it."""

        id: str  # scalar | sequence | mapping
        tag: str
        value: Any
        start_mark: Any


SIZE = 256 * 1024
KEYS = ("prompt", "cwd", "matrix")
STR, INT, FLOAT, NULL = (f"tag:yaml.org,2002:{name}" for name in ("str", "int", "float", "null"))
MISSING = "--matrix needs the package PyYAML: `pip install pyyaml` beside agentctl"


class Matrix(Value):
    wanted: tuple[Wanted, ...]
    prompt: str | None = None
    cwd: str | None = None  # absolute


def read(path: str) -> Matrix:
    """Return the slots that a file wants. Raises UsageError, with the line."""
    return Reader(path).matrix()


class Reader:
    def __init__(self, path: str) -> None:
        self._path = path
        self._readers: dict[str, Callable[[Node, str], Any]] = {
            "agent": self._agent,
            "model": self._text,
            "permissions": self._permissions,
            "prompt": self._text,
            "base_branch": self._text,
            "env": self._env,
            "flags": self._flags,
        }

    def matrix(self) -> Matrix:
        root = self._root()
        top = self._mapping(root, "the file", KEYS)
        if "matrix" not in top:
            raise self._error(root, "no matrix: a list of agents, such as `matrix: [{agent: ...}, {agent: ...}]`")
        entries = self._list(top["matrix"], "matrix")
        if not entries:
            raise self._error(top["matrix"], "matrix is empty; name an agent")
        wanted: list[Wanted] = []
        for entry in entries:
            wanted += self._entry(entry, len(wanted))
        cwd = self._text(top["cwd"], "cwd") if "cwd" in top else None
        return Matrix(
            tuple(wanted),
            self._text(top["prompt"], "prompt") if "prompt" in top else None,
            None if cwd is None else self._beside(cwd),
        )

    def _beside(self, path: str) -> str:
        return os.path.abspath(os.path.join(os.path.dirname(os.path.abspath(self._path)), os.path.expanduser(path)))

    # The tree

    def _root(self) -> Node:
        try:
            import yaml
        except ImportError as error:
            raise AgentctlError(MISSING) from error
        text = prompts.read_text(self._path, SIZE)
        try:
            root: Any = yaml.compose(text, Loader=yaml.SafeLoader)
        except yaml.MarkedYAMLError as error:
            mark = error.problem_mark or error.context_mark
            raise UsageError(f"{self._where(mark.line if mark else 0)}: {said(error)}; correct it") from error
        except yaml.reader.ReaderError as error:
            line = text.count("\n", 0, error.position)
            raise UsageError(f"{self._where(line)}: a character that no YAML file has; take it out") from error
        except RecursionError:
            raise UsageError(
                f"{self._path}: lists in lists without end; `agentctl launch --help` has the shape"
            ) from None
        if root is None:
            raise UsageError(f"{self._path}: the file is empty; it needs a matrix of agents")
        node: Node = root
        return node

    def _mapping(self, node: Node, what: str, known: tuple[str, ...] | None = None) -> dict[str, Node]:
        if node.id != "mapping":
            raise self._error(node, f"{what} must be a mapping of names to values, not {kind(node)}")
        values: dict[str, Node] = {}
        for key, value in node.value:
            if key.id != "scalar" or (key.tag != STR and known is not None):
                raise self._error(key, f"{what} has a key that is no name")
            name = key.value
            if known is not None and name not in known:
                raise self._error(key, f"{what} has no key {name!r}; it has {', '.join(known)}")
            if name in values:
                raise self._error(key, f"{name} is there twice")
            values[name] = value
        return values

    def _list(self, node: Node, what: str) -> list[Node]:
        if node.id != "sequence":
            raise self._error(node, f"{what} must be a list, not {kind(node)}")
        items: list[Node] = node.value
        return items

    def _where(self, line: int) -> str:
        return f"{self._path}:{line + 1}"

    def _error(self, node: Node, what: str) -> UsageError:
        return UsageError(f"{self._where(node.start_mark.line)}: {what}")

    # An entry: each of its fields is a list of alternatives

    def _entry(self, entry: Node, before: int) -> list[Wanted]:
        fields = self._mapping(entry, "a slot", tuple(self._readers))
        if "agent" not in fields:
            raise self._error(entry, f"a slot without an agent; known: {', '.join(TABLE)}")
        nodes = {name: self._alternatives(name, node) for name, node in fields.items()}
        slots.check_number(before + prod(map(len, nodes.values())), f"{self._where(entry.start_mark.line)}: ")
        choices = {name: [self._readers[name](node, name) for node in several] for name, several in nodes.items()}
        where = self._where(entry.start_mark.line)
        return [
            Wanted(**{name: value for name, value in zip(choices, row, strict=True) if value is not None}, where=where)
            for row in product(*choices.values())
        ]

    def _alternatives(self, name: str, node: Node) -> list[Node]:
        if node.id != "sequence" or (name == "flags" and not any(item.id == "sequence" for item in node.value)):
            return [node]
        if not node.value:
            raise self._error(node, f"{name}: an empty list leaves no slot; leave the key out")
        items: list[Node] = node.value
        return items

    def _text(self, node: Node, name: str) -> str | None:
        if node.id != "scalar":
            raise self._error(node, f"{name} must be a text, not {kind(node)}")
        if node.tag == NULL:
            return None
        if node.tag != STR:
            raise self._error(node, f"{name} must be a text: put it into quotes, {node.value!r}")
        return str(node.value)

    def _agent(self, node: Node, name: str) -> str:
        given = self._text(node, name)
        agent = canonical_name(given) if given else None
        if agent is None:
            raise self._error(node, f"unknown agent {given!r}; known: {', '.join(TABLE)}")
        return agent

    def _permissions(self, node: Node, name: str) -> str | None:
        mode = self._text(node, name)
        if mode is not None and mode not in PERMISSIONS:
            raise self._error(node, f"permissions {mode!r}: use one of {', '.join(PERMISSIONS)}")
        return mode

    def _env(self, node: Node, name: str) -> tuple[tuple[str, str], ...]:
        variables = self._mapping(node, name)
        for key in variables:
            if not key or "=" in key:
                raise self._error(node, f"env: {key!r} cannot be the name of a variable")
        return tuple((key, self._word(value, f"env {key}")) for key, value in variables.items())

    def _flags(self, node: Node, name: str) -> tuple[str, ...]:
        return tuple(self._word(flag, "a flag") for flag in self._list(node, name))

    def _word(self, node: Node, what: str) -> str:
        """Return a text, or a number as it is written. It refuses yes, no and nothing: the person may mean a text."""
        if node.id != "scalar":
            raise self._error(node, f"{what} must be a text, not {kind(node)}")
        if node.tag not in (STR, INT, FLOAT):
            raise self._error(node, f"{what} must be a text: put it into quotes, {node.value!r}")
        return str(node.value)


def kind(node: Node) -> str:
    return {"sequence": "a list", "mapping": "a mapping"}.get(node.id, f"{node.value!r}")


def said(error: Any) -> str:
    parts = [part for part in (error.context, error.problem) if part]
    return prompts.one_line(", ".join(parts)) or "not YAML"
