"""What is a secret in a command, in the words of a command line and in a text; and what is none."""

from __future__ import annotations

import json
import shlex

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentctl.files.redaction import REDACTED, holds_secret, redact, redact_text
from agentctl.files.secret_names import is_secret_name

S = "s3cretvalue99"
# As a person types them into a shell.
COMMANDS = [
    f"x --secret-key {S}",
    f"x --secret-key={S}",
    f"x --api-key={S}",
    f"x -api-key {S}",
    f"x --aws-secret-access-key {S}",
    f"x --auth-token {S}",
    f"x --client-secret '{S}'",
    f"x --clientSecret {S}",
    f"x --token-value {S}",
    f"x --pass={S}",
    f"curl -H 'Authorization: {S}' h",
    f'curl -H "Authorization: {S}" h',
    f"curl -HAuthorization:{S} h",
    f"curl --header 'Authorization: {S}' h",
    f"curl --header='Authorization: {S}' h",
    f"curl -H 'Proxy-Authorization: Basic {S}' h",
    f"curl -H 'Authorization: ApiKey {S}' h",
    f"curl -H 'X-Auth-Token: {S}' h",
    f"curl -H 'PRIVATE-TOKEN: {S}' h",
    f"curl -H 'Cookie: session={S}' h",
    f"curl -su me:{S} h",
    f"curl -sSfLu me:{S} h",
    f"curl -ume:{S} h",
    f"curl -u 'me:{S}' h",
    f"curl --user=me:{S} h",
    f"curl --proxy-user me:{S} h",
    f"curl -u me:${{P:-{S}}} h",
    f"http -a me:{S} GET h",
    f"PASSWORD=${{Y:-{S}}} x",
    f"PASSWORD=${{Y-{S}}} x",
    f"export TOKEN=${{TOKEN:={S}}}; x",
    f"PASSWORD='{S} and more' x",
    f"DB_PASSWORD={S} OTHER=1 x",
    f"env 'GH_TOKEN={S}' x",
    f"GH_PAT={S} x",
    f"SECRET_KEY_BASE={S} x",
    f"NPM_CONFIG_//registry.example.org/:_authToken={S} x",
    f"SSHPASS={S} sshpass -e ssh h",
    f"sshpass -p{S} ssh h",
    f"mysql -u me -p{S} db",
    f"redis-cli -h h -a {S} ping",
    f"git clone https://me:{S}@h/x.git",
    f"psql postgresql://me:{S}@h/db",
    f"curl 'https://h/?access_token={S}&x=1'",
    f"""claude --mcp-config '{{"mcpServers": {{"x": {{"headers": {{"Authorization": "{S}"}}}}}}}}'""",
    f"""claude --mcp-config '{{"mcpServers": {{"x": {{"env": {{"GITHUB_TOKEN": "{S}"}}}}}}}}'""",
    f"""claude --mcp-config '{{"mcpServers": {{"x": {{"args": ["--token", "{S}"]}}}}}}'""",
    f"""claude --settings '{{"apiKey":"{S}"}}'""",
    f"""claude --mcp-config='{{"a": {{"clientSecret": "{S}"}}}}'""",
    f"""codex -c 'mcp_servers.x.env={{TOKEN = "{S}"}}'""",
    f"""codex -c 'model_providers.x.http_headers={{ "Authorization" = "{S}" }}'""",
    f"""codex -c model_providers.x.experimental_bearer_token='"{S}"'""",
    f"kubectl create secret generic x --from-literal=password={S}",
    f"docker run -e POSTGRES_PASSWORD={S} x",
    f"docker login -u me --password {S}",
]
# What has no secret in it.
HARMLESS = [
    "claude -p 'explain the token bucket' --max-tokens 500",
    "x --max-tokens=500 --token-limit 3 --keyboard us",
    "sort --key 2 --sort-key 3 file",
    "gh auth login --with-token < file",
    "docker login --password-stdin < file",
    "x --token-file /run/secrets/token --secret-name db",
    "curl -H 'Accept: application/json' -H 'Content-Type: text/plain' h",
    "curl -H 'Authorization: Bearer $TOKEN' h",
    'curl -H "Authorization: $AUTH" h',
    "curl -su me:$PW h",
    "curl -su $USER_AND_PASSWORD h",
    "PASSWORD=$OTHER x",
    "PASSWORD=${OTHER} x",
    "PASSWORD=${OTHER:-} x",
    "PASSWORD=${OTHER:-$THIRD} x",
    "PASSWORD=$(pass show x) x",
    "PASSWORD= x",
    "mysql -p db",
    "mkdir -p here && cp -u a:b c",
    "make monkey=1 KEYS=2 keyboard=us",
    "echo 'a basic understanding of the bearer market'",
    "git log --author=me --format=%h",
    """claude --mcp-config '{"mcpServers": {"x": {"command": "npx", "args": ["-y", "server"]}}}'""",
    """codex -c 'model_reasoning_effort="high"' -c model_context_window=200000""",
    """claude --settings '{"env": {"GITHUB_TOKEN": "$GITHUB_TOKEN"}, "max_tokens": 5}'""",
    "echo password: see the wiki; echo the token: whatever",
    "npm run pass && author=me key=value x",
    "ssh -p 2222 me@h 'cd /x; ls'",
    "x --pass-through yes",
]


