"""A fake model server: four wire formats, one script core, scripted by the prompt itself. Standard library only."""

from __future__ import annotations

from tests.lab.model.script import Directive, directives
from tests.lab.model.server import Entry, ModelServer

__all__ = ["Directive", "Entry", "ModelServer", "directives"]
