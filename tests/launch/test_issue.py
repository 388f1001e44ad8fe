"""An issue through `gh`: a fake of it on PATH, and real git repositories."""

from __future__ import annotations

import json
import os
import subprocess
from typing import TYPE_CHECKING, Any

import pytest

from agentctl.errors import AgentctlError, UsageError
from agentctl.launch import issue
from agentctl.launch.issue import fetch_issue, repository_of
from tests.launches.test_hooks import at_end
from tests.support.children import until

if TYPE_CHECKING:
    from pathlib import Path

ISSUE = {"title": "It breaks", "body": "When?\nAlways.", "url": "https://github.com/o/r/issues/7"}


class Machine:
    """A PATH with what a test puts there, and a place for a repository."""

    def __init__(self, folder: Path) -> None:
        self.bin, self.cwd, self.calls = folder / "bin", folder / "work", folder / "calls"
        self.bin.mkdir()
        self.cwd.mkdir()
        self.env = {"PATH": str(self.bin), "HOME": str(folder), "GIT_CONFIG_NOSYSTEM": "1", "TOKEN": "kept"}

    def install(self, name: str, script: str) -> None:
        path = self.bin / name
        path.write_text(f"#!/bin/sh\nPATH={os.defpath}\n{script}\n")
        path.chmod(0o755)

    def gh(self, answer: object = ISSUE, code: int = 0, says: str = "") -> None:
        (self.bin / "answer").write_text(answer if isinstance(answer, str) else json.dumps(answer))
        (self.bin / "says").write_text(says)
        noted = f'printf "%s|" "$@" "$GH_PROMPT_DISABLED" "$TOKEN" >> {self.calls}'
        self.install("gh", f"{noted}\ncat {self.bin}/answer; cat {self.bin}/says >&2; exit {code}")

    def git(self, *words: str) -> None:
        subprocess.run(["git", *words], cwd=self.cwd, env={**self.env, "PATH": os.environ["PATH"]}, check=True)

    def repository(self, origin: str | None = None) -> None:
        self.install("git", 'exec git "$@"')
        self.git("init", "-q")
        if origin is not None:
            self.git("remote", "add", "origin", origin)

    def fetch(self, number: int = 7, repo: str | None = None) -> Any:
        return fetch_issue(number, repo, str(self.cwd), self.env)


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def test_an_issue_of_a_named_repository(machine: Machine) -> None:
    machine.gh()
    found = machine.fetch(7, "o/r")
    assert found == issue.Issue(7, ISSUE["title"], ISSUE["body"], ISSUE["url"])
    assert machine.calls.read_text() == "issue|view|7|--repo|o/r|--json|title,body,url|1|kept|"


def test_an_issue_of_the_repository_we_are_in(machine: Machine) -> None:
    machine.gh()
    machine.repository("git@github.example.com:team/tool.git")
    machine.fetch()
    assert "|--repo|github.example.com/team/tool|" in machine.calls.read_text()


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        ("git@github.com:o/r.git", "o/r"),
        ("git@github.com:o/r", "o/r"),
        ("github.com:o/r.git", "o/r"),
        ("git@github.com:/o/r.git", "o/r"),
        ("ssh://git@github.com/o/r.git", "o/r"),
        ("ssh://git@ssh.github.com:443/o/r.git", "o/r"),
        ("ssh://git@ghe.example.com:2222/o/r", "ghe.example.com/o/r"),
        ("https://github.com/o/r.git", "o/r"),
        ("https://github.com/o/r", "o/r"),
        ("https://github.com/o/r/", "o/r"),
        ("https://GitHub.com/o/r.js.git", "o/r.js"),
        ("https://user:ghp_secret@github.com/o/r.git", "o/r"),
        ("https://ghe.example.com:8443/o-x/r_y.git", "ghe.example.com:8443/o-x/r_y"),
        ("git://github.com/o/r.git", "o/r"),
        ("http://localhost:3000/o/r", "localhost:3000/o/r"),
        ("work:o/r.git", None),
        ("git@work:o/r.git", None),
        ("/srv/git/o/r.git", None),
        ("../r", None),
        ("file:///srv/o/r.git", None),
        ("https://gitlab.example.com/a/b/c.git", None),
        ("https://github.com/o", None),
        ("https://github.com/o/.git", None),
        ("git@github.com:o/--upload-pack=x", None),
        ("", None),
    ],
)
def test_addresses(address: str, expected: str | None) -> None:
    assert repository_of(address) == expected


