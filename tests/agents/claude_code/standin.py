"""A stand-in for Claude Code, of the older (2.1.197), the newer (2.1.325) or the oldest (2.1.118) style."""

from __future__ import annotations

import json
import os
import re
import signal
import time

from tests.torture.standins import files
from tests.torture.standins.puppet import Puppet

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

VERSIONS = {"oldest": "2.1.118", "old": "2.1.197", "new": "2.1.325"}
MODEL = "claude-opus-5-5"
USAGE = {"input_tokens": 11, "cache_creation_input_tokens": 7, "cache_read_input_tokens": 5, "output_tokens": 42}


class Claude(Puppet):
    def __init__(self, config: dict[str, Any]) -> None:
        super().__init__(config)
        self.root: str = config["root"]
        self.id: str = config["id"]
        self.cwd = os.getcwd()
        self.new: bool = config["style"] == "new"
        self.oldest: bool = config["style"] == "oldest"
        self.headless: bool = config["headless"]
        self.version = VERSIONS[config["style"]]
        self.registration: dict[str, Any] = {}
        self.leaf: str | None = None
        self.call: str | None = None  # an unanswered tool call
        self.in_turn = False

    # sessions/<pid>.json

    @property
    def file(self) -> str:
        return f"{self.root}/sessions/{os.getpid()}.json"

    def do_register(self, status: str | None = None, waiting_for: str | None = None, **extra: Any) -> None:
        os.makedirs(f"{self.root}/sessions", exist_ok=True)
        now = files.milliseconds()
        self.registration = {
            "pid": os.getpid(),
            "sessionId": self.id,
            "cwd": self.cwd,
            "startedAt": now,
            "procStart": str(files.start_ticks()),
            "version": self.version,
            "peerProtocol": 1,
        }
        if self.new:
            self.registration |= {
                "peerFeatures": ["notify_idle", "reply_across_default_dirs", "artifact_yield"],
                "pidDomain": files.pid_domain(),
                "asksForConvertedSkills": None,
                "messagingSocketPath": f"/tmp/cc-socks/{os.getpid()}.sock",
            }
        self.registration |= {
            "kind": "interactive",
            "entrypoint": "sdk-cli" if self.headless else "cli",
            **({} if self.oldest else {"name": f"{os.path.basename(self.cwd)}-84", "nameSource": "derived"}),
            **extra,
        }
        self.do_status(status, waiting_for)

    def do_status(self, status: str | None, waiting_for: str | None = None) -> None:
        """The older one gives no status in headless runs; the newer one none in its first moments."""
        self.registration = {k: v for k, v in self.registration.items() if k not in ("status", "waitingFor")}
        if status is not None:
            now = files.milliseconds()
            self.registration |= {"status": status, "updatedAt": now, "statusUpdatedAt": now}
        if waiting_for is not None:
            self.registration["waitingFor"] = waiting_for
        files.rewrite(self.file, self.registration)

    def do_clear(self, id: str, history: bool = True) -> None:
        """/clear: a new session in the same process; the newer one marks the end of the old transcript. The oldest one
        does not renew its file: what was typed is in its history, and at the beginning of the new transcript."""
        if self.oldest:
            self.clear_unseen(id, history)
            return
        if self.new and self.leaf is not None:
            self.bare("cost-state", totalCostUSD=0.0009)
        self.id, self.leaf, self.call, self.in_turn = id, None, None, False
        self.registration["sessionId"] = id
        self.do_status("idle")

    def clear_unseen(self, id: str, history: bool) -> None:
        if self.headless:
            self.bare("queue-operation", operation="enqueue", timestamp=files.utc(), content="/clear")
            self.bare("queue-operation", operation="dequeue", timestamp=files.utc())
        elif history:
            line = {"display": "/clear", "pastedContents": {}, "timestamp": files.milliseconds(), "project": self.cwd}
            files.append(f"{self.root}/history.jsonl", {**line, "sessionId": self.id})
        self.id, self.leaf, self.call, self.in_turn = id, None, None, False
        caveat = {"role": "user", "content": "<local-command-caveat>Caveat: ...</local-command-caveat>"}
        self.record("user", message=caveat, isMeta=True)
        command = "<command-name>/clear</command-name>\n            <command-message>clear</command-message>"
        self.record("user", message={"role": "user", "content": command})
        self.record("system", subtype="local_command", content="<local-command-stdout></local-command-stdout>")

    def do_resume(self, id: str) -> None:
        """/resume: the oldest one renews its file, too."""
        self.id, self.leaf = id, None
        self.registration["sessionId"] = id
        files.rewrite(self.file, self.registration)

    def do_rewrite_loop(self, until: str, halves: bool) -> dict[str, list[tuple[float, float]]]:
        """Status changes as fast as they come, until a file appears. The moments when it was half-written too long."""
        slow = []
        long = {**self.registration, "status": "waiting", "waitingFor": "permission prompt " + "x" * 200}
        short = {**self.registration, "status": "busy"}
        while not os.path.exists(until):
            for value in (long, short):
                if halves:
                    began = time.monotonic()
                    if files.rewrite_in_halves(self.file, value, 0.001) > 0.01:
                        slow.append((began, time.monotonic()))
                    time.sleep(0.02)
                else:
                    files.rewrite(self.file, value)
        files.rewrite(self.file, short)
        return {"slow": slow}

    # projects/<slug>/<id>.jsonl

    @property
    def transcript(self) -> str:
        slug = re.sub(r"[^A-Za-z0-9]", "-", os.path.realpath(self.cwd))
        return f"{self.root}/projects/{slug}/{self.id}.jsonl"

    def record(self, type: str, **fields: Any) -> None:
        """A step of the conversation, with what all of them have."""
        uuid = files.random_id()
        common = {
            "uuid": uuid,
            "timestamp": files.utc(),
            "userType": "external",
            "entrypoint": "sdk-cli" if self.headless else "cli",
            "cwd": self.cwd,
            "sessionId": self.id,
            "version": self.version,
            "gitBranch": "trunk",
        }
        parent, self.leaf = self.leaf, uuid
        self.write({"parentUuid": parent, "isSidechain": False, **fields, "type": type, **common})

    def bare(self, type: str, **fields: Any) -> None:
        self.write({"type": type, **fields, "sessionId": self.id})

    def write(self, record: dict[str, Any]) -> None:
        os.makedirs(os.path.dirname(self.transcript), exist_ok=True)
        files.append(self.transcript, record)

    def assistant(self, block: dict[str, Any], stop: str, message: str, **fields: Any) -> None:
        content = {"id": message, "type": "message", "role": "assistant", "model": MODEL, "content": [block]}
        self.record("assistant", message={**content, "stop_reason": stop, "usage": USAGE}, **fields)

    def do_prompt(self, text: str) -> None:
        if self.headless:
            self.bare("queue-operation", operation="enqueue", timestamp=files.utc(), content=text)
            self.bare("queue-operation", operation="dequeue", timestamp=files.utc())
        else:
            self.bare("ai-title", aiTitle="A title")
            self.bare("mode", mode="normal")
            self.bare("permission-mode", permissionMode="default")
        self.record("user", message={"role": "user", "content": text}, promptSource="typed")
        self.record("attachment", attachment={"type": "skill_listing", "content": "- a skill"})
        self.in_turn = True
        if self.new:
            self.bookkeeping(text)

    def bookkeeping(self, text: str = "go") -> None:
        """The newer one writes these at any time; the older one only at its end."""
        self.bare("last-prompt", lastPrompt=text, leafUuid=self.leaf)
        if self.new:
            self.bare("atis-latch", atis="")

    def do_call(self, command: str, tool: str = "Bash", input: dict[str, Any] | None = None) -> None:
        """A model message of two blocks: each its own line, both with the usage of the whole message."""
        message, self.call = f"msg_{os.urandom(8).hex()}", f"toolu_{os.urandom(8).hex()}"
        self.assistant({"type": "text", "text": "Running it."}, "tool_use", message)
        given = input if input is not None else {"command": command, "description": "run cmd"}
        self.assistant({"type": "tool_use", "id": self.call, "name": tool, "input": given}, "tool_use", message)
        if self.new:
            self.bookkeeping()

    def do_tool(self, command: str) -> dict[str, int]:
        """The process of a tool call. A shell that goes on after its command, as the real one does."""
        marks = {"CLAUDECODE": "1", "CLAUDE_CODE_SESSION_ID": self.id, "CLAUDE_CODE_CHILD_SESSION": "1"}
        if self.new:
            marks["CLAUDE_PID"] = str(os.getpid())
        return self.start_tool(["/bin/bash", "-c", f"{command}; true"], **marks)

    def do_result(self, text: str = "ok", is_error: bool = False) -> None:
        block = {"type": "tool_result", "tool_use_id": self.call, "content": text, "is_error": is_error}
        self.record("user", message={"role": "user", "content": [block]}, toolUseResult=text)
        self.call = None

    def do_answer(self, text: str = "All done.") -> None:
        self.assistant({"type": "text", "text": text}, "end_turn", f"msg_{os.urandom(8).hex()}")
        if not self.headless:
            self.record("system", subtype="turn_duration", durationMs=1234)
        self.in_turn = False

    def do_idle_then_answer(self, flag: str, pause: float) -> None:
        """Its file runs ahead of its transcript at the end of a turn."""
        self.do_status("idle")
        open(flag, "x").close()
        time.sleep(pause)
        self.do_answer()

    def do_retry(self) -> None:
        """Between two tries of an API call only a note is written, and by the newer one only."""
        if self.new:
            self.record("system", subtype="api_error", retryAttempt=3, maxRetries=10, retryInMs=4000)

    def do_api_error(self, code: int, error: str) -> None:
        message = {
            "id": files.random_id(),
            "role": "assistant",
            "model": "<synthetic>",
            "stop_reason": "stop_sequence",
            "content": [{"type": "text", "text": f"API Error: {code}"}],
            "usage": dict.fromkeys(USAGE, 0),
        }
        self.record("assistant", message=message, isApiErrorMessage=True, apiErrorStatus=code, error=error)
        self.in_turn = False

    def do_interrupt_mark(self, in_tool: bool) -> None:
        text = "[Request interrupted by user for tool use]" if in_tool else "[Request interrupted by user]"
        self.record("user", message={"role": "user", "content": [{"type": "text", "text": text}]})
        self.in_turn = False

    def do_subagent(self, id: str, calls: int) -> None:
        """A sub-agent's own transcript, with its own model messages."""
        folder = f"{self.transcript.removesuffix('.jsonl')}/subagents"
        os.makedirs(folder, exist_ok=True)
        with open(f"{folder}/agent-{id}.meta.json", "w") as file:
            json.dump({"agentType": "general-purpose", "description": "a sub-agent", "spawnDepth": 1}, file)
        common = {"isSidechain": True, "agentId": id, "sessionId": self.id, "cwd": self.cwd, "version": self.version}
        path = f"{folder}/agent-{id}.jsonl"
        prompt = {"role": "user", "content": "look around"}
        files.append(
            path, {**common, "type": "user", "message": prompt, "uuid": files.random_id(), "timestamp": files.utc()}
        )
        for number in range(calls):
            stop = "end_turn" if number + 1 == calls else "tool_use"
            message = {
                "id": f"msg_{id}_{number}",
                "role": "assistant",
                "model": MODEL,
                "content": [{"type": "text", "text": "seen"}],
                "stop_reason": stop,
                "usage": USAGE,
            }
            for _ in range(2):
                line = {"type": "assistant", "message": message, "uuid": files.random_id(), "timestamp": files.utc()}
                files.append(path, {**common, **line})

    # Ends

    def end_marker(self) -> None:
        if os.path.exists(self.transcript):
            self.bookkeeping()
            if self.new:
                self.bare("cost-state", totalCostUSD=0.0009, totalDuration=2978, modelUsage={})

    def do_end(self, code: int = 0, linger: float = 0.0) -> None:
        """An orderly end: markers, its file removed, and some moments alive without it."""
        self.end_marker()
        files.remove(self.file)
        time.sleep(linger)
        raise SystemExit(code)

    def on_signal(self, number: int) -> int:
        """Orderly, too. The newer one ends its tools, and writes what came of them after its end marker."""
        in_tool = self.call is not None
        if self.in_turn:
            if number == signal.SIGINT and self.new and not in_tool:
                self.partial_answer()
            self.end_marker()
            if self.new:
                self.end_tools()
            if number == signal.SIGINT and in_tool:
                self.do_result("The user doesn't want to proceed with this tool use.", is_error=True)
            elif number == signal.SIGTERM and in_tool and self.new:
                self.do_result("Exit code 137", is_error=True)
            if number == signal.SIGINT and (in_tool or self.new):
                self.do_interrupt_mark(in_tool)
        else:
            self.end_marker()
        files.remove(self.file)
        if number == signal.SIGINT:
            return 1 if in_tool and not self.new else 0
        return 128 + number

    def partial_answer(self) -> None:
        block = {"type": "text", "text": "I was about to"}
        message = {"id": "msg_cut", "role": "assistant", "model": MODEL, "content": [block], "stop_reason": None}
        self.record("assistant", message=message, isAbortedMidStream=True)
