"""A message that shows a command to copy: whatever a directory, a branch or a session is called, it is one command.

Session ids, launch ids, groups, slots and pids cannot have a character that a shell takes for its own. Everything else
goes through `errors.shown_command`.
"""

from __future__ import annotations

import ast
import re
import shlex
from pathlib import Path

import pytest

from agentctl.cli import VERBS as COMMANDS
from agentctl.errors import shown_command
from agentctl.files.bounded import is_session_id
from agentctl.kernel import commands
from agentctl.model import Problem
from agentctl.query import roots
from agentctl.workspace import clean, git, inspect, locks

SOURCES = Path(__file__).parent.parent / "src" / "agentctl"
WORD = r"(?:[\w.=/-]+|\{\}|=)"
VERBS = {
    "agentctl": "|".join(map(re.escape, COMMANDS)),
    "git": "worktree|branch|merge|checkout|config|stash|rebase|switch|-C",
    "tmux": r"-S|-L|[a-z]+-(?:session|client|server|window|pane)",
    "kill": "-[A-Z0-9]+",
    "cd": WORD,
}
# A placeholder that follows the words of a command.
IN_A_COMMAND = re.compile(
    rf"(?:^|[`:;(&|]\s*|\s)(?:{'|'.join(rf'{program} (?:{verbs})' for program, verbs in VERBS.items())})"
    rf"(?: {WORD})* (?:--?[\w-]+=)?$|(?:^|[`;(&|]\s*|: )cd $"
)
# What has no character of the shell, by how it is made (`is_session_id`, `records.is_id`, `slots.check_group`), by the
# last part of its name.
SAFE = ("id", "_id", "launch_id", "pid", "top", "parent", "resumes", "group", "slot", "name")
ODD = ["/a b", "/a;reboot", "/a'b", '/a"b', "/$(reboot)", "/a`reboot`", "/a|b", "/a\nb", "/é", "-rf", "#x", "~", "*"]


def by_hand(source: str) -> list[str]:
    """Return the placeholders of commands that an f-string puts together itself."""
    found = []
    for node in ast.walk(ast.parse(source)):
        text = ""
        for value in node.values if isinstance(node, ast.JoinedStr) else ():
            if isinstance(value, ast.Constant):
                text += str(value.value)
                continue
            assert isinstance(value, ast.FormattedValue)
            said = ast.unparse(value.value)
            last = re.split(r"[.\s]", said)[-1]
            if IN_A_COMMAND.search(text) and last not in SAFE and not said.startswith("shlex.quote("):
                found.append(f"{value.lineno}: {text[-40:]}{{{said}}}")
            text += "{}"
    return found


@pytest.mark.parametrize("path", sorted(SOURCES.rglob("*.py")), ids=lambda path: str(path.relative_to(SOURCES)))
def test_no_message_puts_a_command_together_by_hand(path: Path) -> None:
    assert by_hand(path.read_text()) == []


@pytest.mark.parametrize(
    "source",
    [
        'f"do: agentctl unlock {directory}"',
        'f"`agentctl unlock --force {directory or problem.path}`"',
        'f"{one}; git worktree unlock {tree.path}"',
        'f"TMUX= tmux -S {seat.pane.socket} attach"',
        'f"close it: tmux kill-session -t {title}"',
        'f"cd {cwd} && x"',
        'f"agentctl stop {session.id} --cwd {session.cwd}"',
        'f"`git worktree remove {path}`"',
    ],
)
def test_such_a_message_is_found(source: str) -> None:
    assert len(by_hand(source)) == 1


@pytest.mark.parametrize(
    "source",
    [
        'f"agentctl stop {session.id} --force"',
        'f"{path}: agentctl cannot tell {why}"',
        'f"{cwd}: git worktree list: {why}"',
        'f"`{shown_command(1)}`"',
        'f"cd {shlex.quote(cwd)} && "',
    ],
)
def test_prose_and_ids_are_not(source: str) -> None:
    assert by_hand(source) == []


@pytest.mark.parametrize("name", ODD)
def test_a_shell_takes_it_for_one_command(name: str) -> None:
    assert shlex.split(shown_command("agentctl", "unlock", name)) == ["agentctl", "unlock", name]
    for said in (
        roots.vanished(name),
        roots.away(name),
        locks.way_out(Problem("locks", "torn", f"/x/1{locks.SUFFIX}"), name),
    ):
        assert shlex.quote(name) in said


def test_the_way_out_of_a_worktree_that_git_has_locked() -> None:
    tree = inspect.Tree("/r", "/a;reboot", locked="")
    ways = [one.next for one in clean.objections(tree, (), "/", delete_branch=False)]
    assert "git worktree unlock '/a;reboot'" in ways


def test_git_that_gives_no_answer() -> None:
    ran = commands.Ran(None, outcome=commands.TIMED_OUT, problem="git has not answered")
    with pytest.raises(git.GitFailed) as failed:
        git.run_to_its_end(ran, "/x", ("branch", "-D", "a;reboot"))
    assert "`git branch -D 'a;reboot'`" in str(failed.value)


@pytest.mark.parametrize("char", " /\\;&|<>()$`'\"*?[]{}!#~^")
def test_an_id_is_one_word_of_a_shell(char: str) -> None:
    assert not is_session_id(f"a{char}b")
