"""The lab's fake model server: what it answers on each wire, and what its log says. Needs no Node and no agent."""

from __future__ import annotations

import http.client
import json
import socket
import threading
import time
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from tests.lab.model import Directive, ModelServer, directives
from tests.lab.model.script import Ask, Message, plan

if TYPE_CHECKING:
    from collections.abc import Iterator


class Answer(NamedTuple):
    code: int
    headers: dict[str, str]
    text: str

    @property
    def body(self) -> Any:
        return json.loads(self.text)

    @property
    def events(self) -> list[dict[str, Any]]:
        lines = [line.removeprefix("data: ") for line in self.text.splitlines() if line.startswith("data: {")]
        return [json.loads(line) for line in lines]


@pytest.fixture
def server() -> Iterator[ModelServer]:
    with ModelServer() as running:
        yield running


def post(server: ModelServer, path: str, body: object, **headers: str) -> Answer:
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=10)
    try:
        data = body if isinstance(body, bytes) else json.dumps(body)
        connection.request("POST", path, data, {"content-type": "application/json", **headers})
        response = connection.getresponse()
        found = {name.lower(): value for name, value in response.getheaders()}
        return Answer(response.status, found, response.read().decode())
    finally:
        connection.close()


WIRES = ("anthropic", "responses", "chat", "gemini")
SHELLS = {"anthropic": "Bash", "responses": "exec_command", "chat": "bash", "gemini": "run_shell_command"}


def ask(server: ModelServer, wire: str, prompt: str, *, stream: bool = False, tools: bool = True) -> Answer:
    tool = SHELLS[wire]
    if wire == "anthropic":
        body = {"model": "m", "stream": stream, "messages": [{"role": "user", "content": prompt}]}
        return post(server, "/v1/messages", {**body, "tools": [{"name": tool}] if tools else []})
    if wire == "responses":
        content = [{"type": "input_text", "text": prompt}]
        body = {"model": "m", "stream": stream, "input": [{"type": "message", "role": "user", "content": content}]}
        return post(server, "/v1/responses", {**body, "tools": [{"type": "function", "name": tool}] if tools else []})
    if wire == "chat":
        body = {"model": "m", "stream": stream, "messages": [{"role": "user", "content": prompt}]}
        functions = [{"type": "function", "function": {"name": tool}}] if tools else []
        return post(server, "/v1/chat/completions", {**body, "tools": functions})
    verb = "streamGenerateContent?alt=sse" if stream else "generateContent"
    contents = {"contents": [{"role": "user", "parts": [{"text": prompt}]}]}
    declared = [{"functionDeclarations": [{"name": tool}]}] if tools else []
    return post(server, f"/v1beta/models/m:{verb}", {**contents, "tools": declared})


def said(wire: str, answer: Answer) -> str:
    """The words of an answer, streamed or not."""
    if wire == "anthropic":
        if answer.text.startswith("{"):
            return "".join(block["text"] for block in answer.body["content"] if block["type"] == "text")
        deltas = [event["delta"] for event in answer.events if event["type"] == "content_block_delta"]
        return "".join(delta.get("text", "") for delta in deltas)
    if wire == "responses":
        if answer.text.startswith("{"):
            return "".join(part["text"] for item in answer.body["output"] for part in item["content"])
        return "".join(event["delta"] for event in answer.events if event["type"] == "response.output_text.delta")
    if wire == "chat":
        if answer.text.startswith("{"):
            return str(answer.body["choices"][0]["message"]["content"])
        choices = [event["choices"][0]["delta"] for event in answer.events if event["choices"]]
        return "".join(delta.get("content", "") for delta in choices)
    bodies = [answer.body] if answer.text.startswith('{"candidates') else answer.events
    parts = [part for body in bodies for part in body["candidates"][0]["content"]["parts"]]
    return "".join(part.get("text", "") for part in parts)


def called(wire: str, answer: Answer) -> tuple[str, dict[str, Any]]:
    """The tool call of an answer that was not streamed."""
    if wire == "anthropic":
        block = answer.body["content"][-1]
        return block["name"], block["input"]
    if wire == "responses":
        item = answer.body["output"][-1]
        return item["name"], json.loads(item["arguments"])
    if wire == "chat":
        function = answer.body["choices"][0]["message"]["tool_calls"][0]["function"]
        return function["name"], json.loads(function["arguments"])
    call = answer.body["candidates"][0]["content"]["parts"][-1]["functionCall"]
    return call["name"], call["args"]


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("wire", WIRES)
def test_text(server: ModelServer, wire: str, stream: bool) -> None:
    answer = ask(server, wire, "please [[text:hello wide world]]", stream=stream)
    assert (answer.code, said(wire, answer)) == (200, "hello wide world")


