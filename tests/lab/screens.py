"""`launch --interactive`, `attach` and `send` on the real agents' screens, in tmux: checks of verbs.py."""

from __future__ import annotations

import os
import shlex
import subprocess
import time
from typing import TYPE_CHECKING

from tests.lab.commands import account, key_of, native_ids
from tests.lab.controls import expect
from tests.lab.errors import LabError
from tests.lab.running import until

if TYPE_CHECKING:
    from tests.lab.model import Entry
    from tests.lab.verbs import Scene

# Which of its sessions a screen of OpenCode shows at rest is in no file of its own: nothing is typed there.
TYPED_TO = ("claude-code", "codex")
PORT = "4999"
OWN_SCREEN = {"claude-code": " attach ", "codex": "codex resume ", "opencode": "attach-session"}


def screen(scene: Scene) -> None:
    """Its screen in tmux: the real id, the prompt exact; refused while it works, spoken to at its prompt, once."""
    stage, commands = scene.stage, scene.commands
    first = '--first, it\'s "so"\n  $HOME [[hold:one]]'
    began = time.monotonic()
    id, entry = opened(scene, first)
    scene.told.append(f"asked the model {time.monotonic() - began:.1f} s after the launch")
    pid = key_of(entry.pid).pid
    commands.session(id, status="running", process="alive", link="exact", pid=pid)
    expect("the pane that attach goes to", terminal_in(commands.run("attach", id, "--print").out), terminal_of(pid))
    refused = commands.run("send", id, "not now [[text:no]]", code=4)
    expect("whether the refusal says what it does", "working" in refused.err, True, str(refused))
    scene.let_go(entry)
    commands.run("wait", id, "--until", "idle", "--timeout", "60s")
    second = "the second,\nin two lines [[hold:two]]"
    if stage.agent in TYPED_TO:
        commands.run("send", id, second)
        entry = stage.request("hold:two")
        texts = list(stage.texts(entry))
        expect("how often the text came", texts.count(second), 1, account(stage))
        expect("the session that it came to", entry.session, id)
        scene.let_go(entry)
        commands.run("wait", id, "--until", "idle", "--timeout", "60s")
    else:
        refused = commands.run("send", id, second, code=4)
        expect("whether the refusal says why", "inferred" in refused.err, True, str(refused))
    expect("the ids in the agent's own store", native_ids(stage), {id})
    commands.run("stop", str(commands.session(id)["launch_id"]))


def opened(scene: Scene, prompt: str, *flags: str) -> tuple[str, Entry]:
    """A screen that was given a prompt, while it waits for the model."""
    own = ("--", *scene.flags, *flags) if scene.flags or flags else ()
    said = scene.commands.run("launch", "--interactive", scene.stage.agent, f"--prompt={prompt}", *own)
    id = scene.commands.id_of(said)
    entry = scene.stage.request(prompt.partition("[[")[2].partition("]]")[0])
    expect("the model's word for the session", entry.session, id, account(scene.stage))
    expect("whether the prompt came as it is", prompt in list(scene.stage.texts(entry)), True, account(scene.stage))
    return id, entry


def terminal_in(command: str) -> str:
    """Of the pane that a printed command goes to, by tmux's own word."""
    words = shlex.split(command)
    pane = next(word for word in words if word.startswith("%"))
    asked = [*words[: words.index("-S") + 2], "display-message", "-p", "-t", pane, "#{pane_tty}"]
    try:
        return subprocess.run(asked, capture_output=True, text=True, timeout=10, check=True).stdout.strip()
    except (OSError, subprocess.SubprocessError) as error:
        raise LabError(f"tmux was asked for {pane}: {error}") from error


def terminal_of(pid: int) -> str:
    return os.readlink(f"/proc/{pid}/fd/0")


def daemon(scene: Scene) -> None:
    """A session in the agent's own daemon, or in a screen with an interface of its own: spoken to by that, whatever the
    text looks like; shown by the agent's own command."""
    stage, commands = scene.stage, scene.commands
    if stage.agent == "opencode":
        id, entry = opened(scene, "first [[hold:one]]", "--port", PORT)
    else:
        scene.facts.background(stage, "first [[hold:one]]")
        entry = stage.request("hold:one")
        id = str(entry.session)
        until(lambda: commands.sessions().get(id, {}).get("status") == "running", 20, "it is seen to run")
    shown = commands.run("attach", id, "--print").out
    expect("whether its own command shows it", OWN_SCREEN[stage.agent] in shown, True, shown)
    commands.run("send", id, "not now [[text:no]]", code=4)
    scene.let_go(entry)
    commands.run("wait", id, "--until", "idle", "--timeout", "60s")
    text = "/second,\nin two lines [[hold:two]]"
    if stage.agent == "claude-code":
        commands.run("send", id, text, code=4)
        commands.run("stop", id)
        return
    said = commands.run("send", id, text, "--json").json
    expect("the way that it took", said["sent"]["by"], "agent", str(said))
    entry = stage.request("hold:two")
    expect("how often the text came", list(stage.texts(entry)).count(text), 1, account(stage))
    expect("the session that it came to", entry.session, id)
    scene.let_go(entry)
    commands.run("wait", id, "--until", "idle", "--timeout", "60s")
    commands.run("stop", id, "--force")
