"""Which names are those of secrets: of options, variables, keys of JSON, YAML and TOML, and HTTP headers; and which
values are only the name of a variable."""

from __future__ import annotations

import re

# A word of a name that ends so: GITHUB_TOKEN, pgpassword, clientSecret, --auth-token.
ENDINGS = ("token", "secret", "password", "passwd", "passphrase", "passcode", "apikey", "credential", "credentials")
WHOLE = frozenset(("authorization", "bearer", "sshpass", "cookie"))
LAST = frozenset(("key", "pwd", "pass", "auth", "pat"))  # only behind another word: `key` and `pass` are usual words
# Words behind those that make it the name of something else: --token-file, PASSWORD_STDIN, secret_name.
HARMLESS = frozenset(
    "file path dir folder stdin name names env var url uri endpoint type kind length len size limit count counter "
    "budget ttl expiry helper store prompt usage max min window ring command cmd mode policy format scopes scope fd "
    "id ids required enabled disabled location header version rotation expires field".split()
)
KEYS_OF = frozenset(
    "api secret access private auth signing account master encryption deploy service license subscription admin app "
    "client server project storage shared hmac session jwt webhook".split()
)
# Everything in a table of this name counts: agentctl keeps the names of variables, never their values.
TABLES = frozenset(("env", "headers", "httpheaders", "environment", "secrets", "credentials"))
WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
DEFAULT = re.compile(r"\$\{\w+:?[-=+]([^}$]+)\}?")  # ${NAME:-value}: what stands for a variable that is not set
RANDOM_LENGTH = 8


def words_of(name: str) -> list[str]:
    return [word.casefold() for word in WORDS.findall(name)]


def is_secret_name(name: str, *, option: bool = False) -> bool:
    """Return whether what stands behind this name is a secret. `option`: of a command line, on which `--pass X` is one,
    too."""
    words = words_of(name)
    if not words or words[-1] in HARMLESS:
        return False
    if any(word.endswith(ENDINGS) or word in WHOLE for word in words):
        return True
    if words[-1] not in LAST:
        return False
    return len(words) > 1 or name == "KEY" or (option and words[-1] == "pass")


def is_key_of_anything(name: str) -> bool:
    """Return whether only the word `key` makes this a name of a secret, and nothing says of what: --sort-key."""
    words = words_of(name)
    others = words[:-1]
    named = any(word.endswith(ENDINGS) or word in WHOLE or word in KEYS_OF for word in others)
    return words[-1:] == ["key"] and not named


def is_table(name: str) -> bool:
    """Return whether this is the name of a table of variables or headers, in JSON, YAML or TOML."""
    words = words_of(name.rpartition(".")[2])
    return "".join(words) in TABLES


def is_variable(value: str) -> bool:
    """Return whether a shell puts something else in the place of this value, and the value itself tells nothing."""
    bare = value.strip("\\'\"")
    if not bare:
        return True
    return bare.startswith("$") and DEFAULT.search(bare) is None


def looks_random(value: str) -> bool:
    bare = value.strip("\\'\"")
    return len(bare) >= RANDOM_LENGTH and any(map(str.isdigit, bare)) and any(map(str.isalpha, bare))
