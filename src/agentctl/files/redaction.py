"""Remove secrets from what agentctl stores or shows as evidence, by known patterns of keys.

Prompts, titles and messages are shown as they are: the user asked for them.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

REDACTED = "[redacted]"
# Beginnings that the providers give their keys, so that such tools find them.
KEYS = (
    r"\b(sk-|[sr]k_(?:live|test)_|whsec_|xai-|gsk_|pplx-|r8_|nvapi-|gh[pousr]_|github_pat_|glpat-|glsa_|xox[a-z]-|xapp-|"
    r"AKIA|ASIA|AIza|ya29\.|do[opr]_v1_|hf_|npm_|pypi-|rubygems_|dckr_pat_|shp(?:at|ca|pa|ss)_|lin_api_|hvs\.|sbp_|"
    r"AGE-SECRET-KEY-)[A-Za-z0-9_\-]{8,}"
    r"|\b(SG\.)[A-Za-z0-9_\-]{16,}\.[A-Za-z0-9_\-]{16,}"
    r"|\b(eyJ)[A-Za-z0-9_\-]{10,}\.[A-Za-z0-9_\-.]{10,}"
)
PEM = r"(?s)(-----BEGIN [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----).*?(-----END [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----|\Z)"
AUTHORIZATION = r"(?i)\b(bearer|basic|x-api-key:|api-key:)\s+[A-Za-z0-9_\-.+/=]{8,}"
IN_ADDRESS = r"""(://[^/\s:@]*:)[^/\s'"]+@"""  # up to the last @: a password may have one
# What programs take as a password: the value is no variable of the shell.
VALUE = r"""(?:'(?!\$)[^']+'|"(?!\$)[^"]+"|(?!['"$])[^\s;|&]+)"""
USUAL_VARIABLES = rf"\b(PGPASSWORD|MYSQL_PWD|REDISCLI_AUTH|SSHPASS|LDAP_PASS|RESTIC_PASSWORD|BORG_PASSPHRASE)=({VALUE})"
OPTIONS = (
    rf"\b(curl\b[^\n;|&]*?\s(?:-u|-U|--user|--proxy-user)[ =]?)(?=['\"]?[^\s:'\"$]+:(?!\$))({VALUE})",
    rf"\b(sshpass\s+(?:-\w\s+)*-p\s?)({VALUE})",
    rf"\b((?:mysql|mysqldump|mysqladmin|mariadb)\b[^\n;|&]*?\s-p)(?!\s)({VALUE})",
    rf"\b(redis-cli\b[^\n;|&]*?\s(?:-a|--pass)[ =])({VALUE})",
)
# The names of secrets, at any place in a word. `key` alone is a usual word, and `monkey` another.
NAME = (
    r"(?<![\w.\-])(?:[\w.\-]+[_.\-]KEY|API_?KEY|[\w.\-]*(?:TOKEN|SECRET|PASSWORD|PASSWD|PASSPHRASE|CREDENTIALS?)|"
    r"[\w.\-]*_(?:PWD|PASS))"
)
NAMED = (
    rf"(?i)({NAME}=)({VALUE})",
    rf"""(?i)(["']{NAME}\\?["']\s*:\s*\\?["'])(?!\$)([^"'\\]+)""",
    rf"(?i)(?<![\w\-])(--(?:\w+[-_])*(?:api-?key|token|secret|password|passwd|passphrase|pass)\s+)(?!--|<)({VALUE})",
    r"(?i)\b((?:\w+-)+(?:key|token|secret|password):\s*)([A-Za-z0-9_\-.+/=]{6,})",
    r"(?i)\b(authorization:\s*(?:bearer|basic|token|digest|apikey|key|bot)\s+)([A-Za-z0-9_\-.+/=]{6,})",
    r"""(\bhooks\.slack\.com/\w+/|\bdiscord(?:app)?\.com/api/webhooks/)(?!\$)([^\s'"]{6,})""",
    r"(/bot)(\d{3,}:[A-Za-z0-9_\-]{10,})",  # an address of Telegram
)
ASSIGNED = r"(?is)([\w.\-]*(?:KEY|TOKEN|SECRET|PASSWORD|PASSWD|PASSPHRASE|CREDENTIAL|_PWD|_AUTH)[\w.\-]*=)(.+)"
VARIABLE = (
    r"(?is)(?:(?:[\w.\-]*[_.\-])?(?:API)?KEY|[\w.\-]*(?:TOKEN|SECRET|PASSWORD|PASSWD|PASSPHRASE|CREDENTIALS?)|"
    r"[\w.\-]*_(?:PWD|PASS))=(.+)"
)
SECRET_FLAG = r"(?i)--?(?:\w+[-_])*(?:api-?key|key|token|secret|password|passwd|passphrase|pass|credentials?)"
# Every text that the patterns above can match has one of these. Most texts have none: then nothing is compiled.
SIGNS = (
    "sk- sk_ rk_ whsec_ xai- gsk_ pplx- r8_ nvapi- ghp_ gho_ ghu_ ghs_ ghr_ github_pat_ glpat- glsa_ xox xapp- akia "
    "asia aiza ya29. _v1_ hf_ npm_ pypi- rubygems_ dckr_pat_ shp lin_api_ hvs. sbp_ age-secret-key- sg. eyj -----begin "
    "bearer basic api-key: :// pgpassword= mysql_pwd= redis sshpass ldap_pass= restic_ borg_ curl mysql mariadb "
    "key token secret passw passphrase credential _pwd _pass --pass hooks.slack.com/ /webhooks/ /bot"
).split()
LONGEST_WORD = 4 * 1024  # characters: for people to read, not to run again


def redact_text(text: str) -> str:
    lower = text.casefold()
    if not any(sign in lower for sign in SIGNS):
        return text
    import re

    text = re.sub(PEM, lambda match: match[1] + REDACTED + match[2], text)
    text = re.sub(KEYS, lambda match: (match[1] or match[2] or match[3]) + REDACTED, text)
    text = re.sub(USUAL_VARIABLES, lambda match: f"{match[1]}={REDACTED}", text)
    for option in OPTIONS:
        text = re.sub(option, lambda match: match[1] + REDACTED, text)
    for named in NAMED:
        text = re.sub(named, lambda match: match[0] if REDACTED in match[2] else match[1] + REDACTED, text)
    text = re.sub(AUTHORIZATION, lambda match: f"{match[1]} {REDACTED}", text)
    return re.sub(IN_ADDRESS, lambda match: f"{match[1]}{REDACTED}@", text)


def redact(argv: Sequence[str]) -> list[str]:
    """Return the words of a command line without secrets."""
    import re

    words, hide = [], False
    for word in argv:
        if hide and not word.startswith("--"):  # a value may begin with a hyphen; an option has two
            words.append(REDACTED)
        elif (assigned := re.fullmatch(ASSIGNED, word)) is not None:
            words.append(assigned[1] + REDACTED)
        else:
            words.append(shortened(redact_text(word), LONGEST_WORD))
        hide = re.fullmatch(SECRET_FLAG, word) is not None
    return words


def holds_secret(command: str) -> bool:
    """Does a shell command contain a key? A variable that holds one does not count."""
    import re

    words = [match[1].strip("'\"") for word in command.split() if (match := re.fullmatch(VARIABLE, word))]
    return redact_text(command) != command or any(value and not value.startswith("$") for value in words)


def shortened(text: str, length: int) -> str:
    return text if len(text) <= length else text[:length] + "…"