@pytest.mark.parametrize("wire", WIRES)
def test_shell_tool_in_the_words_of_the_agent(server: ModelServer, wire: str) -> None:
    name, arguments = called(wire, ask(server, wire, "[[bash:sleep 5]]"))
    assert name == SHELLS[wire]
    assert "sleep 5" in (arguments.get("command"), arguments.get("cmd"))


@pytest.mark.parametrize("wire", WIRES)
def test_streamed_tool_call(server: ModelServer, wire: str) -> None:
    answer = ask(server, wire, "[[bash:echo hi]]", stream=True)
    assert SHELLS[wire] in answer.text
    assert "echo hi" in answer.text


@pytest.mark.parametrize("wire", WIRES)
def test_any_tool(server: ModelServer, wire: str) -> None:
    assert called(wire, ask(server, wire, '[[tool:Read:{"path": "x"}]]')) == ("Read", {"path": "x"})


@pytest.mark.parametrize("wire", WIRES)
def test_errors(server: ModelServer, wire: str) -> None:
    assert ask(server, wire, "[[err:500]]").code == 500
    answer = ask(server, wire, "[[err:429:7]]", stream=True)
    assert (answer.code, answer.headers["retry-after"]) == (429, "7")
    assert "fake error 429" in answer.text


@pytest.mark.parametrize("wire", WIRES)
def test_cut_stream_has_no_end(server: ModelServer, wire: str) -> None:
    whole = ask(server, wire, "[[text:this answer is cut off]]", stream=True).text
    cut = ask(server, wire, "[[cut]]", stream=True).text
    last = {"anthropic": "message_stop", "responses": "response.completed", "chat": "[DONE]", "gemini": "STOP"}[wire]
    assert last in whole
    assert last not in cut
    assert [entry.event for entry in server.entries][-1] == "cut"


@pytest.mark.parametrize("wire", WIRES)
def test_side_calls_get_a_harmless_answer(server: ModelServer, wire: str) -> None:
    answer = ask(server, wire, "[[err:500]] [[bash:rm x]]", tools=False)
    assert (answer.code, json.loads(said(wire, answer))) == (200, {"title": "A fake title"})
    assert server.entries[0].side


def test_slow_first_byte(server: ModelServer) -> None:
    began = time.monotonic()
    assert said("chat", ask(server, "chat", "[[slow:0.4:late]]", stream=True)) == "late"
    assert time.monotonic() - began >= 0.4


def test_what_is_held_is_answered_when_it_is_let_go(server: ModelServer) -> None:
    answers: list[str] = []
    asking = threading.Thread(target=lambda: answers.append(said("chat", ask(server, "chat", "[[hold:at last]]"))))
    asking.start()
    assert server.wait_for(lambda entries: len(entries) == 1, 10)
    server.let_go(server.entries[0].number + 1)  # another one
    assert not server.wait_for(lambda entries: len(entries) == 2, 0.3)
    server.let_go(server.entries[0].number)
    asking.join(10)
    assert answers == ["at last"]


def test_slow_stream_begins_at_once(server: ModelServer) -> None:
    """The whole stream takes longer than the client waits for its first line."""
    body = {"messages": [{"role": "user", "content": "[[stream:300:a b c d]]"}], "tools": [{"name": "Bash"}]}
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
    connection.request("POST", "/v1/messages", json.dumps({**body, "stream": True}))
    assert connection.getresponse().readline().startswith(b"event: message_start")
    connection.close()


def test_slow_stream_takes_its_time_and_ends(server: ModelServer) -> None:
    began = time.monotonic()
    assert "message_stop" in ask(server, "anthropic", "[[stream:0.4:a b c d]]", stream=True).text
    assert time.monotonic() - began >= 0.4


@pytest.mark.parametrize("prompt", ["[[hang]]", "[[hold:x]]", "[[slow:60:late]]", "[[stream:60:a b c]]"])
def test_a_client_that_leaves_is_noted(server: ModelServer, prompt: str) -> None:
    body = json.dumps({"messages": [{"role": "user", "content": prompt}], "tools": [{"name": "Bash"}], "stream": True})
    head = f"POST /v1/messages HTTP/1.1\r\nhost: x\r\ncontent-length: {len(body)}\r\n\r\n"
    with socket.create_connection(("127.0.0.1", server.port), timeout=10) as client:
        client.sendall((head + body).encode())
        assert server.wait_for(lambda entries: len(entries) == 1, 10)
    assert server.wait_for(lambda entries: entries[-1].event == "gone", 10)


