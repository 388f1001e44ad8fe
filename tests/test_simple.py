"""Files stay short, and functions simple: a reader can hold one in mind."""

from __future__ import annotations

import ast
from pathlib import Path

from tests.support.demo_home import SOURCES
from tests.support.worlds import FIXTURES

TESTS = [path for path in Path(__file__).parent.rglob("*.py") if FIXTURES not in path.parents]
MODULES = sorted(Path(SOURCES, "agentctl").rglob("*.py"))
MOST_LINES = 500
MOST_BRANCHES = 20
BRANCHING = (
    *(ast.If, ast.IfExp, ast.For, ast.AsyncFor, ast.While, ast.ExceptHandler, ast.match_case, ast.comprehension),
)


def test_files_stay_short() -> None:
    lines = {str(path): len(path.read_text().splitlines()) for path in (*MODULES, *TESTS)}
    assert {name: count for name, count in lines.items() if count > MOST_LINES} == {}


def branches_of(function: ast.AST) -> int:
    """How many ways lead through it: each condition, each loop, each `and` and `or`."""
    nodes = [node for node in ast.walk(function) if node is not function]
    return (
        sum(isinstance(node, BRANCHING) for node in nodes)
        + sum(len(node.values) - 1 for node in nodes if isinstance(node, ast.BoolOp))
        + sum(len(node.ifs) for node in nodes if isinstance(node, ast.comprehension))
    )


def test_what_counts_as_a_branch() -> None:
    assert branches_of(ast.parse("def f(x):\n return x")) == 0
    assert branches_of(ast.parse("if a and b or c:\n d = [e for e in f if e]\nelse:\n g = h if i else j")) == 6


def test_functions_stay_simple() -> None:
    functions = [
        (f"{path.name}: {node.name}", branches_of(node))
        for path in MODULES
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    ]
    assert len(functions) > 1000
    assert [(name, count) for name, count in functions if count > MOST_BRANCHES] == []
