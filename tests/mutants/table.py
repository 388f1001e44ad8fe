"""All mutants."""

from __future__ import annotations

from tests.mutants.table_accept import ACCEPT
from tests.mutants.table_act import ACT
from tests.mutants.table_acting import ACTING
from tests.mutants.table_confined import CONFINED
from tests.mutants.table_daemon import DAEMON
from tests.mutants.table_doings import DOINGS
from tests.mutants.table_facts import FACTS
from tests.mutants.table_gaps import GAPS
from tests.mutants.table_groups import GROUPS
from tests.mutants.table_guesses import GUESSES
from tests.mutants.table_held import HELD
from tests.mutants.table_hints import HINTS
from tests.mutants.table_kept import KEPT
from tests.mutants.table_kernel import KERNEL
from tests.mutants.table_launches import LAUNCHES
from tests.mutants.table_live import LIVE
from tests.mutants.table_namespaces import NAMESPACES
from tests.mutants.table_older import OLDER
from tests.mutants.table_places import PLACES
from tests.mutants.table_removing import REMOVING
from tests.mutants.table_rows import ROWS
from tests.mutants.table_screens import SCREENS
from tests.mutants.table_status import STATUS
from tests.mutants.table_stores import STORES
from tests.mutants.table_turns import TURNS
from tests.mutants.table_unread import UNREAD
from tests.mutants.table_words import WORDS
from tests.mutants.table_worktrees import WORKTREES

MUTANTS = (
    *STATUS,
    *FACTS,
    *GAPS,
    *UNREAD,
    *TURNS,
    *NAMESPACES,
    *KERNEL,
    *LAUNCHES,
    *KEPT,
    *STORES,
    *HINTS,
    *GUESSES,
    *PLACES,
    *SCREENS,
    *ACTING,
    *ACT,
    *ACCEPT,
    *WORKTREES,
    *GROUPS,
    *ROWS,
    *LIVE,
    *DAEMON,
    *WORDS,
    *OLDER,
    *CONFINED,
    *HELD,
    *REMOVING,
    *DOINGS,
)
