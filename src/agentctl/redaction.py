"""Secrets in what we write down or show as evidence: known patterns of keys are taken out.

The person's own words (prompts, titles, messages) are shown as they are: those are what was asked for.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

REDACTED = "[redacted]"
KEYS = (
    r"\b(sk-|gh[pousr]_|github_pat_|glpat-|xox[a-z]-|AKIA|ASIA|AIza|hf_|npm_|pypi-|ya29\.)[A-Za-z0-9_\-]{8,}"
    r"|\b(eyJ)[A-Za-z0-9_\-]{10,}\.[A-Za-z0-9_\-.]{10,}"
)
AUTHORIZATION = r"(?i)\b(bearer|basic|x-api-key:|api-key:)\s+[A-Za-z0-9_\-.+/=]{8,}"
IN_ADDRESS = r"(://[^/\s:@]*:)[^/\s@]+@"
ASSIGNED = r"(?is)([\w.\-]*(?:KEY|TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIAL)[\w.\-]*=)(.+)"
VARIABLE = r"(?is)(?:[\w.\-]*[_.\-])?(?:API)?(?:KEY|TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIALS?)=(.+)"
SECRET_FLAG = r"(?i)--?(?:\w+[-_])*(?:api-?key|key|token|secret|password|passwd|credentials?)"
# One of these is in every text that the patterns above could match: most texts are not looked at further, and then
# nothing is compiled.
SIGNS = (
    "sk- ghp_ gho_ ghu_ ghs_ ghr_ github_pat_ glpat- xox akia asia aiza hf_ npm_ pypi- ya29. eyj "
    "bearer basic api-key: ://"
).split()
WORD_KEPT = 4 * 1024  # characters: to be shown to people, not to be run again


def redact_text(text: str) -> str:
    lower = text.casefold()
    if not any(sign in lower for sign in SIGNS):
        return text
    import re

    text = re.sub(KEYS, lambda match: (match[1] or match[2]) + REDACTED, text)
    text = re.sub(AUTHORIZATION, lambda match: f"{match[1]} {REDACTED}", text)
    return re.sub(IN_ADDRESS, lambda match: f"{match[1]}{REDACTED}@", text)


def redact(argv: Sequence[str]) -> list[str]:
    """The words of a command line."""
    import re

    found, hide = [], False
    for word in argv:
        if hide and not word.startswith("-"):
            found.append(REDACTED)
        elif (assigned := re.fullmatch(ASSIGNED, word)) is not None:
            found.append(assigned[1] + REDACTED)
        else:
            found.append(shortened(redact_text(word), WORD_KEPT))
        hide = re.fullmatch(SECRET_FLAG, word) is not None
    return found


def holds_secret(command: str) -> bool:
    """Is there a key in a person's shell command? One that a variable stands for is none."""
    import re

    words = [match[1].strip("'\"") for word in command.split() if (match := re.fullmatch(VARIABLE, word))]
    return redact_text(command) != command or any(value and not value.startswith("$") for value in words)


def shortened(text: str, length: int) -> str:
    return text if len(text) <= length else text[:length] + "…"
