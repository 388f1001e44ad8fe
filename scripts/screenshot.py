"""Runs `scripts/demo.py` in a pseudo-terminal and draws what it really printed as an SVG: `make screenshot`."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

from scripts.drawing import Shown, draw, watch

REPO = Path(__file__).parent.parent
OUT = REPO / "docs" / "images" / "demo.svg"
UNTIL = "sources consulted"  # of the second `why`: the rest is more of the same


def main() -> None:
    env = {name: value for name, value in os.environ.items() if name != "NO_COLOR"}
    lines, code = watch([sys.executable, str(REPO / "scripts" / "demo.py")], env)
    if code:
        sys.exit(f"the demo failed: {code}")
    text = "\n".join(line.text for line in lines)
    first = text.index(UNTIL)
    cut = text.find(UNTIL, first + 1)
    kept = text[: cut if cut > 0 else first].rstrip()
    # The first `why`'s list of sources names temporary folders: it says nothing in a picture.
    kept = re.sub(rf"\n\n{UNTIL}\n(?:  .*\n)+", "\n", kept)
    OUT.parent.mkdir(parents=True, exist_ok=True)
    OUT.write_text(draw([Shown(0.0, line) for line in kept.split("\n")]), encoding="utf-8")
    print(f"wrote {OUT.relative_to(REPO)}")


if __name__ == "__main__":
    main()