@pytest.mark.parametrize("command", COMMANDS)
def test_a_hook_with_a_secret_is_refused(command: str) -> None:
    assert holds_secret(command)


@pytest.mark.parametrize("command", COMMANDS)
def test_no_secret_is_left_in_a_text(command: str) -> None:
    assert S not in redact_text(command)


@pytest.mark.parametrize("command", COMMANDS)
def test_no_secret_is_left_in_a_command_line(command: str) -> None:
    words = shlex.split(command)
    shown = redact(words)
    assert len(shown) == len(words)
    assert S not in " ".join(shown)


@pytest.mark.parametrize("command", HARMLESS)
def test_an_ordinary_command_is_kept_as_it_is(command: str) -> None:
    assert redact_text(command) == command
    assert redact(shlex.split(command)) == shlex.split(command)
    assert not holds_secret(command)


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ({"env": {"FOO": "bar", "N": 1, "ON": True}}, {"env": {"FOO": REDACTED, "N": REDACTED, "ON": True}}),
        ({"headers": [{"name": "a", "value": "b"}]}, {"headers": REDACTED}),
        ({"a": [{"apiKey": "x"}, ["--token", "y"]]}, {"a": [{"apiKey": REDACTED}, ["--token", REDACTED]]}),
        ({"password": 12345678}, {"password": REDACTED}),
        ({"url": "https://me:pw@h/"}, {"url": f"https://me:{REDACTED}@h/"}),
        ({"model": "opus", "max_tokens": 5}, {"model": "opus", "max_tokens": 5}),
    ],
)
def test_json_is_walked(value: object, shown: object) -> None:
    (word,) = redact([json.dumps(value)])
    assert json.loads(word) == shown


@pytest.mark.parametrize("text", ["api_key: s3cretvalue99", "x:\n  - token: s3cretvalue99\n  y: 1"])
def test_a_line_of_yaml(text: str) -> None:
    assert S not in redact_text(text)


@pytest.mark.parametrize("word", ["{", "[1,", "{'a': 1}", "[" * 5000, '{"a": NaN}', "{" + '"a":{' * 900])
def test_what_is_no_json_is_only_a_word(word: str) -> None:
    assert redact([word])[0][:10] == word[:10]


@given(
    st.sampled_from(["GITHUB_TOKEN", "client-secret", "dbPassword", "API_KEY", "x.auth_token", "SSHPASS", "MY_PASS"])
)
def test_names_of_secrets(name: str) -> None:
    assert is_secret_name(name)


@pytest.mark.parametrize(
    "name", ["max_tokens", "TOKEN_FILE", "keyboard", "monkey", "author", "passed", "compass", "key", "pass", "", "1"]
)
def test_names_of_other_things(name: str) -> None:
    assert not is_secret_name(name)


@given(st.text(max_size=200))
def test_any_text_and_any_words_can_be_looked_at(text: str) -> None:
    assert isinstance(redact_text(text), str)
    assert len(redact(text.split(" "))) == len(text.split(" "))
    assert redact_text(redact_text(text)) == redact_text(text)
