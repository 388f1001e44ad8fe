"""More patterns of keys, each with what every text has that it can match (in small letters). What is in the group
`secret` is removed."""

from __future__ import annotations

# What stands behind `password:` and is no password: the type of a field, a variable, a placeholder.
NO_PASSWORD = (
    r"(?!(?:str|string|text|bytes|char|varchar|secretstr|any|bool|boolean|int|number|none|null|nil|true|false|required|"
    r"optional|hidden)\b(?![\-\d])|[$<{\[*.&]|\w+\()"
)
# One that no language has as a word; or any, if it is the last word of its line: "password: see the wiki" has none.
PASSWORD = (
    rf"""(?i:{NO_PASSWORD})(?:(?=[A-Za-z]*[^A-Za-z\s,;'".:!?)])[^\s,;'"]{{3,}}|[A-Za-z]{{4,}}(?=[.'"]?\s*(?:$|\n)))"""
)
MORE = (
    ("gocspx-", r"\bGOCSPX-(?P<secret>[A-Za-z0-9_\-]{8,})"),  # Google OAuth
    ("figd_", r"\bfigd_(?P<secret>[A-Za-z0-9_\-]{8,})"),  # Figma
    ("sntrys_", r"\bsntrys_(?P<secret>[A-Za-z0-9_\-+/=]{8,})"),  # Sentry
    ("vercel_", r"\bvercel_(?:blob_rw_)?(?P<secret>[A-Za-z0-9]{16,}\w*)"),
    ("tskey-", r"\btskey-[a-z]+-(?P<secret>[A-Za-z0-9_\-]{8,})"),  # Tailscale
    ("atatt3x", r"\bATATT3x(?P<secret>[A-Za-z0-9_\-+/=]{8,})"),  # Atlassian
    ("accountkey=", r"(?i)\bAccountKey=(?P<secret>[A-Za-z0-9+/]{16,}={0,2})"),  # Azure
    ("passw", rf"(?i)\bpassw(?:or)?d\s*:\s+(?P<secret>{PASSWORD})"),
    ("passphrase", rf"(?i)\bpassphrase\s*:\s+(?P<secret>{PASSWORD})"),
)


def without_more(text: str, redacted: str) -> str:
    import re

    lower = text.casefold()
    for sign, pattern in MORE:
        if sign in lower:
            text = re.sub(pattern, lambda match: match[0].removesuffix(match["secret"]) + redacted, text)
    return text
