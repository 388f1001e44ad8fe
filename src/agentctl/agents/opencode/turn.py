"""How a turn of OpenCode stands, from its newest messages. They have one shape in its database and its older files.

Every model step is an assistant message of its own; a turn is over when a step ends without asking for another one.
OpenCode writes nothing while a model streams, and on a kill it writes nothing at all: an open turn only says that it
was begun.
"""

from __future__ import annotations

from agentctl.agents.base import refused_calls
from agentctl.files.bounded import decode, moment, text_or_none
from agentctl.model import CLOSED_TURNS, DONE, FAILED, IDLE, INTERRUPTED, UNKNOWN, WORKING, Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any, TypeAlias

    AnyMessage: TypeAlias = "Message | StoredMessage"

NEWEST = 6  # messages that are looked at: the last step, its prompt, and a prompt that was queued behind it
NEWER_MESSAGES = "it has messages in tables of a newer interface of OpenCode, which agentctl does not read"
ABORTED = "MessageAbortedError"
MORE_STEPS = ("tool-calls", "unknown")  # a step that ends so is followed by the next one
# A refusal ends the turn, any other failure of a tool does not; nor does a refusal with a word on what to do instead.
REFUSALS = (
    "The user rejected permission to use this specific tool call.",
    "The user dismissed this question",
)
SAYING_WHAT = ("command", "filePath", "url", "pattern", "query", "path", "description")
PLACEHOLDERS = ("New session - ", "Child session - ")


class Row(Value):
    """One session as it is stored."""

    id: str
    path: str
    parent: str | None = None
    directory: str | None = None
    title: str | None = None
    version: str | None = None
    model: str | None = None
    created: float | None = None
    updated: float | None = None


class Part(Value):
    created: float
    written: float
    data: dict[str, Any]


class Message(Value):
    id: str
    created: float
    written: float
    data: dict[str, Any] | None  # None = not readable


class StoredMessage:
    """A message in a row of the database, decoded when it is looked at: most are not."""

    __slots__ = ("_created", "_data", "_text", "_written", "id")

    def __init__(self, id: str, created: object, written: object, text: object) -> None:
        self.id = id
        self._created, self._written, self._text = created, written, text
        self._data: dict[str, Any] | None = None

    @property
    def created(self) -> float:
        return moment(self._created) or 0.0

    @property
    def written(self) -> float:
        return moment(self._written) or 0.0

    @property
    def data(self) -> dict[str, Any] | None:
        if self._text is not None:
            self._data, self._text = decoded(self._text), None
        return self._data


class Tool(Value):
    """A tool call that was begun and has no end."""

    name: str
    call: str
    what: str  # what it does, in a line
    begun: float
    quiet: bool = False  # it has reported nothing yet: it works inside the process, or it waits for a person
    child: str | None = None  # the sub-agent that does it
    given: Mapping[str, Any] = {}


class Turn(Value):
    turn: str
    reason: str
    error: str | None = None
    inferred: bool = False
    begun: float | None = None  # when the newest message was created
    prompted: float | None = None  # when the prompt of this turn was written
    first: bool = False  # it is the first one of its session
    answering: bool = False  # a step of a model is stored
    by_hand: bool = False  # a command that the person typed behind "!": nobody is asked, and no log has it
    silent: bool = False  # the newest step has no byte of its model yet
    tools: tuple[Tool, ...] = ()
    model: str | None = None
    written: float | None = None


def read_turn(messages: Sequence[AnyMessage], parts: Callable[[str], Sequence[Part]]) -> Turn:
    """Return how the last turn stands. `messages`: the newest, the newest first. `parts`: returns those of a
    message."""
    if not messages:
        return Turn(IDLE, "no turn was begun")
    newest = messages[0]
    role = (newest.data or {}).get("role")
    if newest.data is None or role not in ("user", "assistant"):
        return Turn(UNKNOWN, "its newest message is not readable", begun=newest.created, written=newest.written)
    if role == "user":
        found = Turn(WORKING, "its last prompt has no answer yet", begun=newest.created, written=newest.written)
        before = messages[1] if len(messages) > 1 else None
        tools: tuple[Tool, ...] = ()
        prompted, first = newest.created, len(messages) == 1
        if before is not None and before.data and before.data.get("role") == "assistant" and is_open(before.data):
            # The person typed it while the model worked, and it waits for that step; or a kill left that step open.
            tools, prompted = open_tools(parts(before.id)), prompt_time(messages[1:])
        elif (closed := closed_before(messages, parts)) is not None:
            return closed
        return found._replace(prompted=prompted, first=first, tools=tools, model=model_of(newest.data.get("model")))
    of_step = parts(newest.id)
    return read_step(newest.data, of_step)._replace(
        begun=newest.created,
        prompted=prompt_time(messages),
        first=len(messages) < NEWEST and sum(map(is_prompt, messages)) < 2,
        model=model_of(newest.data),
        written=max([newest.written, *(part.written for part in of_step)]),
    )


