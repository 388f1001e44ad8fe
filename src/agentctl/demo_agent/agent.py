"""The demo agent's turns."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile

from agentctl.demo_agent import script
from agentctl.demo_agent.inputs import Ended, Inputs

TYPE_CHECKING = False
if TYPE_CHECKING:
    from agentctl.demo_agent.store import Session

OUTPUT_LIMIT = 30_000  # of a tool, in bytes: an agent keeps no more in its conversation
ANSWER_PAUSE = 0.2  # between two looks for an answer file
TOOL_GRACE = 2.0  # for a tool to end after SIGTERM
BYTES_PER_TOKEN = 4
ANSWERS = {"y": True, "yes": True, "n": False, "no": False}


class TurnFailed(Exception):
    pass


class Agent:
    def __init__(
        self, session: Session, inputs: Inputs, model: str, *, asks: bool = True, script: str | None = None
    ) -> None:
        self.session = session
        self.script = script  # of every turn, in place of what is in its prompt
        self.asks = asks
        self.inputs = inputs
        self.model = model
        self.tools = 0
        self.refused: list[str] = []

    def run(self, prompt: str | None, *, stays: bool = False) -> int:
        """Run turn after turn, and return the exit code of the last one. A prompt at the start makes it a single turn,
        unless it `stays`."""
        single = prompt is not None and not stays and not script.stays(self.script or prompt)
        exit_code = 0
        while True:
            if prompt is not None and prompt.strip():
                exit_code = self.turn(prompt)
            if single:
                return exit_code
            if not self.inputs.typed_to:
                self.session.forget_prompt()
            self.inputs.show_mark()
            self.session.set_status("idle", mailbox=not self.inputs.typed_to)
            try:
                prompt = self.next_prompt()
            except EOFError:
                return exit_code

    def next_prompt(self) -> str:
        """Wait for a line that is typed, or for a prompt in the mailbox if nobody can type."""
        if self.inputs.typed_to:
            while (line := self.inputs.line()) is None:
                pass  # its end was not typed yet
            return line
        while (prompt := self.session.take_prompt()) is None:
            self.inputs.wait(ANSWER_PAUSE)
        return prompt

    def turn(self, prompt: str) -> int:
        self.session.set_status("busy")
        self.session.append_setting("prompt", self.model, text=prompt)
        self.refused = []
        try:
            for directive in script.parse(self.script or prompt):
                self.inputs.wait(0)
                self.perform(directive)
        except (TurnFailed, script.ScriptError) as failure:
            say(f"error: {failure}")
            self.end_turn("failed", error=str(failure))
            return 1
        except Ended as ended:
            self.end_turn("interrupted", reason=ended.reason)
            raise
        self.end_turn("done")
        return 0

    def end_turn(self, result: str, **fields: object) -> None:
        if self.refused:
            fields["refused"] = self.refused
        self.session.append("turn_end", result=result, **fields)

    def perform(self, directive: script.Directive) -> None:
        argument = directive.argument
        match directive.name:
            case "text":
                self.message(argument)
            case "sleep":
                self.think(argument)
            case "bash":
                self.tool(argument, ask=False)
            case "ask":
                self.tool(argument, ask=self.asks)
            case "fail":
                raise TurnFailed(argument)

    def message(self, text: str) -> None:
        self.model_call(text)
        self.session.append("text", text=text)
        say(text)

    def think(self, seconds: str) -> None:
        """Write nothing for a while: the files of a real agent are silent, too, while a model streams."""
        try:
            length = float(seconds)
        except ValueError:
            raise TurnFailed(f"not a number of seconds: {seconds!r}") from None
        self.inputs.sleep(length)
        self.message(f"(thought for {seconds} s)")

    def model_call(self, answer: str) -> None:
        """Note the tokens of one answer: a model reads the whole session again for each."""
        read = self.session.size() // BYTES_PER_TOKEN
        self.session.append("usage", input=read, output=len(answer.encode(errors="replace")) // BYTES_PER_TOKEN + 1)

    def tool(self, command: str, *, ask: bool) -> None:
        self.model_call(command)
        self.tools += 1
        id = f"{os.getpid()}-{self.tools}"
        self.session.append("tool", id=id, command=command)
        if not ask or self.permitted(id, command):
            self.run_tool(id, command)
        else:
            self.refused.append(command)
            self.session.append("tool_result", id=id, exit=None, output="refused")
            say(f"refused: {command}")

    def permitted(self, id: str, command: str) -> bool:
        self.session.forget_answer()
        self.session.append("ask", id=id, command=command)
        self.session.set_status("waiting", waiting_for=f"permission to run: {command}")
        say(f"run {command}? [y/n]")
        allowed = None
        while allowed is None:
            try:
                words = self.inputs.line(ANSWER_PAUSE), self.session.take_answer()
            except EOFError:
                raise Ended("its input was closed while it asked", 128 + signal.SIGHUP) from None
            allowed = next((ANSWERS[word.lower()] for word in words if word and word.lower() in ANSWERS), None)
        self.session.append("answer", id=id, allowed=allowed)
        self.session.set_status("busy")
        return allowed

    def run_tool(self, id: str, command: str) -> None:
        say(f"$ {command}")
        with tempfile.TemporaryFile() as output:  # not a pipe: what a tool leaves in the background may keep it open
            try:
                child = subprocess.Popen(
                    ["/bin/sh", "-c", command],
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                )
            except (OSError, ValueError) as error:
                raise TurnFailed(f"the tool could not be started: {error}") from error
            try:
                while child.poll() is None:
                    self.inputs.wait(None)
            finally:
                end_tool(child)
                output.seek(0)
                text = output.read(OUTPUT_LIMIT).decode(errors="replace")
                self.session.append("tool_result", id=id, exit=child.returncode, output=text)
        say(text.rstrip("\n"))


def end_tool(child: subprocess.Popen[bytes]) -> None:
    """End a tool and what it started in its group. Until it is reaped its pid, and so its group, is its own."""
    if child.poll() is not None:
        return
    os.killpg(child.pid, signal.SIGTERM)
    try:
        child.wait(TOOL_GRACE)
    except subprocess.TimeoutExpired:
        os.killpg(child.pid, signal.SIGKILL)
        child.wait()


def say(text: str) -> None:
    try:
        os.write(sys.stdout.fileno(), text.encode(errors="replace") + b"\n")
    except BrokenPipeError:
        pass  # nobody listens any more; the store has it all
