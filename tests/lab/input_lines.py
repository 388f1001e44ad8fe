"""`send` and a person who has typed something at the real agents' screens, in tmux: checks of verbs.py."""

from __future__ import annotations

import shlex
import subprocess
import time
from typing import TYPE_CHECKING

from tests.lab.commands import account
from tests.lab.controls import expect
from tests.lab.errors import LabError
from tests.lab.running import until
from tests.lab.screens import opened

if TYPE_CHECKING:
    from tests.lab.verbs import Scene

LIMIT = 10
DRAFT = "half a draft"


class Keyboard:
    """A person at the pane of a session."""

    def __init__(self, scene: Scene, id: str) -> None:
        words = shlex.split(scene.commands.run("attach", id, "--print").out)
        self._pane = next(word for word in words if word.startswith("%"))
        self._tmux = words[: words.index("-S") + 2]

    def _ask(self, *words: str) -> str:
        try:
            return subprocess.run(
                [*self._tmux, *words], capture_output=True, text=True, timeout=LIMIT, check=True
            ).stdout
        except (OSError, subprocess.SubprocessError) as error:
            raise LabError(f"tmux {' '.join(words)}: {error}") from error

    def type(self, text: str) -> None:
        self._ask("send-keys", "-t", self._pane, "-l", text)

    def press(self, *keys: str) -> None:
        self._ask("send-keys", "-t", self._pane, *keys)

    def shown(self) -> str:
        return self._ask("capture-pane", "-p", "-t", self._pane)

    def wait_shown(self, text: str, *, gone: bool = False) -> None:
        what = f"the screen {'does not show' if gone else 'shows'} {text!r}"
        try:
            until(lambda: (text in self.shown()) is not gone, 20, what)
        except LabError as error:
            raise LabError(f"{error}\n{self.shown()}") from error


def at_its_prompt(scene: Scene) -> tuple[str, Keyboard]:
    id, entry = opened(scene, "first [[hold:one]]")
    scene.let_go(entry)
    scene.commands.run("wait", id, "--until", "idle", "--timeout", "60s")
    return id, Keyboard(scene, id)


def refused(scene: Scene, id: str, text: str, word: str) -> None:
    """Nothing is typed, and the model is not asked."""
    asked = len(scene.stage.server.entries)
    said = scene.commands.run("send", id, text, code=4)
    word = word if scene.stage.recipe.TYPED_TO else "inferred"
    expect(f"whether the refusal says {word!r}", word in said.err, True, str(said))
    expect("what the model was asked since", scene.stage.server.entries[asked:], [], account(scene.stage))


def arrives(scene: Scene, id: str) -> None:
    """Once the person has taken back what they typed, a text arrives as it is."""
    if scene.stage.recipe.TYPED_TO:
        text = "the second [[hold:two]]"
        scene.commands.run("send", id, text)
        entry = scene.stage.request("hold:two")
        expect("how often the text came", list(scene.stage.texts(entry)).count(text), 1, account(scene.stage))
        scene.let_go(entry)
        scene.commands.run("wait", id, "--until", "idle", "--timeout", "60s")
    scene.commands.run("stop", str(scene.commands.session(id)["launch_id"]))


def shell_mode(scene: Scene) -> None:
    """A person has typed `!`: a text would run as a command, so it is refused."""
    id, keyboard = at_its_prompt(scene)
    keyboard.type("!")
    keyboard.wait_shown(scene.stage.recipe.SHELL_MODE)
    refused(scene, id, "touch executed", "shell mode")
    keyboard.type("ls")
    keyboard.wait_shown("ls")
    refused(scene, id, "touch executed", "shell mode")
    expect("whether it ran as a command", (scene.stage.home.work / "executed").exists(), False)
    keyboard.press("BSpace")
    keyboard.press("BSpace")
    for key in ("BSpace", "Escape"):  # one of them leaves the mode, which depends on the version
        if scene.stage.recipe.SHELL_MODE in keyboard.shown():
            keyboard.press(key)
            time.sleep(1)
    keyboard.wait_shown(scene.stage.recipe.SHELL_MODE, gone=True)
    arrives(scene, id)


def draft(scene: Scene) -> None:
    """A person has typed half a prompt: a text would be sent together with it, so it is refused."""
    id, keyboard = at_its_prompt(scene)
    keyboard.type(DRAFT)
    keyboard.wait_shown(DRAFT)
    refused(scene, id, "and the rest", "draft")
    keyboard.press("Home")
    refused(scene, id, "and the rest", "draft")
    expect("whether the text is on the screen", "and the rest" in keyboard.shown(), False)
    keyboard.press("End")
    for _ in DRAFT:
        keyboard.press("BSpace")
    keyboard.wait_shown(DRAFT[:4], gone=True)
    arrives(scene, id)


def paste(scene: Scene) -> None:
    """Texts that a screen shows otherwise than they are: many lines, and a long one."""
    id, _ = at_its_prompt(scene)
    for number, text in enumerate(("\n".join(f"line {line}" for line in range(80)), "long " * 800)):
        if not scene.stage.recipe.TYPED_TO:
            break
        prompt = f"{text}\n[[hold:more{number}]]"
        scene.commands.run("send", id, prompt)
        entry = scene.stage.request(f"hold:more{number}")
        expect("how often the text came", list(scene.stage.texts(entry)).count(prompt), 1, account(scene.stage))
        scene.let_go(entry)
        scene.commands.run("wait", id, "--until", "idle", "--timeout", "60s")
    scene.commands.run("stop", str(scene.commands.session(id)["launch_id"]))
