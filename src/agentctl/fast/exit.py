"""Stands for sys.exit: ends the program at once, without taking its modules and values apart.

Taking them apart is a fifteenth of a `list`. What was registered with atexit is done, and all output is written. Python
ends in its own way, by sys.exit, if the output could not be written (a full disk, a closed pipe: it says so), or if it
has no function that does what was registered. It is for commands that hold nothing in a `finally` and wait for no
thread: neither is run or waited for.
"""

from __future__ import annotations

import atexit
import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn


def exit(code: int) -> NoReturn:
    try:
        finish = atexit._run_exitfuncs
        sys.stdout.flush()
        sys.stderr.flush()
    except (AttributeError, OSError, ValueError):  # no such function; or no output, a closed or a full one
        sys.exit(code)
    finish()  # temporary folders
    os._exit(code)
