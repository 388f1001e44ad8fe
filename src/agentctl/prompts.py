"""The words that an agent is given: the issue, the specification and the files that go with a prompt, in that order,
and the prompt itself last.

What is quoted stands between a line that names it and an end line of its own. The end line carries a tag that occurs
nowhere in what is quoted, and the first line announces it: so no file and no issue can end before its end, and go on
in the words of the person. The same input gives the same words, always.
"""

from __future__ import annotations

import os
import sys

from agentctl import stores
from agentctl.errors import UsageError
from agentctl.github import Issue, fetch_issue

__all__ = ["Issue", "build", "fetch_issue", "given"]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

MAX_FILE_SIZE = 50 * 1024
PROMPT_LIMIT = 16 * 1024 * 1024
STDIN = "-"
TAG_LENGTH = 8


def build(
    prompt: str,
    spec: str | None = None,
    files: Iterable[str] = (),
    max_file_size: int = MAX_FILE_SIZE,
    cwd: str | None = None,
    issue: Issue | None = None,
) -> str:
    """Paths are the caller's; they are shown as the agent sees them from `cwd`. A prompt alone stays as it is."""
    home = os.path.abspath(cwd or os.curdir)
    pieces = []
    if issue is not None:
        pieces.append(quoted(f"Issue #{issue.number}: {one_line(issue.title)} ({one_line(issue.url)})", issue.body))
    if spec is not None:
        pieces.append(quoted(f"Specification {shown(spec, home)}", read_text(spec, max_file_size)))
    for path in files:
        pieces.append(quoted(f"File {shown(path, home)}", read_text(path, max_file_size)))
    if prompt.strip() or not pieces:
        pieces.append(prompt)
    return checked("\n".join(pieces))


def quoted(name: str, content: str) -> str:
    tag = tag_for(content)
    newline = "" if not content or content.endswith("\n") else "\n"
    return f"{name}, up to the line that says end {tag}:\n{content}{newline}--- end {tag} ---\n"


def tag_for(content: str) -> str:
    """Taken from the content, so that it can be neither foreseen nor contained. Whoever tries until it is contained
    gets the next one."""
    from hashlib import sha256
    from itertools import count

    data = content.encode("utf-8", "surrogatepass")
    tags = (sha256(data + b"%d" % number).hexdigest()[:TAG_LENGTH] for number in count())
    return next(tag for tag in tags if tag.encode() not in data)


def one_line(text: str) -> str:
    """No name and no title adds a line of its own."""
    text = text.encode("utf-8", "backslashreplace").decode()
    return "".join(char if char.isprintable() else " " for char in text).strip()


def shown(path: str, cwd: str) -> str:
    """Relative where it is below the agent's directory, by its name or by what its links lead to."""
    for file, folder in ((os.path.abspath(path), cwd), (stores.real_path(path), stores.real_path(cwd))):
        if file.startswith(folder.rstrip("/") + "/"):
            return one_line(os.path.relpath(file, folder))
    return one_line(os.path.abspath(path))


def checked(text: str) -> str:
    """What an agent can be given: neither an argument nor a store takes a NUL, and all of them expect UTF-8."""
    if not text.strip():
        raise UsageError("the prompt is empty; say what is to be done")
    if "\0" in text:
        raise UsageError(f"the prompt has a NUL at character {text.index(chr(0))}; take it out")
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise UsageError(f"the prompt is not UTF-8 from character {error.start} on; convert it first") from error
    return text


# Reading


def given(prompt: str | None, prompt_file: str | None = None) -> str | None:
    """The prompt as an argument, from a file, or from stdin, where either of them is `-`."""
    if prompt is not None and prompt_file is not None:
        raise UsageError("a prompt and a prompt file: use one of them; --file adds a file to a prompt")
    if STDIN in (prompt, prompt_file):
        return from_stdin()
    return prompt if prompt_file is None else read_text(prompt_file, PROMPT_LIMIT)


def from_stdin() -> str:
    if sys.stdin is None:  # it was closed
        raise UsageError("the prompt was to come from stdin, which is closed; use --prompt-file")
    return decoded(sys.stdin.buffer.read(PROMPT_LIMIT + 1), "stdin", PROMPT_LIMIT)


def read_text(path: str, limit: int) -> str:
    """A file that somebody named on the command line. Not one that could block, or has no end."""
    name = one_line(path)
    if not path or "\0" in path:
        raise UsageError(f"{name!r} is no file name; give the path of a text file")
    try:
        data = stores.read_bytes(path, limit + 1)
    except stores.NotRegular:
        what = "a directory; name the files in it" if os.path.isdir(path) else "not a regular file; copy it to one"
        raise UsageError(f"{name}: {what}") from None
    except FileNotFoundError:
        raise UsageError(f"{name}: no such file; check the path") from None
    except OSError as error:
        raise UsageError(f"{name}: {error.strerror}; make it readable, or leave it out") from error
    return decoded(data, name, limit)


def decoded(data: bytes, name: str, limit: int) -> str:
    if len(data) > limit:
        remedy = "shorten it" if limit == PROMPT_LIMIT else "shorten it, or raise --max-file-size"
        raise UsageError(f"{name}: larger than {limit} bytes; {remedy}")
    if b"\0" in data:
        raise UsageError(f"{name}: not text (a NUL at byte {data.index(0)}); name text files only")
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise UsageError(f"{name}: not UTF-8 from byte {error.start} on; convert it first") from error
