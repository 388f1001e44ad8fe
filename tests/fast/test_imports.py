"""A module that is imported by its name is the one that importlib gives."""

from __future__ import annotations

import importlib

import pytest

from agentctl.fast.imports import import_module
from tests.support.bare_python import run_bare


@pytest.mark.parametrize(
    "name", ["os", "os.path", "agentctl", "agentctl.fast", "agentctl.fast.json", "email.mime.text"]
)
def test_it_is_the_module_that_importlib_gives(name: str) -> None:
    assert import_module(name) is importlib.import_module(name)


@pytest.mark.parametrize("name", ["no_such_module", "agentctl.no_such_module", "os.path.no_such_module"])
def test_what_is_not_there_is_told_as_by_importlib(name: str) -> None:
    said = []
    for load in (import_module, importlib.import_module):
        with pytest.raises(ModuleNotFoundError) as raised:
            load(name)
        said.append((str(raised.value), raised.value.name))
    assert said[0] == said[1]


def test_it_imports_nothing_else() -> None:
    code = "from agentctl.fast.imports import import_module\nprint(import_module('agentctl.errors').__name__, end='')"
    found = run_bare(code)
    assert found.stdout == "agentctl.errors"
    assert not found.modules & {"importlib", "warnings"}
