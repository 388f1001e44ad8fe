"""Fetches an issue with `gh`, GitHub's own command line: it knows the person's hosts and logins, and we never see
them."""

from __future__ import annotations

import os
import re

from agentctl.errors import AgentctlError, UsageError
from agentctl.kernel import commands
from agentctl.kernel.commands import last_line
from agentctl.model import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

PATIENCE = 30.0
PUBLIC_HOST = "github.com"
SSH_HOSTS = {"ssh.github.com": PUBLIC_HOST}  # for ssh through port 443
NOT_LOGGED_IN = 4  # gh's exit code
WITHOUT = "or save the issue's text and give it with --file"

WORD = r"[A-Za-z0-9_.][A-Za-z0-9_.\-]*"
REPOSITORY = re.compile(rf"(?:{WORD}(?::\d+)?/)?{WORD}/{WORD}")
URL = re.compile(rf"(?:https?|ssh|git|git\+ssh)://(?:[^/@]*@)?({WORD})(:\d+)?/({WORD}/{WORD})/?")
SCP = re.compile(rf"(?:[^/@:]*@)?({WORD}):/?({WORD}/{WORD})/?")  # git@host:owner/repository


class Issue(Value):
    number: int
    title: str
    body: str
    url: str


def fetch_issue(number: int, repo: str | None, cwd: str, env: Mapping[str, str] | None = None) -> Issue:
    """Return an issue, which `gh` fetches. `repo` is [HOST/]OWNER/REPOSITORY; None: what `origin` of the repository at
    `cwd` points to."""
    if number <= 0:
        raise UsageError(f"{number} is not the number of an issue; use the number behind the # in its title")
    environment = dict(os.environ if env is None else env)
    if repo is None:
        repo = repository_at(cwd, environment)
    elif REPOSITORY.fullmatch(repo) is None:
        raise UsageError(f"--repo {repo!r}: use OWNER/REPOSITORY, or HOST/OWNER/REPOSITORY")
    code, out, err = run(
        ["gh", "issue", "view", str(number), "--repo", repo, "--json", "title,body,url"],
        cwd,
        {**environment, "GH_PROMPT_DISABLED": "1", "GH_NO_UPDATE_NOTIFIER": "1", "NO_COLOR": "1"},
    )
    if code == NOT_LOGGED_IN:
        raise AgentctlError(f"gh is not logged in to where {repo} is; run `gh auth login`, {WITHOUT}")
    if code != 0:
        why = last_line(err) or f"exit code {code}"
        raise AgentctlError(f"gh could not show issue {number} of {repo}: {why}; check the number and --repo")
    return parse(number, repo, out)


def parse(number: int, repo: str, text: str) -> Issue:
    import json

    try:
        said = json.loads(text)
    except (ValueError, RecursionError):
        said = None
    facts = said if isinstance(said, dict) else {}
    title, body, url = (facts.get(name) for name in ("title", "body", "url"))
    if not (isinstance(title, str) and isinstance(body, str) and isinstance(url, str)):
        raise AgentctlError(
            f"could not parse what `gh` printed for issue {number} of {repo}; see `gh --version`, {WITHOUT}"
        )
    return Issue(number, title, body, url)


def repository_at(cwd: str, env: Mapping[str, str]) -> str:
    code, out, _ = run(["git", "remote", "get-url", "origin"], cwd, env)
    if code != 0:
        raise AgentctlError(f"{cwd}: no git repository with a remote `origin`; use --repo OWNER/REPOSITORY")
    if (repo := repository_of(out.strip())) is None:
        raise AgentctlError(
            f"{cwd}: `origin` does not point to a repository on a GitHub host; use --repo OWNER/REPOSITORY"
        )
    return repo


def repository_of(address: str) -> str | None:
    """Return the repository as gh names it; None if gh has no name for it. The address may have a password in it, so no
    message shows it."""
    if (url := URL.fullmatch(address)) is not None:
        host, port, path = url.groups()
        if port and address.startswith("http"):
            host += port
    elif (scp := SCP.fullmatch(address)) is not None:
        host, path = scp.groups()
    else:
        return None
    host = SSH_HOSTS.get(host.lower(), host.lower())
    if "." not in host.rstrip(".") and not host.startswith("localhost"):
        return None  # a name from the person's ssh configuration: agentctl does not know what it stands for
    path = path.removesuffix(".git")
    if path.endswith("/"):
        return None
    return path if host == PUBLIC_HOST else f"{host}/{path}"


def run(
    argv: list[str], cwd: str, env: Mapping[str, str], patience: float | None = None
) -> tuple[int | None, str, str]:
    ran = commands.run(argv, cwd, env, PATIENCE if patience is None else patience)
    if ran.outcome in (commands.NOT_FOUND, commands.NOT_RUNNABLE):
        where = f"https://cli.{PUBLIC_HOST}" if argv[0] == "gh" else "https://git-scm.com"
        raise AgentctlError(f"{ran.problem}; install it ({where}), {WITHOUT}")
    if ran.outcome != commands.DONE:
        raise AgentctlError(f"{ran.problem}; try `{' '.join(argv)}` yourself, {WITHOUT}")
    return ran.code, ran.out.decode(errors="replace"), ran.err.decode(errors="replace")
