"""Whoever catches an OSError has a reason for not telling it: one list, which a new handler fails until it is in it."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

import pytest

from tests.test_layout import PACKAGE, TREES, label, place

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

# They read files and the kernel: what they could not read is in what they return. The demo agent is another program.
MAY_CATCH = ("files", "kernel", "demo_agent")
# What says "could not look". FileNotFoundError alone does not: bounded.py raises it only for what is absent.
CAUGHT = {
    "OSError",
    "IOError",
    "EnvironmentError",
    "PermissionError",
    "NotADirectoryError",
    "Exception",
    "BaseException",
}

REASONS = {
    "told": "it becomes a gap, a problem, or an error that the caller gets",
    "told elsewhere": "whoever reads the same path for its content tells it",
    "cautious": "what is returned can only make an answer less firm, or keep what would be removed",
    "cache": "a cache: without it the same answer takes longer",
    "detail": "it hides only what decides nothing: an exit code, a line of output, a version, a width",
    "write": "nothing is read: something could not be written, removed or set, and that is harmless or seen later",
    "not ours": "a file in the place of a folder that agentctl makes: it holds nothing of ours",
    "not read": "no file is read: a time, a name or a socket",
}

# file:function -> the reason of each handler in it, in their order.
HANDLERS: dict[str, list[str]] = {
    "__main__.py:main": ["told"],
    "agents/claude_code/asking.py:read_calls": ["told"],
    "agents/claude_code/cleared.py:beginning_of": ["cautious"],
    "agents/codex/asking.py:read_call": ["told"],
    "agents/claude_code/cleared.py:has_ended_orderly": ["cautious"],
    "agents/claude_code/cleared.py:typed_at_screens": ["told"],
    "agents/claude_code/cleared.py:typed_through_stdin": ["told elsewhere"],
    "agents/claude_code/control.py:mode_of": ["detail"],
    "agents/claude_code/control.py:registration": ["cautious"],
    "agents/claude_code/control.py:background_job": ["cautious"],
    "agents/claude_code/files.py:written_at": ["cautious"],
    "agents/claude_code/files.py:pid_domain": ["cautious", "cautious"],
    "agents/claude_code/projects.py:Projects._named": ["told elsewhere"],
    "agents/claude_code/projects.py:is_file": ["told elsewhere"],
    "agents/claude_code/store.py:Store.survey": ["told elsewhere"],
    "agents/claude_code/store.py:Store._read_record": ["told"],
    "agents/opencode/nameless.py:has_no_name": ["cautious"],
    "live/log.py:Log._is_there": ["cautious"],
    "live/log.py:Log._add": ["told"],
    "live/log.py:Log._failed": ["told"],
    "live/log.py:Log._new_segment": ["told"],
    "live/log.py:size_of": ["write"],
    "live/log.py:changed_at": ["write"],
    "live/log.py:remove": ["write"],
    "cli/events_since.py:connected": ["told"],
    "cli/events_since.py:entries": ["told"],
    "server/control.py:find": ["told"],
    "server/control.py:last_word": ["detail"],
    "server/own_log.py:OwnLog.__call__": ["write"],
    "server/peer.py:marker_of": ["cautious"],
    "server/peer.py:protocol_for.Checked.connection_made": ["told"],
    "server/place.py:is_private": ["cautious"],
    "server/place.py:read_identity": ["cautious"],
    "server/place.py:remove_own": ["write"],
    "server/place.py:state_of": ["cautious"],
    "server/recorder.py:Recorder._run": ["told"],
    "query/folders.py:read": ["cache"],
    "query/folders.py:write": ["write"],
    "query/roots.py:device_above": ["cautious"],
    "agents/claude_code/store.py:last_record": ["cautious"],
    "agents/codex/control.py:sandbox_of": ["detail"],
    "agents/codex/rollout.py:days_of": ["not read"],
    "agents/codex/rollout.py:ended_at": ["cautious"],
    "agents/codex/store.py:Store.survey": ["told"],
    "agents/codex/open_screens.py:written_at": ["cautious"],
    "agents/codex/open_screens.py:is_of_a_screen": ["cautious"],
    "agents/codex/store.py:Store._read_record": ["told"],
    "agents/codex/store.py:Store._name_of": ["told"],
    "agents/codex/store.py:Store._parent": ["told"],
    "agents/codex/adapter.py:is_empty": ["told elsewhere"],
    "agents/demo/control.py:has_mailbox": ["cautious"],
    "agents/demo/store.py:Store.record": ["told"],
    "agents/opencode/api.py:wants_login": ["told elsewhere"],
    "agents/opencode/control.py:agent_of": ["detail"],
    "agents/opencode/screen.py:is_whole_project": ["cautious"],
    "agents/opencode/log.py:Tail._read": ["told elsewhere"],
    "agents/opencode/store.py:Store._hints_of": ["told"],
    "agents/opencode/store.py:Store._read_trails": ["told"],
    "agents/opencode/usage.py:stamped": ["told"],
    "agents/opencode/usage.py:status_of": ["told elsewhere"],
    "agents/usage_base.py:transcripts": ["told", "told", "told"],
    "agents/usage_base.py:note_unless_absent": ["told"],
    "cli/__init__.py:run": ["told", "told"],
    "cli/__init__.py:is_written": ["told elsewhere"],
    "cli/agents.py:version_of": ["detail"],
    "cli/launch_options.py:put": ["told"],
    "cli/width.py:known_width": ["detail"],
    "config.py:read": ["told"],
    "fast/exit.py:exit": ["write"],
    "fast/finder.py:Finder.find_spec": ["cache"],
    "fast/finder.py:Loader.get_code": ["cache"],
    "launch/await_session.py:written_by": ["cautious"],
    "launch/await_session.py:last_lines": ["detail"],
    "launch/group.py:Launching._beginning.run": ["told"],
    "launch/program.py:wrapper_in": ["cautious"],
    "launch/runner.py:let_go_of_the_launcher": ["write"],
    "launch/runner.py:become_parent": ["write"],
    "launch/runner.py:open_output": ["write"],
    "launch/runner.py:remove": ["write"],
    "launch/runner.py:report": ["write"],
    "launch/runner.py:become_agent": ["told"],
    "launch/runner.py:reap": ["detail"],
    "launch/runner.py:append": ["write"],
    "launch/runner.py:run_command": ["write", "write", "write"],
    "launch/spawn.py:discard": ["write"],
    "launch/spawn.py:remove": ["write"],
    "launches/groups.py:first_line": ["cautious"],
    "launches/groups.py:here": ["cautious"],
    "launches/hooks.py:standing": ["detail"],
    "launches/hooks.py:open_log": ["write", "write"],
    "launches/hooks.py:last_lines": ["detail"],
    "launches/hooks.py:note": ["write"],
    "launches/hooks.py:results": ["detail"],
    "launches/index.py:Index.find": ["cache"],
    "launches/index.py:Index.stamps": ["cache"],
    "kernel/open_files.py:used_by": ["detail"],
    "kernel/open_files.py:mapped": ["detail"],
    "launches/records.py:names": ["told"],
    "launches/records.py:unless_absent": ["told"],
    "launches/records.py:read_record": ["not ours", "told"],
    "launches/records.py:note_once": ["write"],
    "launches/records.py:noted_session": ["detail"],
    "launches/records.py:exits_in": ["detail"],
    "launches/retention.py:is_due": ["write"],
    "launches/retention.py:note_sweep": ["write"],
    "launches/retention.py:sweep": ["told elsewhere"],
    "launches/retention.py:last_written": ["cautious"],
    "launches/retention.py:is_gone": ["not ours", "cautious"],
    "launches/retention.py:is_in_use": ["not ours", "cautious", "cautious"],
    "launches/retention.py:take_away": ["write"],
    "launches/retention.py:remove_tree": ["write"],
    "launches/retention.py:trim": ["write"],
    "launches/retention.py:punch": ["write"],
    "query/attribution.py:folder_opened": ["told elsewhere"],
    "query/attribution.py:printed_in": ["told"],
    "query/present.py:clock": ["not read"],
    "query/remembered.py:read_list": ["told"],
    "query/remembered.py:remember": ["told"],
    "query/remembered.py:take_over": ["write"],
    "query/roots.py:identity": ["cautious"],
    "query/store_reader.py:stamp_of": ["told elsewhere"],
    "query/strangers.py:may_change": ["cautious"],
    "query/strangers.py:package_of": ["cautious"],
    "send.py:mark_of": ["cautious"],
    "send.py:prompts_since": ["cautious"],
    "stop/terminate.py:Ending._send": ["told"],
    "terminal/tmux.py:sockets": ["detail"],
    "terminal/tmux.py:identity_of": ["cautious"],
    "terminal/tmux.py:prove_own": ["not ours", "told"],
    "terminal/server.py:listens": ["cautious"],
    "terminal/server.py:is_bound": ["cautious"],
    "usage/db.py:opened": ["cache"],
    "usage/db.py:remove": ["write"],
    "usage/query.py:count_portion.run": ["told"],
    "workspace/commits.py:in_own_reflog": ["told"],
    "workspace/contents.py:changed_files": ["told"],
    "workspace/inspect.py:made_at": ["detail"],
    "workspace/inspect.py:with_losses": ["told"],
    "workspace/locks.py:real_directory": ["told"],
    "workspace/merging.py:put_back": ["told"],
    "workspace/locks.py:stored": ["told"],
    "workspace/locks.py:sweep": ["write"],
    "workspace/locks.py:read_file": ["told"],
    "workspace/unsaved.py:entries_in": ["told"],
    "agents/jsonl.py:directories": ["told"],
    "stop/pipes.py:ends_of": ["detail"],
    "workspace/marks.py:set_mark": ["write"],
    "workspace/marks.py:is_ours": ["cautious"],
    "workspace/special_files.py:special_files": ["detail"],
    "workspace/special_files.py:is_special": ["detail"],
    "kernel/open_files.py:bound": ["detail"],
    "kernel/places.py:made": ["detail", "detail"],
    "workspace/special_files.py:walk": ["detail"],
    "workspace/worktree.py:common_of": ["cautious"],
    "workspace/worktree.py:admin_folder": ["cautious", "cautious"],
    "workspace/worktree.py:why_foreign": ["told"],
}


def handlers(tree: ast.AST, inside: str = "") -> Iterator[tuple[str, ast.ExceptHandler]]:
    """Yield the handlers that can swallow an OSError, each with the function that it is in."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.ExceptHandler) and catches(node) and not isinstance(node.body[-1], ast.Raise):
            yield inside, node
        named = isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef))
        name = node.name if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)) else ""
        yield from handlers(node, ".".join(filter(None, (inside, name))) if named else inside)


