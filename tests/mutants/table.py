"""All of them."""

from __future__ import annotations

from tests.mutants.table_acting import ACTING
from tests.mutants.table_status import STATUS

MUTANTS = (*STATUS, *ACTING)
