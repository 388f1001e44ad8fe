"""Keys of providers that are known by their beginning, and a password in a sentence."""

from __future__ import annotations

import pytest

from agentctl.files.more_keys import MORE
from agentctl.files.redaction import MORE_SIGNS, REDACTED, SIGNS, holds_secret, redact, redact_text

RANDOM = "aB3dE5fG7hJ9kL1mN2pQ"


@pytest.mark.parametrize(
    ("text", "secret"),
    [
        (f"use GOCSPX-{RANDOM} here", RANDOM),
        (f"figd_{RANDOM}", RANDOM),
        (f"sntrys_{RANDOM}_x/y=", f"{RANDOM}_x/y="),
        (f"vercel_{RANDOM}", RANDOM),
        (f"vercel_blob_rw_{RANDOM}_more", f"{RANDOM}_more"),
        (f"tskey-auth-{RANDOM}-CNTRL", f"{RANDOM}-CNTRL"),
        (f"tskey-client-{RANDOM}", RANDOM),
        (f"ATATT3x{RANDOM}=1F", f"{RANDOM}=1F"),
        (f"AccountName=me;AccountKey={RANDOM}{RANDOM}==;Endpoint=x", f"{RANDOM}=="),
        ("log in with password: hunter2, please", "hunter2"),
        ("Password: swordfish", "swordfish"),
        ("passwd : correct-horse", "correct-horse"),
        ("passphrase: no-sesame", "no-sesame"),
    ],
)
def test_they_are_removed(text: str, secret: str) -> None:
    found = redact_text(text)
    assert secret not in found and REDACTED in found
    assert redact(["claude", text])[1] == found
    assert redact_text(found) == found  # once is enough
    assert holds_secret(f"echo '{text}'")


@pytest.mark.parametrize(
    "text",
    [
        "vercel_project_id and vercel_deployments_of_today",
        "class User: password: str",
        "password: string, required",
        "set password: $PASSWORD",
        "password: <yours>",
        "password: get_password()",
        "the field password: is required",
        "echo password: see the wiki; echo the token: whatever",
        "figd_ and tskey-auth- are beginnings",
        "AccountKey= is missing",
    ],
)
def test_and_nothing_else(text: str) -> None:
    assert redact_text(text) == text
    assert not holds_secret(text)


def test_every_pattern_is_looked_for() -> None:
    assert {sign for sign, _ in MORE} <= {*SIGNS, *MORE_SIGNS}


def test_the_password_is_removed_wherever_it_stands_before() -> None:
    """Also if the same text stands before it."""
    assert redact_text("hunter2 password: hunter2") == f"hunter2 password: {REDACTED}"
