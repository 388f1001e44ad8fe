"""Builds the text that an agent gets: the issue, the specification and the files that go with a prompt, in that order,
and the prompt itself last.

Each quoted text stands between a first line that names it and an end line. The end line has a tag that does not occur
in the text, and the first line announces that tag. So no file and no issue can fake its own end and go on as if the
person had written the rest. The same input always gives the same text.
"""

from __future__ import annotations

import os
import sys

from agentctl.errors import UsageError
from agentctl.files import bounded
from agentctl.launch.issue import Issue, fetch_issue

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
    """Return the whole prompt. Paths are the caller's; the prompt names them as the agent sees them from `cwd`. A
    prompt without files, specification and issue stays as it is."""
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
    """Return a tag that does not occur in the content. It is a hash of the content, so nobody can foresee it; if the
    content has it all the same, the next hash is taken."""
    from hashlib import sha256
    from itertools import count

    data = content.encode("utf-8", "surrogatepass")
    tags = (sha256(data + b"%d" % number).hexdigest()[:TAG_LENGTH] for number in count())
    return next(tag for tag in tags if tag.encode() not in data)


def one_line(text: str) -> str:
    """Return a name or a title as one line, so that it cannot add lines."""
    text = text.encode("utf-8", "backslashreplace").decode()
    return "".join(char if char.isprintable() else " " for char in text).strip()


def shown(path: str, cwd: str) -> str:
    """Return a path as the agent sees it: relative if it is below the agent's directory, by name or behind links."""
    for file, folder in ((os.path.abspath(path), cwd), (bounded.real_path(path), bounded.real_path(cwd))):
        if file.startswith(folder.rstrip("/") + "/"):
            return one_line(os.path.relpath(file, folder))
    return one_line(os.path.abspath(path))


def checked(text: str) -> str:
    """Return the text if an agent can take it. Raises UsageError: no argument and no store takes a NUL, and all expect
    UTF-8."""
    if not text.strip():
        raise UsageError("the prompt is empty; say what the agent should do")
    if "\0" in text:
        raise UsageError(f"the prompt has a NUL at character {text.index(chr(0))}; take it out")
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise UsageError(f"the prompt is not UTF-8 from character {error.start} on; convert it first") from error
    return text


# Reading


def given(prompt: str | None, prompt_file: str | None = None) -> str | None:
    """Return the prompt: from the argument, from the file, or from stdin if either is `-`; None if there is none."""
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
    """Return the text of a file that a person named. Raises UsageError, also for a file that could block or has no
    end."""
    name = one_line(path)
    if not path or "\0" in path:
        raise UsageError(f"{name!r} is not a file name; give the path of a text file")
    try:
        data = bounded.read_bytes(path, limit + 1)
    except bounded.NotRegular:
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