def closed_before(messages: Sequence[AnyMessage], parts: Callable[[str], Sequence[Part]]) -> Turn | None:
    """Return the turn that has ended before the newest message, if a program put that one in: most of those are for
    the next turn only (`noReply`), and nothing stored tells them from those that begin one."""
    own = parts(messages[0].id) if len(messages) > 1 and not is_prompt(messages[1]) else ()
    if not own or not all(part.data.get("synthetic") for part in own):
        return None
    before = read_turn(messages[1:], parts)
    if before.turn not in CLOSED_TURNS:
        return None
    why = f"{before.reason}; a program put a message in behind it, which need not begin a turn"
    return before._replace(reason=why, inferred=True, begun=messages[0].created, written=messages[0].written)


def prompt_time(messages: Sequence[AnyMessage]) -> float:
    prompts = (message.created for message in messages if is_prompt(message))
    return next(prompts, messages[-1].created)  # the prompt is further back: all these steps are of its turn


def is_prompt(message: AnyMessage) -> bool:
    return message.data is not None and message.data.get("role") == "user"


def decoded(text: object) -> dict[str, Any] | None:
    return decode(text) if isinstance(text, (str, bytes)) else None


def is_open(data: dict[str, Any]) -> bool:
    time = data.get("time")
    return not data.get("error") and not (isinstance(time, dict) and time.get("completed"))


def read_step(data: dict[str, Any], parts: Sequence[Part]) -> Turn:
    """Return how the turn stands, by the newest step of the model."""
    tools = [part for part in parts if part.data.get("type") == "tool"]
    by_hand = bool(tools) and not any(part.data.get("type") == "step-start" for part in parts)
    error, finish = data.get("error"), data.get("finish")
    if isinstance(error, dict):
        if error.get("name") == ABORTED:
            return Turn(INTERRUPTED, "its last turn was aborted")
        return Turn(FAILED, "its last turn ended in an error", error=error_text(error))
    if is_open(data):
        what = "a command the person typed runs" if by_hand else "its last step has no end"
        return Turn(WORKING, what, answering=not by_hand, by_hand=by_hand, silent=not parts, tools=open_tools(parts))
    refused = sum(state_of(part).get("error") in REFUSALS for part in tools)
    if refused:
        return Turn(DONE, f"its last turn ended because {refused_calls(refused)}")
    if finish is None:
        if by_hand:
            return Turn(DONE, "a command the person typed was its last turn, and it ended")
        return Turn(INTERRUPTED, "its last step was ended without a result: aborted while the model call was retried")
    if finish in MORE_STEPS or any(wants_answer(part) for part in tools):
        return Turn(WORKING, f"its last step ended ({finish}), and the next one is due", answering=True, inferred=True)
    return Turn(DONE, f"its last turn is complete ({finish})")


def open_tools(parts: Sequence[Part]) -> tuple[Tool, ...]:
    model_ran = any(part.data.get("type") == "step-start" for part in parts)
    found = []
    for part in parts:
        state = state_of(part)
        if part.data.get("type") != "tool" or state.get("status") not in ("pending", "running"):
            continue
        metadata = state.get("metadata")
        found.append(
            Tool(
                str(part.data.get("tool")),
                str(part.data.get("callID")),
                said(state.get("input")),
                part.created,
                quiet=model_ran and state.get("status") == "running" and metadata is None,
                child=text_or_none(metadata.get("sessionId")) if isinstance(metadata, dict) else None,
                given=given if isinstance(given := state.get("input"), dict) else {},
            )
        )
    return tuple(found)


def state_of(part: Part) -> dict[str, Any]:
    state = part.data.get("state")
    return state if isinstance(state, dict) else {}


def wants_answer(part: Part) -> bool:
    """Return whether the model is due to get this result. Not if its provider ran the call, or if it was cut short."""
    own, result = part.data.get("metadata"), state_of(part).get("metadata")
    provider_ran = isinstance(own, dict) and own.get("providerExecuted")
    return not provider_ran and not (isinstance(result, dict) and result.get("interrupted"))


def said(given: object) -> str:
    """Return in a line what a tool was asked to do."""
    if not isinstance(given, dict):
        return ""
    questions = given.get("questions")
    if isinstance(questions, list) and questions and isinstance(questions[0], dict):
        return text_or_none(questions[0].get("question")) or ""
    return next((text for name in SAYING_WHAT if (text := text_or_none(given.get(name)))), "")


def error_text(error: dict[str, Any]) -> str:
    name, data = text_or_none(error.get("name")) or "error", error.get("data")
    message = text_or_none(data.get("message")) if isinstance(data, dict) else None
    return f"{name}: {message}" if message else name


def model_of(data: object) -> str | None:
    """Return provider/model, as OpenCode's --model takes it."""
    if not isinstance(data, dict):
        return None
    provider, model = text_or_none(data.get("providerID")), text_or_none(data.get("modelID") or data.get("id"))
    return f"{provider}/{model}" if provider and model else model


def title_of(text: str | None) -> str | None:
    return None if text is None or text.startswith(PLACEHOLDERS) else text


def prompt_of(parts: Sequence[Part]) -> str | None:
    """Return what the person wrote. `run` stores an argument that has blanks with quotes around it."""
    for part in parts:
        text = text_or_none(part.data.get("text"))
        if part.data.get("type") == "text" and text and not part.data.get("synthetic"):
            inner = text.strip()[1:-1].replace('\\"', "\0")
            quoted = len(text.strip()) > 1 and text.strip()[0] == text.strip()[-1] == '"' and '"' not in inner
            return inner.replace("\0", '"') if quoted else text
    return None