@pytest.mark.parametrize("origin", [None, "/srv/git/x.git", "https://user:ghp_secret@x.example.com/a/b/c"])
def test_without_an_origin_that_leads_to_github(machine: Machine, origin: str | None) -> None:
    machine.gh()
    machine.repository(origin)
    with pytest.raises(AgentctlError, match=r"origin.*--repo OWNER/REPOSITORY") as raised:
        machine.fetch()
    assert str(machine.cwd) in str(raised.value)
    assert "secret" not in str(raised.value)
    assert not machine.calls.exists()


def test_outside_of_a_repository(machine: Machine) -> None:
    machine.gh()
    machine.install("git", 'exec git "$@"')
    with pytest.raises(AgentctlError, match="no git repository"):
        machine.fetch()


def test_without_gh_and_without_git(machine: Machine) -> None:
    with pytest.raises(AgentctlError, match=r"gh is not in PATH; install it .*, or save the issue's text") as raised:
        machine.fetch(7, "o/r")
    assert raised.value.exit_code == 1
    with pytest.raises(AgentctlError, match="git is not in PATH"):
        machine.fetch()


def test_not_logged_in(machine: Machine) -> None:
    machine.gh("", 4, "To get started with GitHub CLI, please run:  gh auth login")
    with pytest.raises(AgentctlError, match=r"not logged in.*run `gh auth login`"):
        machine.fetch(7, "o/r")


def test_no_such_issue(machine: Machine) -> None:
    machine.gh("", 1, "warning: x\nGraphQL: no issue \x1b[31mwith that number\n\n")
    with pytest.raises(AgentctlError) as raised:
        machine.fetch(7, "o/r")
    said = "gh could not show issue 7 of o/r: GraphQL: no issue [31mwith that number; check the number and --repo"
    assert str(raised.value) == said


@pytest.mark.parametrize("answer", ["", "no JSON", "[]", "null", "[" * 100_000, {"title": "x"}, {**ISSUE, "body": 3}])
def test_an_answer_that_is_no_issue(machine: Machine, answer: object) -> None:
    machine.gh(answer)
    with pytest.raises(AgentctlError, match="could not parse what `gh` printed for issue 7"):
        machine.fetch(7, "o/r")


@pytest.mark.parametrize("repo", ["", "r", "o/r/x/y", "-o/r", "o/-r", "o/r --web", "https://github.com/o/r", "o/\nr"])
def test_what_is_no_repository(machine: Machine, repo: str) -> None:
    machine.gh()
    with pytest.raises(UsageError, match="use OWNER/REPOSITORY"):
        machine.fetch(7, repo)
    assert not machine.calls.exists()


@pytest.mark.parametrize("number", [0, -1])
def test_what_is_no_number(machine: Machine, number: int) -> None:
    with pytest.raises(UsageError, match="not the number of an issue"):
        machine.fetch(number, "o/r")


def test_a_gh_that_does_not_answer_is_ended_with_its_children(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    reading = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)
    machine.install("gh", f"exec 3> {fifo}; sleep 300 & wait")
    monkeypatch.setattr(issue, "PATIENCE", 0.3)
    with pytest.raises(AgentctlError, match=r"has not answered in 0\.3 s; try `gh issue view 7"):
        machine.fetch(7, "o/r")
    try:
        until(lambda: at_end(reading))
    finally:
        os.close(reading)


def test_a_directory_that_is_not_there(machine: Machine) -> None:
    machine.gh()
    with pytest.raises(UsageError, match="no such directory"):
        fetch_issue(7, "o/r", str(machine.cwd / "gone"), machine.env)


def test_a_gh_that_cannot_be_run(machine: Machine) -> None:
    (machine.bin / "gh").write_text("")
    with pytest.raises(AgentctlError, match="gh cannot be run: Permission denied"):
        machine.fetch(7, "o/r")
