"""A stand-in for tmux, for machines without one: it notes how it was called, plays back panes, and gives one program a
real terminal. What it keeps is in the folder $FAKE_TMUX; what a test puts there changes what it does:

    hangs-NAME    the server of this socket does not answer
    fails         it fails, with these words
    fails-late    it opens a session, waits until its program has taken its order, and fails, with these words
    mode          every pane is in another mode than that for keys
    deaf          what is pasted reaches nobody
    no-enter      nor does Enter
    no-marks      the terminal was told to mark no pastes
    plain         its program does not know the marks of a paste: it shows them
    meanwhile     what a person types right before a paste
    more          the panes of every other server than the default one
    calls         how it was called, one list a line
"""

from __future__ import annotations

import json
import os
import pty
import re
import socket
import subprocess
import sys
import time
from pathlib import Path

PATIENCE = 20.0
REMAINS = 3.0
PASTES = b"\x1b[?2004h"
SEQUENCE = re.compile(rb"\x1b\[[?\d;]*[a-z~]")


def main(words: list[str], folder: Path) -> int:
    if words[:1] == ["keep"]:
        return keep(folder, words[1], words[2], words[3:])
    with (folder / "calls").open("a") as file:
        file.write(json.dumps(words) + "\n")
    server = ""
    while words and words[0].startswith("-"):
        if words[0] == "-S":
            server = os.readlink(words[1]) if words[1].startswith("/proc/") else words[1]
        words = words[2 if words[0] == "-S" else 1 :]
    if (folder / f"hangs-{os.path.basename(server)}").exists():
        time.sleep(PATIENCE)
    if (folder / "fails").exists():
        print((folder / "fails").read_text(), file=sys.stderr)
        return 1
    for command in commands(words):
        obey(folder, command, os.path.basename(server))
    if (folder / "fails-late").exists() and words[0] == "new-session":
        while os.path.exists(next(word for word in words if os.path.basename(word) == ".order.json")):
            time.sleep(0.01)
        print((folder / "fails-late").read_text(), file=sys.stderr)
        return 1
    return 0


def commands(words: list[str]) -> list[list[str]]:
    found: list[list[str]] = [[]]
    for word in words:
        if word == ";":
            found.append([])
        else:
            found[-1].append(word.replace("\\;", ";"))
    return found


def obey(folder: Path, words: list[str], server: str) -> None:
    match words[0]:
        case "new-session":
            open_session(folder, words)
        case "list-panes":
            print("\n".join(lines(folder, server)))
        case "capture-pane":
            sys.stdout.buffer.write(shown(folder))
        case "display-message":  # where the cursor is: behind what was written last
            last = shown(folder).decode(errors="replace")
            print(len(last.rpartition("\n")[2]), last.count("\n"), 1, flush=True)
        case "load-buffer":
            (folder / "buffer").write_bytes(sys.stdin.buffer.read())
        case "paste-buffer":
            data = (folder / "buffer").read_bytes().replace(b"\n", b"\r")
            asked = PASTES in (folder / "screen").read_bytes() and not (folder / "no-marks").exists()
            if "-p" in words and asked:
                data = b"\x1b[200~" + data + b"\x1b[201~"
            if (folder / "meanwhile").exists():
                type_keys(folder, (folder / "meanwhile").read_bytes())
            if (folder / "plain").exists():
                data = data.replace(b"\x1b[20", b"[20")
            if not (folder / "deaf").exists():
                type_keys(folder, data)
        case "kill-session":
            (folder / "closed").touch()
        case "send-keys" if not (folder / "no-enter").exists():
            type_keys(folder, b"\r")


def open_session(folder: Path, words: list[str]) -> None:
    at = words.index("-F") + 2
    name, cwd = words[words.index("-s") + 1], words[words.index("-c") + 1]
    server = Path(os.environ["TMUX_TMPDIR"]) / f"tmux-{os.getuid()}" / "default"
    server.parent.mkdir(parents=True, exist_ok=True)
    os.mkfifo(folder / "keys")
    argv = [sys.executable, __file__, "keep", str(server), name, *words[at:]]
    nowhere = subprocess.DEVNULL
    subprocess.Popen(argv, cwd=cwd, start_new_session=True, stdin=nowhere, stdout=nowhere, stderr=nowhere)
    deadline = time.monotonic() + PATIENCE
    while not (folder / "pane").exists() and time.monotonic() < deadline:
        time.sleep(0.01)
    print(f"{server} {lines(folder, 'default')[0]}")


def lines(folder: Path, server: str) -> list[str]:
    path = folder / ("pane" if server == "default" else "more")
    found = path.read_text().splitlines() if path.exists() else []
    mode = "1" if (folder / "mode").exists() else "0"
    return [line.replace("MODE", mode) for line in found]


def shown(folder: Path) -> bytes:
    return SEQUENCE.sub(b"", (folder / "screen").read_bytes()).replace(b"\r", b"")


def type_keys(folder: Path, data: bytes) -> None:
    with (folder / "keys").open("wb") as file:
        file.write(data)


def keep(folder: Path, server: str, name: str, argv: list[str]) -> int:
    """The pane's terminal, for as long as its program lives. It listens as a server does, and answers nobody."""
    listener = socket.socket(socket.AF_UNIX)
    Path(server).unlink(missing_ok=True)
    listener.bind(server)
    listener.listen(1000)
    (folder / "screen").touch()
    pid, terminal = pty.fork()
    if pid == 0:
        os.environ["TMUX"], os.environ["TMUX_PANE"] = "server's", "%0"
        os.execv(argv[0], argv)
    while not (tty := os.readlink(f"/proc/{pid}/fd/0")).startswith("/dev/pts/"):
        time.sleep(0.01)  # it has not taken it yet
    (folder / "pane.new").write_text(f"{tty} {pid} %0 @0 $0 0 MODE 0 0 {name}")
    (folder / "pane.new").rename(folder / "pane")
    keys = os.open(folder / "keys", os.O_RDWR)
    import select

    while True:
        ready = select.select([terminal, keys], [], [])[0]
        if keys in ready:
            os.write(terminal, os.read(keys, 4096))
        if terminal in ready:
            try:
                data = os.read(terminal, 4096)
            except OSError:
                break
            with (folder / "screen").open("ab") as file:
                file.write(data)
    (folder / "pane").unlink()
    os.waitpid(pid, 0)
    deadline = time.monotonic() + REMAINS
    while not (folder / "closed").exists() and time.monotonic() < deadline:
        time.sleep(0.01)  # as with remain-on-exit: the server is there, and so is the last screen
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], Path(os.environ["FAKE_TMUX"])))
