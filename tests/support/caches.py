"""What may become of a file of the cache."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable


def changed(change: Callable[[dict[str, Any]], object]) -> Callable[[bytes], bytes]:
    def run(data: bytes) -> bytes:
        content = json.loads(data)
        change(content)
        return json.dumps(content).encode()

    return run
