"""The file of a matrix: what it expands to, and every error with its line."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

import pytest

from agentctl.errors import AgentctlError, UsageError
from agentctl.launch import matrix
from agentctl.launch.slots import Wanted

if TYPE_CHECKING:
    from pathlib import Path

WHOLE = """\
prompt: |
  Do it.
  Well.
cwd: ../app
matrix:
  - agent: claude
    model: [opus, sonnet]
    permissions: [plan, edits]
  - agent: codex
    prompt: Only this.
    base_branch: main
    env: {A: text, B: 5, C: 1.50}
    flags: [--search, --turns, 3]
"""


def read(folder: Path, text: str | bytes) -> matrix.Matrix:
    path = folder / "m.yaml"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return matrix.read(str(path))


def test_the_whole_of_it(tmp_path: Path) -> None:
    found = read(tmp_path, WHOLE)
    assert (found.prompt, found.cwd) == ("Do it.\nWell.\n", str(tmp_path.parent / "app"))
    where = f"{tmp_path}/m.yaml"
    assert found.wanted == (
        *(
            Wanted("claude-code", model, permissions, where=f"{where}:6")
            for model in ("opus", "sonnet")
            for permissions in ("plan", "edits")
        ),
        Wanted(
            "codex",
            None,
            None,
            "Only this.",
            "main",
            (("A", "text"), ("B", "5"), ("C", "1.50")),
            ("--search", "--turns", "3"),
            f"{where}:9",
        ),
    )


def test_every_field_expands(tmp_path: Path) -> None:
    text = """\
matrix:
  - agent: [demo, claude]
    model: [a, null]
    prompt: [one, two]
    base_branch: [main, dev]
    env: [{}, {X: y}]
    flags: [[], [--a, --b]]
