"""A stand-in for OpenCode: its screen, `run`, and (standin_server) `serve`. No file of it names its process."""

from __future__ import annotations

import os
import signal
import time

from tests.agents.opencode.standin_files import (
    LOG,
    MODEL,
    USAGE,
    VERSIONS,
    Database,
    Folder,
    Item,
    Log,
    Session,
    timed_id,
)
from tests.torture.standins import files
from tests.torture.standins.puppet import Puppet

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

STEP_USAGE = {"total": 1050, "input": 800, "output": 40, "reasoning": 10, "cache": {"write": 0, "read": 200}}
NO_USAGE = {"input": 0, "output": 0, "reasoning": 0, "cache": {"read": 0, "write": 0}}
COUNTED = dict(zip(USAGE, (800, 40, 10, 200, 0), strict=True))
COST = 0.00092
REFUSED = "The user rejected permission to use this specific tool call."


class OpenCode(Puppet):
    def __init__(self, config: dict[str, Any]) -> None:
        super().__init__(config)
        self.root: str = config["root"]
        self.id: str = config["id"]
        self.command: str = config["command"]
        self.layout: str = config["layout"]
        self.cwd = os.getcwd()
        self.sessions: dict[str, Session] = {}
        self.store: Database | Folder
        self.log: Log
        if self.command != "screen":
            signal.signal(signal.SIGINT, signal.SIG_DFL)  # only the screen handles any signal

    # Its files

    def do_open(self, log: str = "shared", exclusive: bool = False) -> None:
        """`log`: shared; late; errors (--log-level ERROR); own (of older versions, one for each start)."""
        os.makedirs(self.root, exist_ok=True)
        version = VERSIONS[self.layout]
        own = time.strftime("%Y-%m-%dT%H%M%S.log", time.gmtime())
        openings = 2 if self.command == "screen" else 1
        self.log = Log(self.root, own if log == "own" else LOG, openings, errors_only=log == "errors")
        self.log.write(f'"creating instance" directory={self.cwd}')
        self.log.write(f"bootstrapping directory={self.cwd}")
        if log == "late":
            self.log.hold()
        self.store = (
            Folder(self.root, version) if self.layout == "json" else Database(self.root, version, exclusive=exclusive)
        )

    def do_log(self, text: str) -> None:
        """An entry of its own, whose text may have line breaks."""
        self.log.write(text, "ERROR")

    def do_hold_log(self) -> None:
        self.log.hold()

    def do_catch_up(self) -> None:
        self.log.catch_up()

    # Sessions

    def session(self, id: str | None) -> Session:
        id = id or self.id
        if id not in self.sessions:
            self.do_begin(id)
        return self.sessions[id]

    def do_begin(self, id: str | None = None, parent: str | None = None, directory: str | None = None) -> None:
        """A new session. The screen has none before its first prompt."""
        directory = directory or self.cwd
        one = self.sessions[id or self.id] = Session(id or self.id, directory, parent)
        self.store.session(one)
        if directory != self.cwd:
            self.log.write(f'"creating instance" directory={directory}')
        self.log.write(f"created id={one.id} slug=quiet-falcon directory={directory} parentID={parent or 'undefined'}")

    def do_take(self, id: str | None = None, created: int | None = None) -> None:
        """Go on with a session that is stored."""
        one = self.sessions[id or self.id] = Session(id or self.id, self.cwd)
        one.created = created or one.created

    def do_branch(self, id: str, new: str) -> None:
        """A fork has no parent, and all that was said and paid before."""
        time.sleep(0.002)  # what was said before was not said in the same millisecond
        self.do_begin(new)
        old, one = self.sessions[id], self.sessions[new]
        one.title, one.tokens, one.cost = f"{old.title} (fork #1)", dict(old.tokens), old.cost
        self.store.copy(id, one)
        self.store.session(one)

    # A turn

    def do_prompt(self, text: str = "please do it", id: str | None = None, *, is_word: bool = True) -> None:
        """`is_word`: it is one of its arguments, which `run` stores in quotes."""
        one = self.session(id)
        stored = f'"{text}"' if self.command == "run" and is_word and " " in text else text
        prompt = Item("msg", role="user", time={"created": files.milliseconds()}, agent="build", model=MODEL)
        self.store.message(one, prompt)
        self.store.part(one, prompt, Item("prt", type="text", text=stored))
        self.store.session(one)
        one.prompt = prompt.id
        self.log.write(f"loop session.id={one.id} step=0")

    def do_step(self, id: str | None = None) -> None:
        """The model is called: nothing more is written until its first byte."""
        one = self.session(id)
        path, created = {"cwd": one.directory, "root": one.directory}, files.milliseconds()
        one.step = Item(
            "msg", parentID=one.prompt, role="assistant", mode="build", agent="build", path=path, cost=0,
            tokens=NO_USAGE, **MODEL, time={"created": created},
        )  # fmt: skip
        one.started = False
        self.store.message(one, one.step)
        self.log.write(f"process session.id={one.id} messageID={one.step.id}")
        self.log.write(f"stream providerID=fake modelID=fake-1 session.id={one.id} small=false agent=build")

    def running_step(self, one: Session) -> Item:
        if one.step is None:
            self.do_step(one.id)
        assert one.step is not None
        if not one.started:
            self.store.part(one, one.step, Item("prt", type="step-start", snapshot="4b825dc6"))
            one.started = True
        return one.step

    def do_stream(self, id: str | None = None) -> None:
        """Text is stored empty until its block ends."""
        one = self.session(id)
        times = {"start": files.milliseconds()}
        self.store.part(one, self.running_step(one), Item("prt", type="text", text="", time=times))

    def do_call(
        self, command: str, tool: str = "bash", input: dict[str, Any] | None = None, allowed: bool | None = None,
        id: str | None = None,
    ) -> None:  # fmt: skip
        """A tool call that has reported nothing. `allowed`: whether its log says that nobody has to be asked."""
        one = self.session(id)
        step = self.running_step(one)
        given = {"command": command, "description": "run it"} if input is None else input
        state = {"status": "running", "input": given, "time": {"start": files.milliseconds()}}
        one.tool = Item("prt", type="tool", tool=tool, callID=f"call_{os.urandom(4).hex()}", state=state)
        self.store.part(one, step, one.tool)
        if allowed is not None:
            action = "allow" if allowed else "ask"
            rule = f"action.permission=* action.action={action} action.pattern=*"
            self.log.write(f'evaluated permission={tool} pattern="{command}" {rule}')
        if allowed is False:
            self.log.write(f"asking id={timed_id('que' if tool == 'question' else 'per')} permission={tool}")

    def do_typed(self, command: str, id: str | None = None, pause: float = 0.0) -> None:
        """A command that the person typed behind "!": no model, no question, no line in the log."""
        now = files.milliseconds()
        one = self.session(id)
        if pause:  # a session that was begun before its prompt may be another screen's by then
            time.sleep(pause)
            now = files.milliseconds()
        one.step = Item("msg", role="assistant", agent="build", **MODEL, time={"created": now})
        prompt = Item("msg", role="user", time={"created": now}, agent="build", model=MODEL)
        prompt.created = one.step.created = now
        self.store.message(one, prompt)
        self.store.message(one, one.step)
        one.started = True
        self.do_call(command, id=one.id)
        self.store.session(one)

    def do_tool(self, command: str, id: str | None = None) -> dict[str, int]:
        """Its process, and with that its first report."""
        one = self.session(id)
        marks = {"OPENCODE": "1", "AGENT": "1", "OPENCODE_PID": str(os.getpid())}
        facts = self.start_tool(["/bin/bash", "-c", command], **marks)
        self.report(one, metadata={"output": ""})
        return facts

    def do_call_and_tool(self, command: str, flag: str, pause: float) -> dict[str, int]:
        """The call is stored, some moments before its process is there; what the log says of it comes later still."""
        self.log.hold()
        self.do_call(command, allowed=True)
        open(flag, "x").close()
        time.sleep(pause)
        facts = self.do_tool(command)
        self.log.catch_up()
        return facts

    def do_sub(self, child: str, id: str | None = None) -> None:
        """The task tool: a session of its own, which this one waits for."""
        one = self.session(id)
        self.do_call("", tool="task", input={"description": "sub job", "prompt": "look"}, allowed=True, id=one.id)
        self.do_begin(child, parent=one.id)
        self.report(one, metadata={"sessionId": child, "parentSessionId": one.id})

    def report(self, one: Session, **state: Any) -> None:
        assert one.tool is not None and one.step is not None
        one.tool.data["state"] |= state
        self.store.part(one, one.step, one.tool)

    def do_result(self, text: str = "ok", id: str | None = None) -> None:
        one = self.session(id)
        self.report(one, status="completed", output=text, metadata={"output": text, "exit": 0}, title="run it")
        self.end_step(one, "tool-calls")
        self.log.write(f"loop session.id={one.id} step=1")

    def do_refuse(self, id: str | None = None) -> None:
        """`run` refuses by itself what it would have to ask for, and ends well."""
        one = self.session(id)
        self.report(one, status="error", error=REFUSED)
        self.end_step(one, "tool-calls")
        self.log.write(f'"exiting loop" session.id={one.id}')

    def do_answer(self, text: str = "All done.", id: str | None = None) -> None:
        one = self.session(id)
        times = {"start": files.milliseconds(), "end": files.milliseconds()}
        self.store.part(one, self.running_step(one), Item("prt", type="text", text=text, time=times))
        self.end_step(one, "stop")
        self.log.write(f'"exiting loop" session.id={one.id}')

    def end_step(self, one: Session, finish: str) -> None:
        step = self.running_step(one)
        self.store.part(one, step, Item("prt", type="step-finish", reason=finish, tokens=STEP_USAGE, cost=COST))
        self.close_step(one, finish=finish, tokens=STEP_USAGE, cost=COST)
        one.tokens = {name: count + COUNTED[name] for name, count in one.tokens.items()}
        one.cost += COST
        self.store.session(one)

    def close_step(self, one: Session, **data: Any) -> None:
        assert one.step is not None
        one.step.data |= {**data, "time": {**one.step.data["time"], "completed": files.milliseconds()}}
        self.store.message(one, one.step)
        one.step = one.tool = None

    def do_retry(self, code: int, id: str | None = None) -> None:
        """Nothing but its log has it."""
        one = self.session(id)
        said = f'error.error="AI_APICallError: fake error {code}"'
        self.log.write(f'"stream error" providerID=fake modelID=fake-1 session.id={one.id} small=false {said}', "ERROR")

    def do_fail(self, code: int, id: str | None = None) -> None:
        one = self.session(id)
        self.do_retry(code, one.id)
        data = {"message": f"fake error {code}", "statusCode": code, "isRetryable": False}
        self.close_step(one, error={"name": "APIError", "data": data})

    def do_abort(self, id: str | None = None) -> None:
        """Esc Esc, or a request to abort. During a retry neither an error nor an end is stored."""
        one = self.session(id)
        self.end_tools()
        if one.tool is not None:
            self.report(one, status="completed", output="User aborted the command", metadata={"exit": None})
        self.log.write(f"cancel session.id={one.id}")
        self.close_step(one, error={"name": "MessageAbortedError", "data": {"message": "Aborted"}})

    def do_abort_retry(self, id: str | None = None) -> None:
        self.close_step(self.session(id))

    # Ends

    def do_end(self, code: int = 0, linger: float = 0.0) -> None:
        """It does not put its database in order."""
        time.sleep(linger)
        os._exit(code)

    def on_signal(self, number: int) -> int:
        """The screen only."""
        for one in list(self.sessions.values()):
            if one.step is not None:
                self.do_abort(one.id)
        self.log.catch_up()
        os._exit(0 if number == signal.SIGHUP else 128 + number)
