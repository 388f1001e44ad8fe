"""python -m tests.lab.model [--port N] [--log FILE] [--all]: the fake model server on its own, until Ctrl-C."""

from __future__ import annotations

import argparse
import contextlib
import sys

from tests.lab.model.server import ModelServer


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.lab.model")
    parser.add_argument("--port", type=int, default=0, help="default: a free one; it is printed")
    parser.add_argument("--log", type=argparse.FileType("a"), help="append the log of requests here, as JSON lines")
    parser.add_argument("--all", action="store_true", help="script requests without tools, too (no side calls)")
    args = parser.parse_args()
    try:
        server = ModelServer(args.port, log=args.log, side_calls=not args.all)
    except OSError as error:
        print(f"the fake model cannot listen on 127.0.0.1:{args.port}: {error.strerror}", file=sys.stderr)
        return 1
    print(server.url, flush=True)
    with contextlib.suppress(KeyboardInterrupt):
        server.serve_forever()
    return 0


if __name__ == "__main__":
    sys.exit(main())