"""
    found = read(tmp_path, text).wanted
    assert len(found) == len(set(found)) == 64
    assert found[0] == Wanted("demo", "a", None, "one", "main", (), (), f"{tmp_path}/m.yaml:2")
    assert found[-1] == Wanted(
        "claude-code", None, None, "two", "dev", (("X", "y"),), ("--a", "--b"), f"{tmp_path}/m.yaml:2"
    )


def test_the_order_is_that_of_the_file(tmp_path: Path) -> None:
    found = read(tmp_path, "matrix:\n- {model: [a, b], agent: [demo, codex]}\n").wanted
    assert [(one.model, one.agent) for one in found] == [("a", "demo"), ("a", "codex"), ("b", "demo"), ("b", "codex")]


def test_anchors_are_fine(tmp_path: Path) -> None:
    found = read(tmp_path, "prompt: &p do it\nmatrix:\n- &one {agent: demo, prompt: *p}\n- *one\n").wanted
    assert [(one.agent, one.prompt) for one in found] == [("demo", "do it")] * 2


@pytest.mark.parametrize(
    ("given", "cwd"), [("~/x", "{home}/x"), ("/abs", "/abs"), (".", "{folder}"), ("s/t", "{folder}/s/t")]
)
def test_the_directory(tmp_path: Path, given: str, cwd: str) -> None:
    found = read(tmp_path, f"cwd: {given}\nmatrix: [{{agent: demo}}]\n")
    assert found.cwd == cwd.format(home=os.path.expanduser("~"), folder=tmp_path)


BOMB = "".join(
    f"{name}: &{name} [{', '.join([f'*{before}'] * 9)}]\n"
    if before
    else f"{name}: &{name} [x, x, x, x, x, x, x, x, x]\n"
    for before, name in zip((None, *"abcdefgh"), "abcdefghi", strict=True)
)
MANY = "matrix:\n" + "- agent: demo\n" * 64
WRONG = {
    "nothing": ("", None, "the file is empty"),
    "a comment": ("# only this\n", None, "the file is empty"),
    "a list": ("- agent: demo\n", 1, "the file must be a mapping of names to values, not a list"),
    "a word": ("\nhello\n", 2, "the file must be a mapping of names to values, not 'hello'"),
    "no matrix": ("\nprompt: x\n", 2, "no matrix"),
    "an unknown key": ("prompt: x\nmatrx: []\n", 2, "the file has no key 'matrx'; it has prompt, cwd, matrix"),
    "a key that is a number": ("1: x\n", 1, "a key that is no name"),
    "a key that is a list": ("? [a]\n: x\n", 1, "a key that is no name"),
    "twice": ("prompt: x\nmatrix: [{agent: demo}]\nprompt: y\n", 3, "prompt is there twice"),
    "prompt: a number": ("prompt: 5\nmatrix: [{agent: demo}]\n", 1, "prompt must be a text: put it into quotes, '5'"),
    "prompt: a list": ("prompt: [x]\nmatrix: [{agent: demo}]\n", 1, "prompt must be a text, not a list"),
    "cwd: a mapping": ("matrix: [{agent: demo}]\ncwd: {a: b}\n", 2, "cwd must be a text, not a mapping"),
    "matrix: a word": ("matrix: demo\n", 1, "matrix must be a list, not 'demo'"),
    "matrix: empty": ("matrix:\n  []\n", 2, "matrix is empty"),
    "a slot: a word": ("matrix:\n- demo\n", 2, "a slot must be a mapping"),
    "a slot: unknown key": (
        "matrix:\n- agent: demo\n  modle: x\n",
        3,
        "a slot has no key 'modle'; it has agent, model",
    ),
    "a slot: a key twice": ("matrix:\n- agent: demo\n  model: x\n  model: y\n", 4, "model is there twice"),
    "a slot: merged": ("matrix:\n- &a {agent: demo}\n- <<: *a\n  model: x\n", 3, "a key that is no name"),
    "no agent": ("matrix:\n- agent: demo\n- model: x\n", 3, "a slot without an agent; known:"),
    "agent: unknown": ("matrix:\n- agent: [demo,\n    nobody]\n", 3, "unknown agent 'nobody'; known:"),
    "agent: nothing": ("matrix:\n- agent:\n", 2, "unknown agent None"),
    "model: a number": ("matrix:\n- agent: demo\n  model: 4.1\n", 3, "put it into quotes, '4.1'"),
    "model: yes": ("matrix:\n- agent: demo\n  model: [a,\n   yes]\n", 4, "put it into quotes, 'yes'"),
    "model: lists in a list": ("matrix:\n- agent: demo\n  model: [[a]]\n", 3, "model must be a text, not a list"),
    "model: an empty list": ("matrix:\n- agent: demo\n  model: []\n", 3, "model: an empty list leaves no slot"),
    "permissions": ("matrix:\n- agent: demo\n  permissions: all\n", 3, "permissions 'all': use one of default"),
    "env: a list of words": ("matrix:\n- agent: demo\n  env: [A=b]\n", 3, "env must be a mapping"),
    "env: a value": ("matrix:\n- agent: demo\n  env: {A: [b]}\n", 3, "env A must be a text, not a list"),
    "env: yes": ("matrix:\n- agent: demo\n  env:\n    A: yes\n", 4, "env A must be a text: put it into quotes, 'yes'"),
    "env: no value": ("matrix:\n- agent: demo\n  env:\n    A:\n", 4, "env A must be a text: put it into quotes, ''"),
    "env: a name": ("matrix:\n- agent: demo\n  env: {'A=': b}\n", 3, "'A=' cannot be the name of a variable"),
    "flags: a word": ("matrix:\n- agent: demo\n  flags: --all\n", 3, "flags must be a list, not '--all'"),
    "flags: mixed": ("matrix:\n- agent: demo\n  flags: [[--a], --b]\n", 3, "flags must be a list, not '--b'"),
    "flags: a mapping": ("matrix:\n- agent: demo\n  flags: [{a: b}]\n", 3, "a flag must be a text, not a mapping"),
    "not closed": ("matrix: [\n{agent: demo\n", 3, "expected ',' or '}'"),
    "a tab": ("matrix:\n\t- agent: demo\n", 2, "found character '\\t'"),
    "two documents": ("matrix: [{agent: demo}]\n---\nmatrix: []\n", 2, "but found another document"),
    "an unknown anchor": ("matrix:\n- *nobody\n", 2, "found undefined alias 'nobody'"),
    "a control character": ("prompt: x\nmatrix: \x01\n", 2, "a character that no YAML file has"),
    "a tag": ("matrix:\n- agent: !!python/name:os.system demo\n", 2, "agent must be a text: put it into quotes"),
    "in itself": ("matrix:\n- agent: demo\n  model: &a [*a]\n", 3, "model must be a text, not a list"),
    "the matrix in itself": ("matrix: &m\n- *m\n", 1, "a slot must be a mapping of names to values, not a list"),
    "a bomb": (BOMB + "matrix:\n- agent: demo\n  model: *i\n", 1, "the file has no key 'a'"),
    "a bomb in a field": (
        "matrix:\n- agent: demo\n  model: &a [x, x, x, x, x, x, x, x, x]\n  prompt: *a\n",
        2,
        "81 slots",
    ),
    "one too many": (MANY + "- agent: demo\n", 66, "65 slots are too many for one command: at most 64"),
    "a product too many": (MANY.replace("demo\n", "demo\n  model: [a, b]\n", 1), 66, "65 slots are too many"),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_is_wrong_has_its_line(tmp_path: Path, case: str) -> None:
    text, line, why = WRONG[case]
    with pytest.raises(UsageError) as raised:
        read(tmp_path, text)
    said = str(raised.value)
    assert said.startswith(f"{tmp_path}/m.yaml:{line}: " if line is not None else f"{tmp_path}/m.yaml: ")
    assert why in said


def test_what_is_no_text(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="lists in lists without end"):
        read(tmp_path, "matrix: " + "[" * 20_000)
    for text in (b"\xff\xfe", b"matrix: \xff\n", b"x" * (matrix.SIZE + 1)):
        with pytest.raises(UsageError, match=r"m\.yaml"):
            read(tmp_path, text)
    with pytest.raises(UsageError, match="no such file"):
        matrix.read(str(tmp_path / "none.yaml"))
    with pytest.raises(UsageError, match="a directory"):
        matrix.read(str(tmp_path))


def test_the_most_that_there_can_be(tmp_path: Path) -> None:
    assert len(read(tmp_path, MANY).wanted) == 64


def test_without_the_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "yaml", None)
    with pytest.raises(AgentctlError, match="needs the package PyYAML"):
        read(tmp_path, MANY)
