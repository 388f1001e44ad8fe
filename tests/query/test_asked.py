"""The identity of a question: stable over looks, another one with other content; and how it is shown."""

from __future__ import annotations

import copy
import random
from typing import TYPE_CHECKING, Any

import pytest

from agentctl.cli.asked import lines_of
from agentctl.files.redaction import redact_text
from agentctl.model import WAITING, Link, ProcessKey, Question
from agentctl.query.asked import LONGEST, id_of, identified, shown

if TYPE_CHECKING:
    from collections.abc import Iterator

KEY = ProcessKey("boot", 7, 70)
NEVER_IN_THE_ID = ("asked_at", "answerable", "id")


def link(*asks: Question, key: ProcessKey = KEY, id: str = "s", agent: str = "demo") -> Link:
    return Link(agent, id, "/store", key, "how", turn=WAITING, waiting_for="a person", asks=asks)


def some_text(rng: random.Random) -> str:
    return "".join(rng.choice("ab \n'\",:[]{}\\é\udc80") for _ in range(rng.randrange(6)))


def some_value(rng: random.Random, depth: int = 0) -> Any:
    kinds = ["text", "number", "none", "true"] + (["list", "dict"] if depth < 3 else [])
    match rng.choice(kinds):
        case "text":
            return some_text(rng)
        case "number":
            return rng.randrange(3)
        case "list":
            return [some_value(rng, depth + 1) for _ in range(rng.randrange(3))]
        case "dict":
            return {some_text(rng): some_value(rng, depth + 1) for _ in range(rng.randrange(3))}
        case "true":
            return True
    return None


def some_question(rng: random.Random) -> Question:
    return Question(
        rng.choice(("permission", "question", "plan", None)),
        rng.choice(("Bash", "Edit", None)),
        some_text(rng),
        rng.choice((None, {some_text(rng): some_value(rng) for _ in range(rng.randrange(3))})),
        rng.choice((None, tuple(some_text(rng) for _ in range(rng.randrange(3))))),
        by=rng.choice(("main", "sub", None)),
        own=rng.choice(("toolu_1", "toolu_2", None)),
    )


def content_of(question: Question) -> str:
    """Python's own word for whether two are equal, but for True and 1, which are equal and are not the same."""
    fields = {name: value for name, value in question._asdict().items() if name not in NEVER_IN_THE_ID}
    return repr({name: sorted_deep(value) for name, value in fields.items()})


def sorted_deep(value: Any) -> Any:
    if isinstance(value, dict):
        return [(name, sorted_deep(value[name])) for name in sorted(value)]
    if isinstance(value, (list, tuple)):
        return [sorted_deep(each) for each in value]
    return value


@pytest.mark.parametrize("seed", range(10))
def test_the_id_is_stable_over_looks_and_changes_with_the_content(seed: int) -> None:
    rng = random.Random(seed)
    contents: dict[str, str] = {}
    for _ in range(300):
        question = some_question(rng)
        later = copy.deepcopy(question)._replace(asked_at=rng.random())
        if later.detail is not None:
            later = later._replace(detail=dict(reversed([*later.detail.items()])))
        found = id_of(question, link())
        assert found == id_of(later, link())
        assert contents.setdefault(found, content_of(question)) == content_of(question)
    assert len(contents) == len({*contents.values()})


def variations(question: Question) -> Iterator[tuple[Question, Link]]:
    yield question, link()
    yield question, link(key=ProcessKey("boot", 7, 71))
    yield question, link(id="t")
    yield question, link(agent="other")
    for change in (
        {"own": "toolu_2"},
        {"by": "sub"},
        {"kind": "plan"},
        {"tool": "Edit"},
        {"summary": "other"},
        {"detail": {"command": "rm"}},
        {"detail": None},
        {"options": ("A",)},
    ):
        yield question._replace(**change), link()


def test_session_process_call_and_content_each_make_another_id() -> None:
    question = Question("permission", "Bash", "words", {"command": "make"}, by="main", own="toolu_1")
    ids = [id_of(asked, its) for asked, its in variations(question)]
    assert len({*ids}) == len(ids)


def test_what_is_seen_twice_is_one_entry() -> None:
    one = Question("permission", "Bash", "words", {"command": "make"}, by="main", own="toolu_1", asked_at=1.0)
    (found,) = identified(link(one, one._replace(asked_at=2.0)))
    assert found.asked_at == 1.0
    assert len(identified(link(one, one._replace(own="toolu_2")))) == 2


SECRET = "sk-ant-abcdefghijklmnop1234"


def test_it_is_shown_without_secrets_and_within_bounds() -> None:
    detail = {
        "command": f"curl -H 'x-api-key: {SECRET}'",
        "questions": [{"question": SECRET, "options": [{"label": SECRET, "description": None}], "multiple": False}],
        "diff": "x" * (2 * LONGEST) + SECRET,
    }
    question = Question("permission", "Bash", f"run {SECRET}", detail, (SECRET,), own="toolu_1")
    found = shown(question, redact_text)
    assert SECRET not in repr(found)
    assert SECRET[:12] not in repr(found)
    assert found.detail is not None
    assert len(found.detail["diff"]) < LONGEST + 100
    assert found.detail["diff"].endswith("more characters)")
    assert found.detail["questions"][0]["multiple"] is False
    assert (found.id, found.own) == (question.id, question.own)


def test_a_secret_at_the_cut_is_removed() -> None:
    question = Question("permission", detail={"command": "x" * (LONGEST - 8) + " " + SECRET})
    found = shown(question, redact_text)
    assert found.detail is not None
    assert "sk-ant-" not in found.detail["command"].replace("sk-[", "[")


def test_people_see_what_would_be_done_and_no_agent_can_draw() -> None:
    diff = "\n".join(["--- a", "+++ a", *(f"+line {number}" for number in range(30)), "-old\x1b[2J"])
    asked = {"question": "Which\x1b[2J?", "options": [{"label": "A", "description": "a"}], "multiple": True}
    questions = [
        Question("permission", "Bash", detail={"command": "make\n\x1b]0;x\x07tea"}, by="main", id="1" * 12),
        Question("permission", "Edit", detail={"path": "/a", "diff": diff}, by="sub\x1b[1m", id="2" * 12),
        Question("question", "Ask", detail={"questions": [asked]}, id="3" * 12),
        Question("plan", None, detail={"plan": "first\nsecond"}, id="4" * 12),
        Question(None, "mcp", detail={"input": {"a": "1\x1b[2J", "b": [2]}}, id="5" * 12),
    ]
    lines = list(lines_of(questions))
    assert not any("\x1b" in text or "\x07" in text for line in lines for text in line)
    assert lines[0] == ("asks", "permission Bash (question 111111111111)")
    assert lines[1] == ("command", "make\n            \\x1b]0;x\\x07tea")
    assert lines[2][1].startswith("permission Edit by sub-agent sub\\x1b[1m (question")
    assert lines[3] == ("path", "/a")
    name, text = lines[4]
    assert (name, text.splitlines()[0]) == ("changes", "30 lines added, 1 removed")
    assert text.splitlines()[-1].strip().endswith("13 more lines")
    assert lines[6] == ("question", "Which\\x1b[2J? (several can be chosen)\n            1. A: a")
    assert lines[8] == ("plan", "first\n            second")
    assert lines[9][1].startswith("something mcp")
    assert lines[10] == ("input", "a: 1\\x1b[2J\n            b: [2]")