def test_the_nth_directive_answers_the_nth_turn() -> None:
    def due(*messages: Message) -> str:
        return str(plan(Ask("chat", "m", False, messages, ("bash",), {})).directive)

    prompt = Message(False, "[[bash:a]] [[tool:X:{}]] [[text:b]]")
    model, result = Message(True), Message(False)
    assert due(prompt) == "bash:a"
    assert due(prompt, model, result) == "tool:X:{}"
    assert due(prompt, model, model, result) == "tool:X:{}"  # text and a call are one turn
    assert due(prompt, model, result, model, result) == "text:b"
    assert due(prompt, model, result, model, result, model, result) == "text:done"
    assert due(prompt, model, Message(False, "now [[text:new]]")) == "text:new"
    assert due(prompt, model, Message(False, "go on")) == "tool:X:{}"
    assert due(Message(False, "hello")) == "text:ok"


def test_a_conversation_on_the_responses_wire(server: ModelServer) -> None:
    prompt = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "[[bash:a]] [[text:b]]"}]}
    call = {"type": "function_call", "name": "exec_command", "call_id": "1", "arguments": "{}"}
    output = {"type": "function_call_output", "call_id": "1", "output": "fine"}
    body = {"model": "m", "input": [prompt, {"type": "reasoning"}, call, output], "tools": [{"name": "exec_command"}]}
    answer = post(server, "/v1/responses", body)
    assert said("responses", answer) == "b"


def test_tools_in_a_namespace(server: ModelServer) -> None:
    inner = [{"type": "function", "name": "spawn_agent"}]
    content = [{"type": "input_text", "text": "[[agent:do <<text:x>>]]"}]
    body = {
        "model": "m",
        "input": [{"type": "message", "role": "user", "content": content}],
        "tools": [{"type": "namespace", "name": "collab", "tools": inner}],
    }
    item = post(server, "/v1/responses", body).body["output"][0]
    assert (item["namespace"], item["name"]) == ("collab", "spawn_agent")
    assert json.loads(item["arguments"])["message"] == "do [[text:x]]"


def test_directives_are_read_in_order_and_unknown_ones_are_text() -> None:
    found = directives("a [[text:x]] [[nonsense:y]] [[hang]] [[err:429:3]]")
    assert found == [Directive("text", "x"), Directive("hang"), Directive("err", "429:3")]


def test_a_directive_the_agent_has_no_tool_for_says_so(server: ModelServer) -> None:
    assert "no tool for [[question]]" in said("chat", ask(server, "chat", "[[question:why?]]"))


def test_the_log_says_who_when_and_which(server: ModelServer) -> None:
    before = time.monotonic()
    body = {"model": "m", "messages": [{"role": "user", "content": "[[text:x]]"}], "tools": [{"name": "Bash"}]}
    post(server, "/v1/messages", body, **{"user-agent": "agent/1", "X-Session-Id": "s1"})
    assert server.wait_for(lambda entries: len(entries) == 2, 10)
    first, second = server.entries
    assert (first.event, second.event, first.number, second.number) == ("request", "answered", 1, 1)
    assert (first.wire, first.directive, first.agent) == ("anthropic", "text:x", "agent/1")
    assert first.ids == (("x-session-id", "s1"),)
    assert before <= first.at <= second.at <= time.monotonic()


def test_token_counts_and_models(server: ModelServer) -> None:
    assert post(server, "/v1/messages/count_tokens", {}).body == {"input_tokens": 100}
    assert post(server, "/v1beta/models/m:countTokens", {}).body == {"totalTokens": 100}
    assert server.entries == []


@pytest.mark.parametrize(("path", "body"), [("/v1/nothing", {}), ("/v1/messages", b"not json"), ("/v1/messages", [])])
def test_what_it_does_not_speak_is_refused_and_noted(server: ModelServer, path: str, body: object) -> None:
    assert post(server, path, body).code == 404
    assert server.unknown == [f"POST {path}"]


def test_a_port_in_use_is_an_error(server: ModelServer) -> None:
    with pytest.raises(OSError, match="in use"):
        ModelServer(server.port)
