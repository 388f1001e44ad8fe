"""The torture list. Each line names one way in which session tools lie: what happens, what must be true, and the public
failure that it comes from. Every case of the suite has a line here; a line without a case is in open_rows.py."""

from __future__ import annotations

from tests.torture.row_model import ACTING, MACHINE, SECTIONS, STATUS, TS, Line
from tests.torture.rows_terminals import OF_TERMINALS

__all__ = ["ROWS", "SECTIONS", "Line"]

ROWS = (
    Line(
        "unflushed", STATUS,
        "an agent runs for a long time and has not written a transcript yet",
        "it is alive, by its process and its own status file; our own headless launch is running, inferred; stop works",
        f"{TS} shows no session, or `stopped` after its own timer runs out, and cannot stop the agent",
    ),
    Line(
        "unflushed-two", STATUS,
        "two agents without a transcript run in one directory",
        "both are alive, each with its own pid",
        f"{TS} shows one of them and calls the other `stopped` for good",
    ),
    Line(
        "wrapper-exit", STATUS,
        "the wrapper that launched the agent exits; its detached child works on",
        "the session is running, with the child's pid",
        f"{TS} says `stopped` and lets a second agent into the directory",
    ),
    Line(
        "wrapper-killed", STATUS,
        "the wrapper is killed with SIGKILL; its native child lives",
        "the session is running",
        f"{TS} says `stopped`, and its stop finds no such session",
    ),
    Line(
        "store-hangs", STATUS,
        "one agent's store blocks (a FIFO, a dead mount, a lock) or cannot be read",
        "the other agents' sessions are listed within 2 s; the blocked store is a problem and its live processes are "
        "unattached",
        f"{TS} drops the sessions without a warning and exits 0; its `status` gave no answer in 70 s",
    ),
    Line(
        "store-missing", STATUS,
        "a store that the configuration names, or in which a live agent worked before, is not there",
        "it is a problem in every answer, never an absence, until it is back, forgotten or accepted",
    ),
    Line(
        "store-name", STATUS,
        "the environment of a live agent names its store as agentctl would not, or the store has another name by now",
        "its store is found by what the agent has open and watches, or as the agent means the name; if not, that is a "
        "problem, nothing is firmly absent or ended, and launch keeps out",
    ),
    Line(
        "damaged-store", STATUS,
        "a file of a store is cut, written over in place, or has an odd time or name",
        "what it said before is not believed, and what it may have held is a problem: never an absence, never a zero",
    ),
    Line(
        "scan-incomplete", STATUS,
        "/proc hides processes, or other machines or containers can write to the store",
        "a session in mid-turn without a process is unknown, never stopped",
        f"if `ps` fails, {TS} says `stopped` without a warning",
    ),
    Line(
        "normal-end", STATUS,
        "hundreds of turns end normally while agentctl is asked thousands of times",
        "no answer says \"killed in mid-turn\": agentctl judges an end from what it read after the process was gone",
        "reading the store first and the processes later gave a false `stopped` in 55 of 60 normal ends",
    ),
    Line(
        "pid-recycled", STATUS,
        "an agent is dead and an unrelated process has its pid",
        "the session is stopped; stop does not touch the other process",
        f"{TS} says `running` with the other process's pid, and its stop ended that process",
    ),
    Line(
        "fork-of-dead", STATUS,
        "an agent is killed between fork and exec of its tool, and the fork lives on",
        "the session is not firmly running: the fork has the agent's files and is not the agent",
    ),
    Line(
        "zombie", STATUS,
        "the agent is a zombie, or only its first thread is",
        "the zombie is gone; the agent with living threads is alive",
        f"{TS} calls kill(pid, 0), which succeeds for a zombie: it says alive",
    ),
    Line(
        "stale-native", STATUS,
        "a claude that was killed with SIGKILL left a status file that says busy",
        "the session is stopped, interrupted",
        "tools that believe the file say working",
    ),
    Line(
        "one-process-five-sessions", STATUS,
        "one agent is alive in a directory with five ended sessions",
        "only the proved session is alive; without a proof the process is unattached, with candidates, and all five "
        "are at rest",
        f"{TS} says that all five run, with one pid; stopping the oldest ended the live agent",
    ),
    Line(
        "open-on-a-screen", STATUS,
        "a person opens an ended session in the list of a live screen, and the agent writes that nowhere",
        "no session that the screen can show has firmly ended: its end is inferred, and the pid is named; resume asks "
        "for --even-if-open",
        "agentctl said `done`, and resume mixed its turns with those that the person typed",
    ),
    Line(
        "two-in-one-cwd", STATUS,
        "two agents are alive in one directory",
        "there are two sessions, each with its own pid",
        "tools that match by directory confuse them",
    ),
    Line(
        "id-rotates", STATUS,
        "/clear gives a process a new session id",
        "the new session is alive, the old one at rest",
        "tools that read the arguments say that the old session runs",
    ),
    Line(
        "version-named-binary", STATUS,
        "the agent's process has another name (node, 2.1.199, MainThread)",
        "agentctl finds it through its store's own file or lock",
        f"{TS} looks for lines of `ps` that begin with the agent's name, and misses agents that it launched itself",
    ),
    Line(
        "newest-copy", STATUS,
        "a session is in a store twice: a copy in the folder of another day, or in the database of another channel",
        "the one that its agent goes on with counts, in every command",
        "list said `stopped` and status `done`, each firmly",
    ),
    Line(
        "hints", STATUS,
        "an agent that nothing proves a session for has other words or another directory than the session has",
        "words and directory may say which session it is on; that it is on none they cannot",
        "agentctl said `stopped` of a session that worked",
    ),
    Line(
        "another-name", STATUS,
        "an agent lives under another name: a link, a copy of its binary, a loader, a runtime, a renamed main thread",
        "it is found by its executable or by what it has open; if nothing proves its session, that is unknown, never "
        "stopped",
        "tools that look for a process by its name call the session of such an agent stopped",
    ),
    Line(
        "closed-process", STATUS,
        "not as root: nothing of a process can be read (as ssh-agent makes itself)",
        "it counts only if it descends from an agent, a launch or a terminal in the directory of the session",
    ),
    Line(
        "other-user", STATUS,
        "agents of root or of another user work in the store, or root asks about a user's agents",
        "a live one is never firmly ended; a killed one is, whatever those run who cannot change the store",
    ),
    Line(
        "odd-pid-file", STATUS,
        "the pid file of a live agent lacks its start, writes it in another form, is torn, empty or a FIFO",
        "the session is alive, inferred, or unknown, never stopped",
    ),
    Line(
        "first-process", STATUS,
        "an agent is the first process of its container",
        "it is alive from outside and from inside; stop does not signal PID 1",
    ),
    Line(
        "copied-store", STATUS,
        "a copy of a store has an old pid file of a live process",
        "only the store that the process works in says which session it is on",
    ),
    Line(
        "executes-another", STATUS,
        "a registered process has executed another program: its pid and start are the same",
        "it is not on the session any more, and stop does not touch it",
    ),
    Line(
        "among-others", STATUS,
        "not as root, among 300 ordinary processes, an agent is killed in mid-turn",
        "the session is firmly stopped",
    ),
    Line(
        "permission", STATUS,
        "the agent asks a person and waits for the answer",
        "the session is waiting, with what the agent asks",
        f"{TS} has no such status: it says running or idle",
    ),
    Line(
        "quiet-turn", STATUS,
        "one model call takes hours and the agent writes nothing",
        "the session is running",
        f"{TS} calls an OpenClaw session idle after 5 minutes of silence",
    ),
    Line(
        "background-shell", STATUS,
        "the turn is over; a background command still runs",
        "the session is idle",
        "tools that look for child processes say working",
    ),
    Line(
        "killed-mid-turn", STATUS,
        "SIGKILL, SIGTERM or SIGINT ends the agent in a model call or in a tool",
        "the session is stopped, interrupted",
        f"{TS} says `running` for up to 30 s after a SIGKILL",
    ),
    Line(
        "api-error", STATUS,
        "the API answers 401, 429 or 500; the agent retries, then gives up",
        "running while it retries; then idle or failed, with the error",
        "tools that read only the end of the process say done",
    ),
    Line(
        "exit-0-lies", STATUS,
        "agents exit with 0 after an interrupt or an error",
        "the status is what the store says",
        "tools that read the exit code report success",
    ),
    Line(
        "foreign", STATUS,
        "a person started the agent by hand, without agentctl",
        "the session is listed and judged, its link exact or sole; stop works (sole: with --force, naming the pid)",
        f"{TS} cannot stop it while its daemon is up, and misses sessions that are not in claude's history file",
    ),
    Line(
        "native-daemon", STATUS,
        "the session runs inside the agent's own daemon",
        "agentctl judges it by its lock or the daemon's API, never by a client's pid; stop ends the turn, never the "
        "daemon",
        "tools that read the client's pid say stopped when the terminal is closed",
    ),
    Line(
        "daemon-gone", STATUS,
        "the agent's own daemon is killed with SIGKILL",
        "its sessions are gone, interrupted",
        "tools that believe the daemon's last answer say running",
    ),
    Line(
        "list-vs-status", STATUS,
        "every world on this page, at its end",
        "list, list -a, status and why give the same answer",
        f"{TS} does not list a `claude --resume` that its status calls running, and answers differently without its "
        "daemon",
    ),
    Line(
        "no-double", STATUS,
        "one session is in two files, in two stores or under two paths",
        "it is one row",
        f"{TS} lists every Pi session twice, and each claude that it launched also under an invented id",
    ),
    Line(
        "usage-once", STATUS,
        "usage lines repeat; there are forks and sub-agents",
        "each token is counted once",
        f"{TS} adds up what it finds in the last 64 KB",
    ),
    Line(
        "other-home", STATUS,
        "agents use another HOME, or our HOME with a store elsewhere",
        "the first are neither read nor shown; the others are found while they live, and remembered",
        f"{TS} ignores CLAUDE_CONFIG_DIR, CODEX_HOME and XDG_DATA_HOME",
    ),
    Line(
        "reading-changes-nothing", STATUS,
        "every world on this page, at its end",
        "asking changes no name, size, time or inode in any store",
        "`claude agents --json` deletes the files of dead processes",
    ),
    Line(
        "real-id", ACTING,
        "launch prints a session id",
        "it is the agent's own id",
        f"{TS} waits 15 s for claude's id, then prints an invented one that its stop does not know",
    ),
    Line(
        "first-run", ACTING,
        "launch of an agent whose store is made by that very run, also one that only --env names",
        "launch prints its id, and the session is done in every later answer",
    ),
    Line(
        "handed-on", ACTING,
        "launch of a wrapper that hands the agent to a machine which our process table does not reach",
        "in mid-turn the session is unknown, while the wrapper lives and after it; wait goes on, then exits with 5",
    ),
    Line(
        "died-at-launch", ACTING,
        "the agent is not installed, is not logged in or dies at once",
        "launch fails with the agent's exit code and last lines, and leaves no row and no lock",
        f"{TS} shows it `running` for 30 s, then `stopped` for up to a day",
    ),
    Line(
        "parallel", ACTING,
        "20 launches start at one moment",
        "there are 20 ids and 20 logs, each with its own prompt",
        f"{TS} names its logs by the millisecond",
    ),
    Line(
        "gate", ACTING,
        "six launches race for one directory",
        "one wins; the others are refused and name the holder; --force overrides",
        f"without its daemon {TS} launches without any lock",
    ),
    Line(
        "lock-of-dead", ACTING,
        "the agent that holds a directory is killed with SIGKILL",
        "the directory is free at once",
        f"{TS} refuses for 28 to 30 s, and for ever if another process has the pid",
    ),
    Line(
        "lock-not-read", ACTING,
        "the lock of a directory is torn, or the folder of all locks cannot be read",
        "no agent is let into a directory that may be locked; the error names the file and the next step",
    ),
    Line(
        "same-directory", ACTING,
        "the directory of a live agent or of a lock was renamed, is mounted twice, or has another path in a container",
        "a directory is its device and inode: no second agent is let in under any of its names",
    ),
    Line(
        "lock-below", ACTING,
        "launch and clean go into, below, above and beside a locked directory",
        "a lock holds for everything in its directory; clean refuses also below a locked directory",
    ),
    Line(
        "which-of-two", ACTING,
        "somebody is in mid-turn in the directory, and it cannot be told who",
        "no further agent is let in if live agents may be; a program that nobody recognises is worth a warning",
    ),
    Line(
        "crash-anywhere", ACTING,
        "SIGKILL ends the command or the runner at any moment of a launch",
        "agentctl finds the agent and judges it correctly, no lock is stuck, and the next launch works",
        f"if the daemon of {TS} is killed during a launch, the agent lives on as `stopped` and a second one is let in",
    ),
    Line(
        "on-complete-once", ACTING,
        "a session with a hook is killed, and many processes ask at once whether it has ended",
        "the hook runs exactly once",
    ),
    Line(
        "stubborn", ACTING,
        "an agent ignores every signal that it can ignore",
        "stop escalates, says so, and says stopped only when it is true",
        f"{TS} says stopped while the agent runs, and lets a second agent in",
    ),
    Line(
        "orphans", ACTING,
        "tools run in process sessions of their own; there are wrappers and second writers",
        "no process is left after a stop",
        f"{TS} signals one pid and looks no further",
    ),
    Line(
        "resurrect", ACTING,
        "a worker of claude --bg is stopped by agentctl, or killed from outside",
        "after stop it stays stopped; after the kill, while its daemon may bring it back, it is unknown",
        "a worker that is killed by its pid is back seconds later",
    ),
    Line(
        "wrong-one", ACTING,
        "a pid file is stale or forged, a launch marker is inherited, the process is another user's or our ancestor",
        "stop refuses or leaves it alone; no other process is harmed",
        f"{TS} ended a process whose pid was in its stale file, and one that had its name in its title",
    ),
    Line(
        "above", ACTING,
        "an agent that was launched by another one tries to stop that one, or itself, by session or by launch",
        "stop refuses what this command runs in, by process and by the records of launches, also with --force",
    ),
    Line(
        "nested", ACTING,
        "an agent runs another agent, and stop is called for the outer one",
        "its own tools end; stop names the inner session and leaves it, unless --tree",
    ),
    Line(
        "prompt-odd", ACTING,
        "the prompt has 1 MB, begins with --, or holds a NUL, newlines or emoji",
        "it arrives unchanged, or launch fails with a clear error",
    ),
    Line(
        "caller-env", ACTING,
        "the caller sets variables",
        "they reach the agent",
        f"{TS} looks for keys in the environment of its daemon",
    ),
    Line(
        "resume-live", ACTING,
        "resume is called for a session that is alive",
        "it is refused, unless --force is given and the agent allows a second writer",
        f"{TS} has no lock there",
    ),
    Line(
        "resume-cwd", ACTING,
        "resume is called from another directory",
        "it runs in the session's own directory, under its own id",
        f"{TS} sent the id as a prompt into another conversation, and dropped the message",
    ),
    Line(
        "gemini-resume", ACTING,
        "a resume would make gemini delete history",
        "the history survives",
    ),
    Line(
        "private-state", ACTING,
        "other users can write to the state folder, and it holds a forged launch",
        "agentctl says so, ignores the launch and starts nothing there",
    ),
    Line(
        "id-prefix", ACTING,
        "a prefix matches two ids",
        "agentctl refuses, names both and touches neither",
        f"without its daemon {TS} takes the first that matches",
    ),
    Line(
        "reboot", MACHINE,
        "a record is from before a reboot, and a process now has its pid and start time",
        "every process key from before the reboot is gone",
        f"{TS} stores pids without boot id or start time",
    ),
    Line(
        "sibling-namespace", MACHINE,
        "agentctl runs in a PID namespace beside the agents, with the same files, as a sandbox makes it",
        "the sessions are unknown, with the reason; nothing is signalled; the directory of a launch is taken, and its "
        "folder stays",
    ),
    Line(
        "inner-namespace", MACHINE,
        "a launch was made in a PID namespace below ours, as in a container",
        "it is alive, ended and stopped as any other, by what the kernel says of it",
    ),
    Line(
        "foreign-proc", MACHINE,
        "/proc is of another PID namespace (`unshare --pid` without a new /proc, `nsenter -p` without -m)",
        "the sessions are unknown, nobody is signalled, and nothing is started or recorded",
    ),
    Line(
        "no-proc", MACHINE,
        "there is no /proc, or it is mounted with subset=pid",
        "what is stored is shown, as unknown; launch, stop and send refuse in one line",
    ),
    Line(
        "clock-step", MACHINE,
        "records, file times or the clock itself jump by hours",
        "exact links do not change; what depends on times becomes unknown, never ended",
        f"{TS} uses ages: 30 s, 60 s, 5 minutes, 24 hours",
    ),
    Line(
        "disk-full", MACHINE,
        "the disk is full or read-only",
        "list and status work; launch fails with a clear error and starts nothing",
    ),
    Line(
        "torn", MACHINE,
        "files are cut off, overwritten in place, or rewritten in a tight loop",
        "at most there is a problem; no session is called ended because of it",
    ),
    Line(
        "hostile", MACHINE,
        "stores hold NUL bytes, lines of many MB, bad UTF-8, link loops, devices, odd values in every field",
        "at most there is a problem: no crash, no wrong status elsewhere, no escape sequence in any output",
    ),
    Line(
        "many", MACHINE,
        "there are 10 000 stored sessions, 100 live ones and 3 000 processes",
        "agentctl answers within the time in the benchmark",
    ),
    Line(
        "concurrent", MACHINE,
        "20 `agentctl list` run at once",
        "all give the same answer",
        f"of 5 simultaneous first commands of {TS}, 4 crashed",
    ),
    Line(
        "stale-daemon-files", MACHINE,
        "a dead agentctl daemon left its socket and key file, and another process has its pid",
        "the files are replaced; no process is signalled",
        f"{TS} killed the process that its stale file named with SIGKILL",
    ),
    Line(
        "two-users", MACHINE,
        "two users run an agentctl daemon on one machine",
        "the daemons do not affect each other",
        f"only one of two users of {TS} can have a daemon: the port is taken",
    ),
    Line(
        "daemon-trouble", MACHINE,
        "agentctl's own daemon has a full disk, is suspended, gets no inotify watches, or sees 200 sessions at once",
        "each change is recorded once, in order; what is missing is said; folded, the events are what list shows",
        "a recorder that drops what it cannot write, and says nothing",
    ),
    Line(
        "no-process-left", MACHINE,
        "every world on this page, after its end",
        "none of its processes is left",
    ),
    *OF_TERMINALS,
)  # fmt: skip
