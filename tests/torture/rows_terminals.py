"""The lines of the torture list about terminals and worktrees."""

from __future__ import annotations

from tests.torture.row_model import TERMINALS, Line

OF_TERMINALS = (
    Line(
        "in-tmux", TERMINALS,
        "a person started agents in panes of two tmux servers, three of them in one directory",
        "each session names its own pane, and attach goes there",
    ),
    Line(
        "daemon-screens", TERMINALS,
        "people have sessions of an agent's own daemon on screens in tmux: one each, two on one session, none on one",
        "each session names the screens that show it, with terminal, directory and age; attach goes to that pane",
    ),
    Line(
        "forged-tmux", TERMINALS,
        "the tmux variables of an agent name another pane, another server or a plain file",
        "attach goes to the pane that the agent is really in, or says that it has no terminal",
    ),
    Line(
        "send", TERMINALS,
        "a message is sent to an agent that works, asks or sits at its prompt; or whose terminal a shell, an editor or "
        "another program reads; or that has a person's draft in its input line",
        "send types only if the agent alone reads its terminal, and its input line is empty and at its prompt; there "
        "the message arrives exactly once",
    ),
    Line(
        "screen-launch", TERMINALS,
        "launch --interactive starts an agent in tmux; later its runner or the agent is killed, or it fails at once",
        "launch prints the real id, the agent has the caller's environment, and its pane ends with it",
    ),
    Line(
        "prompt-not-taken", TERMINALS,
        "an agent that was launched with a prompt says that it is idle, and has not taken the prompt yet",
        "on a screen it is alive, and wait goes on; a headless run is running, inferred; never idle",
    ),
    Line(
        "tmux-hangs", TERMINALS,
        "a tmux server is suspended and does not answer",
        "agentctl does not wait beyond its limit, and still finds the panes of the other servers",
    ),
    Line(
        "doing", TERMINALS,
        "agents are at a tool, a prompt, a question or at rest; two processes have one session open",
        "each row says what its agent does and since when, by its own store; what no store says is empty",
    ),
    Line(
        "short-ids", TERMINALS,
        "the ids of several sessions begin alike, because they begin with a time or were chosen; only one is listed",
        "what `list` prints leads `status`, and every other command, to that session",
    ),
    Line(
        "worktree-lives", TERMINALS,
        "clean is called for a worktree in which a session lives or may live, also while a launch starts there",
        "clean refuses, also with --force; of clean and launch exactly one wins",
    ),
    Line(
        "worktree-work", TERMINALS,
        "the worktree holds changes, new files, commits, a merge or a mount; clean is killed at any moment",
        "no work is lost, and clean can be repeated",
    ),
    Line(
        "worktree-closed", TERMINALS,
        "something in the worktree cannot be removed",
        "clean refuses before it begins: git still lists the worktree, and all of it is there",
    ),
    Line(
        "worktree-disk-full", TERMINALS,
        "the disk has no room for the worktrees, or room for only some",
        "those that fit run; the others leave nothing behind, and the error says why",
    ),
)  # fmt: skip
