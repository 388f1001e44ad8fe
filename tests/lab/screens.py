"""`launch --interactive`, `attach` and `send` on the real agents' screens, in tmux: checks of verbs.py."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import time
from typing import TYPE_CHECKING

from tests.lab.commands import account, key_of, native_ids
from tests.lab.controls import expect
from tests.lab.errors import LabError, WrongAnswer
from tests.lab.running import until

if TYPE_CHECKING:
    from typing import Any

    from tests.lab.model import Entry
    from tests.lab.verbs import Scene


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
    if stage.recipe.TYPED_TO:
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


class Pane:
    """The agent on a screen in tmux, as a person starts it."""

    def __init__(self, scene: Scene, name: str, *words: str) -> None:
        self.scene, self.socket = scene, str(scene.stage.home.folder / "panes")
        stage = scene.stage
        own = [f"{key}={value}" for key, value in stage.agent_env().items()]
        size = ("-x", "110", "-y", "30", "-P", "-F", "#{pane_id} #{pane_tty}")
        command = ("env", *own, str(stage.program), *words)
        self.id, self.tty = self.tmux("new-session", "-d", "-s", name, *size, *command).split()
        until(lambda: re.search(stage.recipe.READY, self.shown()) is not None, 60, f"its screen: {words}")

    def tmux(self, *words: str) -> str:
        asked = ["tmux", "-u", "-S", self.socket, "-f", os.devnull, *words]
        try:
            cwd = self.scene.stage.home.work
            done = subprocess.run(asked, capture_output=True, text=True, timeout=20, check=True, cwd=cwd)
        except (OSError, subprocess.SubprocessError) as error:
            raise LabError(f"{' '.join(words)}: {error}") from error
        return done.stdout.strip()

    def shown(self) -> str:
        return self.tmux("capture-pane", "-p", "-t", self.id)

    def type(self, text: str) -> None:
        self.tmux("send-keys", "-t", self.id, "-l", text)
        until(lambda: text in self.shown(), 20, f"{text} is shown")
        self.tmux("send-keys", "-t", self.id, "Enter")

    def turn(self, word: str) -> str:
        """One turn here; the id of its session, by the model's word."""
        self.type(f"[[text:{word}]]")
        return str(self.scene.stage.request(f"text:{word}").session)

    def is_shown_as(self, id: str, *others: Pane) -> dict[str, Any]:
        """`attach` goes here, and the session names this screen, and the others that show it. Asked again for a while:
        a daemon that has much to do names the screen of a thread late."""
        commands = self.scene.commands
        ttys = [self.tty, *(other.tty for other in others)]
        found: dict[str, Any] = {}

        def seen() -> bool:
            found.clear()
            found.update(commands.sessions().get(id, {}))
            if [one["tty"] for one in found.get("screens", ())] != ttys:
                return False
            printed = commands.run("attach", id, "--print").out
            return "%" in printed and terminal_in(printed) == self.tty

        try:
            until(seen, 20, "its screens are named")
        except LabError:
            said = f"{commands.run('attach', id, '--print')}\n{commands.run('why', id).out}"
            raise WrongAnswer(f"{id} is on {ttys}, {self.id}: {json.dumps(found)}\n{said}") from None
        return found


def in_panes(scene: Scene) -> None:
    """People have sessions of the agent's daemon on screens in tmux: each session names the screen that shows it."""
    commands, work = scene.commands, str(scene.stage.home.work)
    first, second, third = Pane(scene, "first"), Pane(scene, "second"), Pane(scene, "third")
    one, two = first.turn("alpha"), second.turn("beta")
    for pane, id in ((first, one), (second, two)):
        found = pane.is_shown_as(id)
        expect("its link", found["screens"][0]["link"], "exact", json.dumps(found))
        expect("its terminal and directory", (found["terminal"]["tty"], found["cwd"]), (pane.tty, work))
    (fresh,) = {*commands.sessions()} - {one, two}
    found = third.is_shown_as(fresh)
    expect("the directory of one that was never prompted", found["cwd"], work)
    expect("whether its age is known", found["started_at"] is not None, True, json.dumps(found))
    first.type(scene.stage.recipe.NEW)
    until(lambda: len(commands.sessions()) == 4, 20, "another session")
    (new,) = {*commands.sessions()} - {one, two, fresh}
    first.is_shown_as(new)
    expect("the screens of the one that was left", commands.sessions()[one]["screens"], [])
    opened = commands.run("attach", one, "--print").out
    expect("whether its own command shows that", scene.stage.recipe.OWN_SCREEN in opened, True, opened)
    again = Pane(scene, "again", *scene.stage.recipe.resume("daemon", two, None))
    found = second.is_shown_as(two, again)
    expect("how the two are known", [one["link"] for one in found["screens"]], ["exact", "sole"], json.dumps(found))
    why = commands.run("why", two).out
    expect("whether `why` has the evidence for both", why.count(" shows it: "), 2, why)
    first.tmux("kill-server")
    until(lambda: not any(found["screens"] for found in commands.sessions().values()), 20, "no screen is left")


def daemon(scene: Scene) -> None:
    """A session in the agent's own daemon, or in a screen with an interface of its own: spoken to by that, whatever the
    text looks like; shown by the agent's own command."""
    stage, commands = scene.stage, scene.commands
    if stage.recipe.DAEMON_HAS_SCREENS:
        in_panes(scene)
    if stage.recipe.INTERFACE:
        id, entry = opened(scene, "first [[hold:one]]", *stage.recipe.INTERFACE)
    else:
        scene.facts.background(stage, "first [[hold:one]]")
        entry = stage.request("hold:one")
        id = str(entry.session)
        until(lambda: commands.sessions().get(id, {}).get("status") == "running", 20, "it is seen to run")
    shown = commands.run("attach", id, "--print").out
    expect("whether its own command shows it", stage.recipe.OWN_SCREEN in shown, True, shown)
    commands.run("send", id, "not now [[text:no]]", code=4)
    scene.let_go(entry)
    commands.run("wait", id, "--until", "idle", "--timeout", "60s")
    text = "/second,\nin two lines [[hold:two]]"
    if not stage.recipe.DAEMON_IS_SENT_TO:
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
    if stage.recipe.INTERFACE:
        commands.run("stop", id, "--force")
        return
    kept = commands.run("stop", id, "--json", code=1)
    expect("whether it is said to stay open", kept.json["stopped"][0]["outcome"], "open", str(kept))
    (ended,) = commands.run("stop", id, "--screen", "--json").json["stopped"]
    expect("whether its screen has ended", [one["part"] for one in ended["ended"]], ["agent"], json.dumps(ended))
    pid = ended["ended"][0]["pid"]
    expect("whether that was its screen, and not its daemon", pid != key_of(entry.pid).pid, True, json.dumps(ended))
