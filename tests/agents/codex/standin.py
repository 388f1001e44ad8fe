"""A stand-in for Codex: flocked writer locks, rollouts kept open, tool processes with the call in their environment."""

from __future__ import annotations

import fcntl
import json
import os
import signal
import time

from tests.torture.standins import files
from tests.torture.standins.puppet import Puppet

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

USAGE = {"input_tokens": 1000, "cached_input_tokens": 400, "cache_write_input_tokens": 0, "output_tokens": 50}


class Thread:
    """One thread that this process owns."""

    def __init__(self, id: str) -> None:
        self.id = id
        self.lock: int | None = None
        self.rollout: int | None = None
        self.turn = ""
        self.call: str | None = None
        self.count = 0


class Codex(Puppet):
    def __init__(self, config: dict[str, Any]) -> None:
        super().__init__(config)
        self.home: str = config["root"]
        self.cwd = os.getcwd()
        self.source: str = config["source"]
        self.policy: str = config["policy"]
        self.threads: dict[str, Thread] = {}
        self.id: str = config["id"]

    def thread(self, id: str | None) -> Thread:
        return self.threads[id or self.id]

    def lock_path(self, id: str) -> str:
        return f"{self.home}/thread-writer-locks/{id}.lock"

    def do_open(self, id: str | None = None, lock: bool = True) -> None:
        """From its creation a thread is locked; its rollout comes with its first prompt. Older ones do not lock."""
        thread = Thread(id or self.id)
        self.threads[thread.id] = thread
        if lock:
            os.makedirs(f"{self.home}/thread-writer-locks", exist_ok=True)
            open(f"{self.home}/thread-writer-locks/.coordination.lock", "a").close()
            thread.lock = os.open(self.lock_path(thread.id), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            fcntl.flock(thread.lock, fcntl.LOCK_EX | fcntl.LOCK_NB)

    # The rollout

    def write(self, thread: Thread, kind: str, /, **payload: Any) -> None:
        if thread.rollout is None:
            now = time.localtime()
            folder = f"{self.home}/sessions/{time.strftime('%Y/%m/%d', now)}"
            os.makedirs(folder, exist_ok=True)
            path = f"{folder}/rollout-{time.strftime('%Y-%m-%dT%H-%M-%S', now)}-{thread.id}.jsonl"
            thread.rollout = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        record = {"timestamp": files.utc(), "ordinal": thread.count, "type": kind, "payload": payload}
        thread.count += 1
        os.write(thread.rollout, files.compact(record) + b"\n")

    def event(self, thread: Thread, kind: str, /, **payload: Any) -> None:
        self.write(thread, "event_msg", type=kind, **payload)

    def message(self, thread: Thread, role: str, text: str) -> None:
        content = [{"type": "output_text" if role == "assistant" else "input_text", "text": text}]
        self.write(thread, "response_item", type="message", role=role, content=content)

    def do_prompt(
        self, text: str, id: str | None = None, parent: str | None = None, forked_from: str | None = None
    ) -> None:
        thread = self.thread(id)
        if thread.rollout is None:
            relation = {"parent_thread_id": parent, "forked_from_id": forked_from}
            self.write(
                thread,
                "session_meta",
                session_id=parent or thread.id,
                id=thread.id,
                **{name: value for name, value in relation.items() if value is not None},
                timestamp=files.utc(),
                cwd=self.cwd,
                originator="codex_exec" if self.source == "exec" else "codex-tui",
                cli_version="0.166.0",
                source=self.source,
                thread_source="subagent" if parent else "user",
                model_provider="fake",
                base_instructions={"text": "You are a coding agent. " * 40},
                history_mode="paginated",
                git={"commit_hash": "8a9c", "branch": "trunk"},
            )
        thread.turn = files.timed_id()
        self.event(thread, "task_started", turn_id=thread.turn, root_turn_id=thread.turn, started_at=int(time.time()))
        self.message(thread, "developer", "<permissions instructions>")
        self.message(thread, "user", f"<environment_context><cwd>{self.cwd}</cwd></environment_context>")
        self.write(
            thread,
            "turn_context",
            turn_id=thread.turn,
            cwd=self.cwd,
            approval_policy=self.policy,
            model="gpt-5-codex",
        )
        self.message(thread, "user", text)
        item = {"type": "UserMessage", "content": [{"type": "text", "text": text}]}
        self.event(thread, "item_completed", thread_id=thread.id, turn_id=thread.turn, item=item)

    def do_call(self, command: str, tool: str = "exec_command", id: str | None = None) -> dict[str, str]:
        thread = self.thread(id)
        number = os.urandom(4).hex()
        thread.call = f"call_{number}"
        arguments = json.dumps({"cmd": command, "yield_time_ms": 30000})
        self.write(thread, "response_item", type="function_call", name=tool, arguments=arguments, call_id=thread.call)
        self.usage(thread, f"resp_{number}")
        return {"call": thread.call}

    def usage(self, thread: Thread, response: str) -> None:
        """Of one model response; the same one may be written again."""
        for _ in range(2):
            self.write(
                thread, "token_usage_record", thread_id=thread.id, response_id=response, usage=USAGE,
                thread_token_usage={name: 5 * value for name, value in USAGE.items()},
            )  # fmt: skip

    def do_tool(self, command: str, id: str | None = None) -> dict[str, int]:
        thread = self.thread(id)
        marks = {"CODEX_THREAD_ID": thread.id, "CODEX_SESSION_ID": thread.id, "CODEX_CI": "1"}
        return self.start_tool(["/bin/bash", "-c", f"{command}; true"], CODEX_TOOL_CALL_ID=thread.call or "", **marks)

    def do_call_and_tool(self, command: str, flag: str, pause: float) -> dict[str, int]:
        """A command that needs no approval: for some moments the call is on disk and its process is not there yet."""
        self.do_call(command)
        open(flag, "x").close()
        time.sleep(pause)
        return self.do_tool(command)

    def do_result(self, text: str = "Wall time: 0.1 seconds", id: str | None = None) -> None:
        thread = self.thread(id)
        self.write(thread, "response_item", type="function_call_output", call_id=thread.call, output=text)
        thread.call = None

    def do_complete(
        self, text: str | None = "hi there", error: dict[str, Any] | None = None, id: str | None = None
    ) -> None:
        thread = self.thread(id)
        ended: dict[str, Any] = {"turn_id": thread.turn, "last_agent_message": text, "completed_at": int(time.time())}
        if error is not None:
            ended |= {"last_agent_message": None, "error": error}
        else:
            self.message(thread, "assistant", text or "")
            self.usage(thread, f"resp_{os.urandom(4).hex()}")
        self.event(thread, "task_complete", **ended)

    def do_abort(self, id: str | None = None) -> None:
        """An interrupt: the item of the aborted command follows the end of the turn."""
        thread = self.thread(id)
        if thread.call is not None:
            call = thread.call
            self.do_result("Wall time: 3.3 seconds\naborted by user", id=thread.id)
            item = {"type": "CommandExecution", "id": call, "status": "failed", "exit_code": -1}
        else:
            item = {"type": "AgentMessage", "content": []}
        self.message(thread, "user", "<turn_aborted>\nThe user interrupted the previous turn on purpose.")
        self.event(thread, "turn_aborted", turn_id=thread.turn, reason="interrupted", completed_at=int(time.time()))
        self.event(thread, "item_completed", thread_id=thread.id, turn_id=thread.turn, item=item)

    # Ends

    def do_release(self, id: str | None = None) -> None:
        thread = self.threads.pop(id or self.id)
        if thread.rollout is not None:
            os.close(thread.rollout)
        if thread.lock is not None:
            files.remove(self.lock_path(thread.id))
            os.close(thread.lock)

    def do_end(self, code: int = 0, linger: float = 0.0) -> None:
        """A clean exit; an exec may live on for seconds after its turn, with its lock."""
        time.sleep(linger)
        for id in list(self.threads):
            self.do_release(id)
        raise SystemExit(code)

    def on_signal(self, number: int) -> int:
        """Only an interrupt is handled: TERM and HUP end it at once."""
        if number == signal.SIGINT:
            for thread in list(self.threads.values()):
                self.do_abort(thread.id)
            self.end_tools()
            for id in list(self.threads):
                self.do_release(id)
            return 1
        return 128 + number