def catches(handler: ast.ExceptHandler) -> bool:
    kinds = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
    return any(kind is None or ast.unparse(kind).split(".")[-1] in CAUGHT for kind in kinds)


def found_in(path: Path) -> dict[str, int]:
    counts: dict[str, int] = {}
    for function, _ in handlers(TREES[path]):
        counts[f"{label(path)}:{function}"] = counts.get(f"{label(path)}:{function}", 0) + 1
    return counts


@pytest.mark.parametrize("path", [path for path in TREES if place(path) not in MAY_CATCH], ids=label)
def test_whoever_catches_an_oserror_has_a_named_reason(path: Path) -> None:
    named = {place: len(reasons) for place, reasons in HANDLERS.items() if place.split(":")[0] == label(path)}
    assert found_in(path) == named, (
        "an `except` that swallows an OSError can turn 'could not look' into 'nothing there': tell it (Reader.note), "
        "or add it to HANDLERS in tests/test_gaps.py with its reason"
    )


def test_the_list_names_only_what_is_there() -> None:
    files = {label(path) for path in TREES}
    assert {place for place in HANDLERS if place.split(":")[0] not in files} == set()
    assert {reason for reasons in HANDLERS.values() for reason in reasons} <= set(REASONS)
    assert PACKAGE.is_dir()


@pytest.mark.parametrize(
    ("code", "count"),
    [
        ("try: x\nexcept OSError: pass", 1),
        ("try: x\nexcept (ValueError, OSError): pass", 1),
        ("try: x\nexcept Exception: pass", 1),
        ("try: x\nexcept: pass", 1),
        ("try: x\nexcept PermissionError: y", 1),
        ("try: x\nexcept FileNotFoundError: pass", 0),
        ("try: x\nexcept ValueError: pass", 0),
        ("try: x\nexcept OSError as e: raise Told() from e", 0),
        ("def f():\n try: x\n except OSError:\n  try: y\n  except OSError: pass", 2),
    ],
)
def test_what_counts_as_a_handler(code: str, count: int) -> None:
    assert len(list(handlers(ast.parse(code)))) == count
