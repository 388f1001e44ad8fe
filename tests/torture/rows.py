"""The torture list: each way in which session tools lie, the world that shows it, what must be said there, and where it
was seen in public. A row is a case of the same name, or is open (open_rows.py), or some of both."""

from __future__ import annotations

from typing import NamedTuple

STATUS, ACTING, MACHINE = "Truth of status", "Launch, stop, locks", "The machine"
SECTIONS = (STATUS, ACTING, MACHINE)
THEY = "the TypeScript agentctl 1.9.1"


class Line(NamedTuple):
    name: str
    section: str
    world: str
    must: str
    seen: str = ""  # the public failure that it comes from, in plain words


ROWS = (
    Line(
        "unflushed", STATUS,
        "an agent is alive for a long time and has no transcript yet",
        "alive by its process, with what its own file says; our own headless launch: running, inferred; stop works",
        f"{THEY} says that there are no sessions, or `stopped` once a timer of its own has run out, and cannot stop it",
    ),
    Line(
        "unflushed-two", STATUS,
        "two such in one directory",
        "both alive, each with its own pid",
        f"{THEY} shows one of them, and the other is `stopped` for good",
    ),
    Line(
        "wrapper-exit", STATUS,
        "the launching wrapper exits, the detached child works on",
        "running, with the pid of the child",
        f"{THEY} says `stopped`, and lets a second agent into the directory",
    ),
    Line(
        "wrapper-killed", STATUS,
        "the wrapper is killed -9, the native child lives",
        "running",
        f"{THEY} says `stopped`, and stop finds no such session",
    ),
    Line(
        "store-hangs", STATUS,
        "one agent's store blocks (a FIFO, a dead mount, a lock) or is not readable",
        "the rows of the other agents within 2 s; the blocked store is a problem; its live processes are unattached",
        f"{THEY} drops the rows without a warning and exits 0; its `status` gave no answer in 70 s",
    ),
    Line(
        "scan-incomplete", STATUS,
        "entries of /proc are hidden, or the store is on a file system that others write to",
        "a record in mid-turn without a process is unknown, never stopped",
        f"where `ps` fails, {THEY} says `stopped`, without a warning",
    ),
    Line(
        "normal-end", STATUS,
        "hundreds of turns that end normally, asked about all the time: thousands of answers",
        "never \"killed in mid-turn\": ends are judged from bytes that were read after the death",
        "reading the store first and the processes later gave a false `stopped` in 55 of 60 normal ends",
    ),
    Line(
        "pid-recycled", STATUS,
        "a dead session, whose pid is a stranger's now",
        "stopped; stop does not touch the stranger",
        f"{THEY} says `running` with the stranger's pid, and its stop ended the stranger",
    ),
    Line(
        "zombie", STATUS,
        "the agent is a zombie; or only its first thread is one",
        "gone; or alive",
        f"{THEY} asks kill(pid, 0), which a zombie answers: alive",
    ),
    Line(
        "stale-native", STATUS,
        "a claude that was killed -9 left a file that says busy",
        "stopped, interrupted",
        "tools that believe the file say working",
    ),
    Line(
        "one-process-five-sessions", STATUS,
        "one live agent, five ended sessions of its directory",
        "exactly one is alive, the proved one; else one unattached process with candidates, and five at rest",
        f"{THEY} says that all five run, with one pid, and stop of the oldest ended the live agent",
    ),
    Line(
        "two-in-one-cwd", STATUS,
        "two live agents in one directory",
        "two sessions, each with its own pid",
        "tools that go by the directory mix them up",
    ),
    Line(
        "id-rotates", STATUS,
        "/clear gives the same process a new session id",
        "the new one is alive, the old one at rest",
        "tools that go by the arguments say that the old one runs",
    ),
    Line(
        "version-named-binary", STATUS,
        "the agent's process is not named after it (node, 2.1.199, MainThread)",
        "found through its store's own file or lock",
        f"{THEY} looks for lines of `ps` that begin with the agent's name, and so misses what it launched itself",
    ),
    Line(
        "permission", STATUS,
        "the agent waits on a question",
        "waiting, with what it asks",
        f"{THEY} has no such word: running or idle",
    ),
    Line(
        "quiet-turn", STATUS,
        "hours in one model call, nothing is written",
        "running",
        f"{THEY} calls an OpenClaw session idle after 5 minutes of silence",
    ),
    Line(
        "background-shell", STATUS,
        "the turn is over, a background command runs on",
        "idle",
        "tools that look for child processes say working",
    ),
    Line(
        "killed-mid-turn", STATUS,
        "SIGKILL, SIGTERM or SIGINT, in a model call and in a tool",
        "stopped, interrupted",
        f"{THEY} says `running` for up to 30 s after a kill -9",
    ),
    Line(
        "api-error", STATUS,
        "401, 429 or 500, with retries, then giving up",
        "running while it retries; then idle or failed, with the error",
        "tools that go by the end of the process say done",
    ),
    Line(
        "exit-0-lies", STATUS,
        "agents that exit with 0 after an interrupt or an error",
        "what the store says",
        "tools that go by the exit code say that it went well",
    ),
    Line(
        "foreign", STATUS,
        "a session that was started by hand, no agentctl near it",
        "listed and judged, its link exact or sole; stop works (sole: with --force, naming the pid)",
        f"{THEY} cannot stop it while its daemon is up, and does not see what is not in claude's history file",
    ),
    Line(
        "native-daemon", STATUS,
        "a session that runs inside the agent's own daemon",
        "judged by its lock or its API, never by the client's pid; stop ends its turn, never the daemon",
        "tools that go by the client's pid say stopped when the terminal is closed",
    ),
    Line(
        "daemon-gone", STATUS,
        "that daemon is killed -9",
        "gone, interrupted",
        "tools that believe the last answer say running",
    ),
    Line(
        "list-vs-status", STATUS,
        "every world of this page, at its end",
        "list, list -a, status and why say the same",
        f"{THEY} lists no `claude --resume` that its status calls running, and says other things without its daemon",
    ),
    Line(
        "no-double", STATUS,
        "one session in two files, two stores or under two paths",
        "one row",
        f"{THEY} lists every Pi session twice, and each of its own claude launches under an invented id, too",
    ),
    Line(
        "usage-once", STATUS,
        "usage lines that repeat, forks, sub-agents",
        "each token is counted once",
        f"{THEY} adds up what is in the last 64 KB",
    ),
    Line(
        "other-home", STATUS,
        "agents of another HOME, and of ours with their store elsewhere",
        "the first are not read and not shown; the others are found while they live, and remembered",
        f"{THEY} ignores CLAUDE_CONFIG_DIR, CODEX_HOME and XDG_DATA_HOME",
    ),
    Line(
        "reading-changes-nothing", STATUS,
        "every world of this page, at its end",
        "names, sizes, times and inodes of all stores are the same after asking",
        "`claude agents --json` deletes the files of the dead",
    ),
    Line(
        "real-id", ACTING,
        "launch",
        "the id that is printed is the agent's own",
        f"{THEY} waits 15 s for claude's id, then prints an invented one, which stop does not know",
    ),
    Line(
        "died-at-launch", ACTING,
        "an agent that is missing, is not logged in or dies at once",
        "an error with its exit code and its last lines; no row, no lock",
        f"{THEY} shows it `running` for 30 s, then `stopped` for up to a day",
    ),
    Line(
        "parallel", ACTING,
        "20 launches at one moment",
        "20 ids, 20 logs, each with its own prompt",
        f"{THEY} names its logs by the millisecond",
    ),
    Line(
        "gate", ACTING,
        "two launches race for one directory",
        "one wins, the other is refused by the name of the holder; --force overrides",
        f"without its daemon {THEY} launches without any lock",
    ),
    Line(
        "lock-of-dead", ACTING,
        "the holder of a directory is killed -9",
        "the directory is free at once",
        f"{THEY} refuses for 28 to 30 s, and for ever where a stranger has the pid",
    ),
    Line(
        "crash-anywhere", ACTING,
        "the command or the runner is killed -9 at any moment of a launch",
        "the agent is found and judged right, no lock is stuck, the next launch works",
        f"the daemon of {THEY} killed in a launch: the agent lives on as `stopped`, a second one is let in",
    ),
    Line(
        "on-complete-once", ACTING,
        "the session of a launch with a hook is killed, and many ask at once whether it is over",
        "the hook runs, and runs once",
    ),
    Line(
        "stubborn", ACTING,
        "an agent that ignores every polite signal",
        "stop escalates, says so, and is true when it says stopped",
        f"{THEY} says that it is stopped while it runs, and lets a second agent in",
    ),
    Line(
        "orphans", ACTING,
        "tools in process sessions of their own; wrappers; two writers",
        "nobody is left after a stop",
        f"{THEY} signals one pid and looks no further",
    ),
    Line(
        "resurrect", ACTING,
        "a worker of claude --bg, stopped, or killed from outside",
        "really stopped; killed and about to be brought back: unknown",
        "a worker that is killed by its pid is back seconds later",
    ),
    Line(
        "wrong-one", ACTING,
        "a recycled or forged pid file, an inherited marker, another user's process, our own ancestor",
        "refused or left alone; nobody is harmed",
        f"{THEY} ended a stranger whose pid was in its stale file, and one whose title had its name in it",
    ),
    Line(
        "nested", ACTING,
        "an agent that an agent runs; stop of the outer one",
        "its own tools end; the inner session is named and left, unless --tree",
    ),
    Line(
        "prompt-odd", ACTING,
        "a prompt of 1 MB, one that begins with --, a NUL, newlines, emoji",
        "it arrives as it is, or there is a clear error",
    ),
    Line(
        "caller-env", ACTING,
        "variables of the caller",
        "reach the agent",
        f"{THEY} looks for keys in the environment of its daemon",
    ),
    Line(
        "resume-live", ACTING,
        "resume of a session that is alive",
        "refused, unless --force where the agent allows it",
        f"{THEY} has no lock there",
    ),
    Line(
        "resume-cwd", ACTING,
        "resume from another directory",
        "runs in the session's own directory, under its own id",
        f"{THEY} sent the id as a prompt into another conversation, and dropped the message",
    ),
    Line(
        "gemini-resume", ACTING,
        "a resume that makes gemini delete history",
        "history survives",
    ),
    Line(
        "private-state", ACTING,
        "a state folder that others can write to, with a forged launch in it",
        "not believed and said; nothing is started there",
    ),
    Line(
        "id-prefix", ACTING,
        "a beginning that two ids share",
        "refused, with both; nobody is touched",
        f"{THEY}, without its daemon, takes the first that matches",
    ),
    Line(
        "reboot", MACHINE,
        "a record of another boot, whose pid and start somebody has now",
        "every old key is gone",
        f"{THEY} keeps pids without boot or start",
    ),
    Line(
        "clock-step", MACHINE,
        "records, file times and the clock itself shifted by hours",
        "exact links do not change; what is inferred from times becomes unknown, never ended",
        f"{THEY} goes by ages: 30 s, 60 s, 5 minutes, 24 hours",
    ),
    Line(
        "disk-full", MACHINE,
        "no room, or no right to write",
        "list and status work; launch fails with a clear error and starts nothing",
    ),
    Line(
        "torn", MACHINE,
        "files that are cut off, overwritten in place, rewritten in a tight loop",
        "a problem at most; nothing of it is said to have ended",
    ),
    Line(
        "hostile", MACHINE,
        "NUL bytes, lines of many MB, bad UTF-8, loops of links, devices, odd values in every field",
        "a problem at most: never a crash, never a wrong word about the others, no escape sequence in any output",
    ),
    Line(
        "many", MACHINE,
        "10 000 stored sessions, 100 live ones, 3 000 processes",
        "an answer in the time that the benchmark gives",
    ),
    Line(
        "concurrent", MACHINE,
        "20 `agentctl list` at once",
        "all answer, and the same",
        f"of 5 first commands of {THEY} at once, 4 crashed",
    ),
    Line(
        "stale-daemon-files", MACHINE,
        "socket and key file of a dead daemon of ours, its pid reused",
        "replaced; nobody is signalled",
        f"{THEY} killed -9 the stranger that its stale file named",
    ),
    Line(
        "two-users", MACHINE,
        "two users' daemons on one machine",
        "they do not meet",
        f"of two users of {THEY} only one can have a daemon: its port is taken",
    ),
    Line(
        "no-process-left", MACHINE,
        "every world of this page, after its end",
        "no process of it is left",
    ),
)  # fmt: skip
