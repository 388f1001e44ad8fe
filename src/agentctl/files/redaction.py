"""Remove secrets from what agentctl stores or shows as evidence: by the patterns of known keys, and by the names that
stand before a value (`secret_names.py`), in command lines, shell commands, JSON, YAML, TOML and HTTP headers.

Prompts, titles and messages are shown as they are: the user asked for them.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    import re
    from collections.abc import Callable, Sequence

REDACTED = "[redacted]"
MORE_SIGNS = ("gocspx-", "figd_", "sntrys_", "vercel_", "tskey-", "atatt3x", "accountkey=")  # as SIGNS, of more_keys.py
# Beginnings that the providers give their keys, so that such tools find them.
KEYS = (
    r"\b(sk-|[sr]k_(?:live|test)_|whsec_|xai-|gsk_|pplx-|r8_|nvapi-|gh[pousr]_|github_pat_|glpat-|glsa_|xox[a-z]-|xapp-|"
    r"AKIA|ASIA|AIza|ya29\.|do[opr]_v1_|hf_|npm_|pypi-|rubygems_|dckr_pat_|shp(?:at|ca|pa|ss)_|lin_api_|hvs\.|sbp_|"
    r"AGE-SECRET-KEY-)[A-Za-z0-9_\-]{8,}"
    r"|\b(SG\.)[A-Za-z0-9_\-]{16,}\.[A-Za-z0-9_\-]{16,}"
    r"|\b(eyJ)[A-Za-z0-9_\-]{10,}\.[A-Za-z0-9_\-.]{10,}"
)
PEM = r"(?s)(-----BEGIN [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----).*?(-----END [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----|\Z)"
SCHEME = r"(?i)\b((?:bearer|basic|x-api-key:|api-key:)\s+)([A-Za-z0-9_\-.+/=]{8,})"
IN_ADDRESS = r"""(://[^/\s:@]*:)([^/\s'"]+)(?=@)"""  # up to the last @: a password may have one
# A word of a shell, whatever quotes it has.
WORD = r"""(?:'[^']*'|"[^"]*"|\$\([^)]*\)|(?!['"])[^\s;|&]+)"""
JSON_VALUE = r"""\\*"(?:[^"\\]|\\[^"])*|\\*'[^']*|[^\s,}\]"']+"""
# How the passwords of some programs are given: what is before one, and the password.
CLUSTER = r"-[sSfkLviIgGjJlnNOqRa#0-6]*[uU]"  # curl -su me:x
PROGRAMS = (
    rf"(\bcurl\b[^\n;|&]*?\s(?:{CLUSTER}\s?|--user[ =]|--proxy-user[ =]))(?P<pair>{WORD})",
    rf"(\b(?:https?|xh)\s[^\n;|&]*?-a\s)(?P<pair>{WORD})",
    rf"(\bsshpass\s+(?:-\w\s+)*-p\s?)(?P<value>{WORD})",
    rf"(\b(?:mysql|mysqldump|mysqladmin|mariadb)\b[^\n;|&]*?\s-p)(?!\s)(?P<value>{WORD})",
    rf"(\bredis-cli\b[^\n;|&]*?\s(?:-a|--pass)[ =])(?P<value>{WORD})",
)
ADDRESSES = (
    r"""(\bhooks\.slack\.com/\w+/|\bdiscord(?:app)?\.com/api/webhooks/)(?P<value>[^\s'"]{6,})""",
    r"(/bot)(?P<value>\d{3,}:[A-Za-z0-9_\-]{10,})",  # of Telegram
)
# A name, and what stands between it and its value: NAME=x, "name": x, name = "x".
ASSIGNING = r"""(?P<name>[A-Za-z_][\w.\-]*)(?:(?P<equals>=|\s=\s(?=["']))|(?P<colon>\\*["']\s*[:=]\s*))"""
OPTION = r"""(?<![\w\-])--?(?P<name>[A-Za-z][\w.\-]+)(?:\s+|=|\\?["'],\s*)(?!--|<)"""
# With a hyphen it is a header; a line with a name and one word is YAML.
HEADER = (
    r"(?i)(?:\b|(?<=-H))((?P<name>(?:\w+-)+\w+|authorization|cookie):\s*(?:[a-z]+\s+)?)"
    r"(?P<value>\$?[^\s'\"]{6,})(?P<end>['\"]?)"
)
YAML = r"(?m)^(\s*(?:- )?(?P<name>[A-Za-z_][\w.\-]*):\s+)(?P<value>\S+)$"
# The same of the words of a command line.
NAMED_WORD = r"(?s)(--?)?([A-Za-z_][\w.\-]*)(=)(.*)"
FLAG = r"--?([A-Za-z][\w.\-]+)"
HEADER_WORD = r"(?s)(-H\s*|--header=)?([\w\-]+)(:\s*(?:[A-Za-z]+\s+)?)(.+)"
HEADER_FLAGS = ("-H", "--header", "-header")
# Every text that the patterns above can match has one of these. Most texts have none: then nothing is compiled.
SIGNS = (
    "sk- sk_ rk_ whsec_ xai- gsk_ pplx- r8_ nvapi- ghp_ gho_ ghu_ ghs_ ghr_ github_pat_ glpat- glsa_ xox xapp- akia "
    "asia aiza ya29. _v1_ hf_ npm_ pypi- rubygems_ dckr_pat_ shp lin_api_ hvs. sbp_ age-secret-key- sg. eyj -----begin "
    "bearer basic :// sshpass curl http mysql mariadb redis-cli key token secret passw passphrase passcode credential "
    "pwd= pass= --pass -pass _pass _pwd auth _pat cookie hooks.slack.com/ /webhooks/ /bot"
).split()
LONGEST_WORD = 4 * 1024  # characters: for people to read, not to run again
DEEPEST = 20  # of the JSON in a word


# Texts


def redact_text(text: str) -> str:
    lower = text.casefold()
    if not any(sign in lower for sign in SIGNS) and not any(sign in lower for sign in MORE_SIGNS):
        return text
    import re

    from agentctl.files.more_keys import without_more

    text = re.sub(PEM, lambda match: match[1] + REDACTED + match[2], text)
    text = without_more(text, REDACTED)
    text = re.sub(KEYS, lambda match: (match[1] or match[2] or match[3]) + REDACTED, text)
    for pattern in (*PROGRAMS, *ADDRESSES):
        text = re.sub(pattern, hidden, text)
    text = without_values(text, ASSIGNING, end_of_value)
    text = without_values(text, OPTION, end_of_option)
    text = re.sub(HEADER, of_header, text)
    text = re.sub(YAML, of_yaml, text)
    text = re.sub(SCHEME, lambda match: match[0] if not is_coded(match[2]) else match[1] + REDACTED, text)
    return re.sub(IN_ADDRESS, lambda match: match[0] if is_only_named(match[2]) else match[1] + REDACTED, text)


def is_only_named(value: str) -> bool:
    from agentctl.files.secret_names import is_variable

    return is_variable(value) or REDACTED in value


def is_coded(value: str) -> bool:
    """Return whether this is no word of a language: "basic understanding" has no secret."""
    if REDACTED in value or value.startswith("$"):
        return False
    return not value.isalpha() or not (value.islower() or value.istitle() or value.isupper())


def hidden(match: re.Match[str]) -> str:
    """Replace a value, or what stands behind the colon of a pair."""
    groups = match.groupdict()
    if "pair" in groups:
        user, colon, value = groups["pair"].strip("'\"").partition(":")
        if not colon or user.startswith("$") or is_only_named(value):
            return match[0]
    elif is_only_named(groups["value"]):
        return match[0]
    return match[1] + REDACTED


def without_values(text: str, pattern: str, end_of: Callable[[str, re.Match[str]], int]) -> str:
    """Hide each value that stands behind a match of this pattern and ends at `end_of` it. What is no secret is looked
    through: its value may have another name in it."""
    import re

    parts, at = [], 0
    for match in re.finditer(pattern, text):
        end = end_of(text, match) if match.start() >= at else at
        if end > match.end() and not is_only_named(text[match.end() : end]):
            parts += [text[at : match.end()], REDACTED]
            at = end
    return "".join((*parts, text[at:]))


def end_of_value(text: str, match: re.Match[str]) -> int:
    """Return where the value ends that is assigned here; where it begins, if that is no secret. Quotes around the whole
    assignment end it, too."""
    import re

    from agentctl.files.secret_names import is_secret_name

    if not is_secret_name(match["name"]):
        return match.end()
    begin, before = match.end(), text[match.start() - 1 : match.start()]
    if match["colon"]:
        value = re.compile(JSON_VALUE).match(text, begin)
        return value.end() if value is not None else begin
    if before in ("'", '"') and text[begin : begin + 1] not in ("'", '"'):
        end = text.find(before, begin)
        return end if end >= 0 else len(text)
    value = re.compile(r"(?!['\"])[^\s;|&'\"]+" if "?" in text[:begin].rpartition(" ")[2] else WORD).match(text, begin)
    return value.end() if value is not None else begin


def end_of_option(text: str, match: re.Match[str]) -> int:
    """Return where the value of an option ends; where it begins, if that is no secret."""
    import re

    from agentctl.files.secret_names import is_secret_name

    value = re.compile(WORD).match(text, match.end())
    if value is None or not is_secret_name(match["name"], option=True) or is_usual(match["name"], value[0]):
        return match.end()
    return value.end()


def is_usual(name: str, value: str) -> bool:
    """Return whether this is but the key of something, as in `sort --sort-key 2`."""
    from agentctl.files.secret_names import is_key_of_anything, looks_random

    return is_key_of_anything(name) and not looks_random(value)


def of_header(match: re.Match[str]) -> str:
    from agentctl.files.secret_names import is_secret_name

    value = match["value"]
    if not is_secret_name(match["name"]) or is_only_named(value):
        return match[0]
    coded = bool(match["end"]) or any(map(str.isdigit, value)) or is_coded(value)
    return match[1] + REDACTED + match["end"] if coded else match[0]


def of_yaml(match: re.Match[str]) -> str:
    from agentctl.files.secret_names import is_secret_name, looks_random

    if not is_secret_name(match["name"]) or is_only_named(match["value"]) or not looks_random(match["value"]):
        return match[0]
    return match[1] + REDACTED


# The words of a command line


def redact(argv: Sequence[str]) -> list[str]:
    """Return the words of a command line without secrets."""
    words: list[str] = []
    program = ""
    for before, word in zip(("", *argv), argv, strict=False):
        words.append(shortened(redacted_word(word, before, program), LONGEST_WORD))
        if (name := word.rpartition("/")[2]) in PASSWORD_OPTIONS or word.endswith(("|", ";", "&")):
            program = name
    return words


# Of these programs: the options whose next word, or whose own rest, is a password or has one.
PASSWORD_OPTIONS = {
    "curl": rf"{CLUSTER}|--user|--proxy-user",
    "http": "-a|--auth",
    "https": "-a|--auth",
    "xh": "-a|--auth",
    "sshpass": "-p",
    "mysql": "-p(?=.)",
    "mysqldump": "-p(?=.)",
    "mysqladmin": "-p(?=.)",
    "mariadb": "-p(?=.)",
    "redis-cli": "-a|--pass",
}


PAIRS = ("curl", "http", "https", "xh")  # these take user:password


def redacted_word(word: str, before: str, program: str) -> str:
    for rule in (by_option, by_header, by_program, by_name, by_json):
        found = rule(word, before, program)
        if found is not None:
            return found
    return redact_text(word)


def by_option(word: str, before: str, program: str) -> str | None:
    """Hide the value of an option: it may begin with a hyphen; another option has two."""
    import re

    from agentctl.files.secret_names import is_secret_name

    flag = re.fullmatch(FLAG, before)
    if flag is None or word.startswith(("--", "<")) or is_only_named(word) or is_usual(flag[1], word):
        return None
    return REDACTED if is_secret_name(flag[1], option=True) or flag[1].casefold() == "key" else None


def by_header(word: str, before: str, program: str) -> str | None:
    import re

    from agentctl.files.secret_names import is_secret_name

    match = re.fullmatch(HEADER_WORD, word)
    if match is None or (match[1] is None and before not in HEADER_FLAGS):
        return None
    if not is_secret_name(match[2]) or is_only_named(match[4]):
        return None
    return f"{match[1] or ''}{match[2]}{match[3]}{REDACTED}"


def by_program(word: str, before: str, program: str) -> str | None:
    """Hide the password of a program that takes it with an option of another name."""
    import re

    options = PASSWORD_OPTIONS.get(program)
    if options is None:
        return None
    joined = re.match(rf"(?:{options})=?", word)
    begin = word[: joined.end()] if joined is not None and not re.fullmatch(options, word) else ""
    if not begin and ("(?=" in options or not re.fullmatch(options, before)):
        return None
    user, colon, value = word.removeprefix(begin).rpartition(":") if program in PAIRS else ("", "", word[len(begin) :])
    if is_only_named(value) or (program in PAIRS and not colon):
        return None
    return f"{begin}{user}{colon}{REDACTED}"


def by_name(word: str, before: str, program: str) -> str | None:
    """Hide what is assigned: --api-key=X, NAME=X, model.token=X, and all of a table of variables."""
    import re

    from agentctl.files.secret_names import is_secret_name, is_table

    match = re.fullmatch(NAMED_WORD, word)
    if match is None or is_only_named(match[4]):
        return None
    if is_secret_name(match[2], option=bool(match[1])) or (is_table(match[2]) and match[4].lstrip().startswith("{")):
        return f"{match[1] or ''}{match[2]}={REDACTED}"
    inner = by_name(match[4], "", program) or by_json(match[4], "", program)  # --env=NAME=X, --mcp-config={...}
    return f"{match[1] or ''}{match[2]}={inner}" if inner is not None else None


def by_json(word: str, before: str, program: str) -> str | None:
    """Hide what secrets are in JSON, whatever its form is."""
    if not word.lstrip().startswith(("{", "[")):
        return None
    import json

    try:
        value = json.loads(word)
        shown = without_secrets(value, 0)
        return json.dumps(shown) if shown != value else None
    except (ValueError, RecursionError):
        return None


def without_secrets(value: object, depth: int) -> object:
    from agentctl.files.secret_names import is_secret_name, is_table

    if depth > DEEPEST:
        return REDACTED
    if isinstance(value, dict):
        return {
            name: all_hidden(one) if is_secret_name(name) or is_table(name) else without_secrets(one, depth + 1)
            for name, one in value.items()
        }
    if isinstance(value, list) and all(isinstance(one, str) for one in value):
        return redact(value)
    if isinstance(value, list):
        return [without_secrets(one, depth + 1) for one in value]
    return redact_text(value) if isinstance(value, str) else value


def all_hidden(value: object) -> object:
    """Return a table with its names; hide everything else. A variable tells nothing, nor do true and false."""
    if isinstance(value, dict):
        return {name: all_hidden(one) for name, one in value.items()}
    if value is None or isinstance(value, bool) or (isinstance(value, str) and is_only_named(value)):
        return value
    return REDACTED


# Hooks


def holds_secret(command: str) -> bool:
    """Does a shell command contain a key? A variable that holds one does not count."""
    return redact_text(command) != command or has_secret_word(command)


def has_secret_word(command: str) -> bool:
    """Return whether a word of a shell command changes if it is taken for a command line."""
    import shlex

    try:
        words = shlex.split(command)
    except ValueError:
        return False  # quotes that do not match: the shell will not run it either
    return redact(words) != [shortened(word, LONGEST_WORD) for word in words]


def shortened(text: str, length: int) -> str:
    return text if len(text) <= length else text[:length] + "…"
