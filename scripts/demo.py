"""Start demo agents in a temporary home, show what agentctl says about them, and check that it is true.

If the kernel allows it, all of it runs in a PID namespace of its own: agentctl then sees nothing else, and nothing
can be left behind. Exits with 1 if a status was not what this script knows to be the truth.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable

SOURCES = Path(__file__).resolve().parents[1] / "src"
INSIDE = "AGENTCTL_DEMO_NAMESPACE"  # set for the run inside the namespace
KEPT = ("PATH", "TERM", "LANG", "LC_ALL", "NO_COLOR", "COLUMNS")
START_TIMEOUT = 30.0
COMMAND_TIMEOUT = 60.0
END_TIMEOUT = 5.0


class Scene(NamedTuple):
    """An agent to start, and what is true of it once `ready` says so."""

    directory: str
    prompt: str
    script: str  # what the agent does: a model would decide that
    status: str
    ready: Callable[[Actor], bool]


class DemoFailed(Exception):
    pass


class Actor:
    """A demo agent that this script started, and its own store's word on it."""

    def __init__(self, scene: Scene, home: Path, env: dict[str, str]) -> None:
        self.scene = scene
        self.id = str(uuid.uuid4())
        self._folder = home / "data" / "agentctl-demo" / "sessions" / self.id
        directory = home / scene.directory
        directory.mkdir(parents=True)
        self.child = subprocess.Popen(
            [
                sys.executable,
                "-m",
                "agentctl.demo_agent",
                "--session-id",
                self.id,
                "-p",
                scene.prompt,
                "--script",
                scene.script,
            ],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            env=env,
            cwd=directory,
        )

    def says(self, status: str) -> bool:
        try:
            return bool(json.loads((self._folder / "process.json").read_text())["status"] == status)
        except FileNotFoundError:
            return False

    def has_recorded(self, event: str) -> bool:
        try:
            return f'"event": "{event}"' in (self._folder / "events.jsonl").read_text()
        except FileNotFoundError:
            return False

    def wait_until_ready(self) -> None:
        deadline = time.monotonic() + START_TIMEOUT
        while not self.scene.ready(self):
            if time.monotonic() > deadline:
                raise DemoFailed(f"the agent that was to be {self.scene.status} did not get there: {self.scene.prompt}")
            time.sleep(0.05)

    def end(self) -> None:
        self.child.terminate()
        try:
            self.child.wait(END_TIMEOUT)
        except subprocess.TimeoutExpired:
            self.child.kill()
            self.child.wait(END_TIMEOUT)


def runs_a_tool(actor: Actor) -> bool:
    return actor.says("busy") and actor.has_recorded("tool")


def asks(actor: Actor) -> bool:
    return actor.says("waiting")


def is_at_its_prompt(actor: Actor) -> bool:
    return actor.says("idle")


def has_ended(actor: Actor) -> bool:
    return actor.child.poll() is not None


def was_killed_in_mid_turn(actor: Actor) -> bool:
    if actor.has_recorded("prompt"):
        actor.child.kill()
    return actor.child.poll() is not None


SCENES = (
    Scene("shop", "Run the tests.", "[[text:Running them.]] [[bash:sleep 600]]", "running", runs_a_tool),
    Scene("website", "Publish the site.", "[[ask:git push origin main]]", "waiting", asks),
    Scene("notes", "Explain the cache.", "[[text:It keeps the last answer.]] [[idle]]", "idle", is_at_its_prompt),
    Scene("parser", "Fix the typo.", "[[text:Fixed.]]", "done", has_ended),
    Scene("mailer", "Summarise the log.", "[[fail:the model is overloaded]]", "failed", has_ended),
    Scene("billing", "Plan the migration.", "[[sleep:600]]", "stopped", was_killed_in_mid_turn),
)
COMMIT = "echo \"Hello from $(basename $PWD)\" > hello.txt && git add -A && git commit -qm 'Say hello'"
GIT = {
    f"GIT_{who}_{what}": value
    for who in ("AUTHOR", "COMMITTER")
    for what, value in (("NAME", "demo"), ("EMAIL", "demo@example.org"))
}


def main() -> int:
    enter_namespace()
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    home = Path(tempfile.mkdtemp(prefix="agentctl-demo-", dir=folder_for_home())).resolve()
    actors: list[Actor] = []
    launched: list[str] = []
    env = clean_environment(home)
    try:
        for scene in SCENES:
            actors.append(Actor(scene, home, env))
        for actor in actors:
            actor.wait_until_ready()
        show(actors, env)
        check(actors, env)
        print(f"All {len(actors)} statuses are true.\n")
        talk_to(next(actor for actor in actors if actor.scene.status == "idle"), env)
        if sys.platform == "linux":
            launch_and_stop(home, env, launched)
            try_side_by_side(home, env)
    except (DemoFailed, subprocess.TimeoutExpired) as failure:
        print(f"demo failed: {failure}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 128 + signal.SIGINT
    finally:
        for id in launched:
            run_agentctl(["stop", id], env, capture=True)
        for actor in actors:
            actor.end()
        remove(home)
        print(f"Ended the {len(actors)} demo agents and removed {home}.")
    return 0


def remove(home: Path) -> None:
    """Remove the home. A runner may be writing its last line there, so try again for a while."""
    deadline = time.monotonic() + END_TIMEOUT
    while home.exists():
        shutil.rmtree(home, ignore_errors=time.monotonic() < deadline)


def enter_namespace() -> None:
    """Run again in a PID namespace of our own, if there is none yet and the kernel lets us. It gets its own /dev/shm
    for the home: agentctl takes what was mounted before for shared with the processes outside."""
    if INSIDE in os.environ or shutil.which("unshare") is None:
        return
    command = ["unshare", "--fork", "--pid", "--mount-proc"]
    if os.geteuid() != 0:
        command[1:1] = ["--user", "--map-root-user"]
    command += ["sh", "-ec", 'mount -t tmpfs -o mode=1777 tmpfs /dev/shm; exec "$@"', "sh"]
    tried = subprocess.run([*command, "true"], capture_output=True, timeout=COMMAND_TIMEOUT, check=False)
    if tried.returncode == 0:
        os.execvpe(command[0], [*command, sys.executable, os.path.abspath(__file__)], {**os.environ, INSIDE: "1"})


def folder_for_home() -> str | None:
    """Return the folder in which to make the home; None for the usual one.

    In a plain chroot mountinfo does not list our root folder, and processes outside of our PID namespace may write to
    it: so agentctl would rightly call the status of an ended agent unknown. /dev/shm is listed, and in memory."""
    if INSIDE in os.environ:
        return "/dev/shm"
    try:
        points = [line.split(" ")[4] for line in Path("/proc/self/mountinfo").read_text().splitlines()]
    except OSError:
        return None
    in_chroot = "/" not in points
    return "/dev/shm" if in_chroot and "/dev/shm" in points and os.access("/dev/shm", os.W_OK) else None


def clean_environment(home: Path) -> dict[str, str]:
    """Return an environment without the person's own stores, configuration and state of agentctl."""
    env = {name: os.environ[name] for name in KEPT if name in os.environ}
    env.update({f"XDG_{name.upper()}_HOME": str(home / name) for name in ("data", "state", "config", "cache")})
    return {
        **env,
        "HOME": str(home),
        "TMUX_TMPDIR": str(home),
        "AGENTCTL_HOME": str(home / "agentctl"),
        "PYTHONPATH": str(SOURCES),
    }


def show(actors: list[Actor], env: dict[str, str]) -> None:
    ids = {actor.scene.status: actor.id[:8] for actor in actors}
    for arguments in (
        ["list", "--agent", "demo"],
        ["list", "-a", "--agent", "demo"],
        ["why", ids["waiting"]],
        ["why", ids["stopped"]],
        ["status", ids["running"]],
    ):
        tell(arguments, env)


def tell(arguments: list[str], env: dict[str, str]) -> None:
    """Run a command and show it with what it prints."""
    print("$ agentctl", shlex.join(arguments), flush=True)
    run_agentctl(arguments, env)
    print(flush=True)


def talk_to(actor: Actor, env: dict[str, str]) -> None:
    """Give an idle session its next prompt, and read its answer."""
    tell(["send", actor.id[:8], "And how large is it?"], env)
    deadline = time.monotonic() + START_TIMEOUT
    while not actor.says("idle") and time.monotonic() < deadline:
        time.sleep(0.05)
    tell(["peek", actor.id[:8], "-n", "3"], env)


def launch_and_stop(home: Path, env: dict[str, str], launched: list[str]) -> None:
    """Launch one agent and wait for it; launch another and stop it in the middle of its tool."""
    print("Next, agentctl launches agents. The demo agent has no model. So each launch below also passes a script,")
    print("which is not shown, for example: -- --script '[[bash:make test]] [[text:All is well.]]'\n", flush=True)
    for name, prompt, script in (
        ("garden", "Water the plants.", "[[sleep:1]] [[text:Done.]]"),
        ("attic", "Tidy up.", "[[bash:sleep 600]]"),
    ):
        (home / name).mkdir()
        words = ["launch", "demo", "-p", prompt, "--cwd", str(home / name), "--", "--script", script]
        print("$ agentctl launch demo -p", shlex.quote(prompt), "--cwd", f"~/{name}", flush=True)
        launched.append(run_agentctl(words, env, capture=True).strip())
        print(f"{launched[-1]}\n", flush=True)
    for arguments in (["wait", launched[0][:8], "--until", "ended"], ["list"], ["stop", launched[1][:8]]):
        tell(arguments, env)
    answer = json.loads(run_agentctl(["list", "-a", "--json", "--agent", "demo"], env, capture=True))
    said = [next(one["status"] for one in answer["sessions"] if one["id"] == id) for id in launched]
    if said != ["done", "stopped"]:
        raise DemoFailed(f"the launched ones should be done and stopped, and are {said}")


def try_side_by_side(home: Path, env: dict[str, str]) -> None:
    """Let two agents try one task, each in a git worktree of its own, and compare what they did."""
    repository = home / "app"
    env = {**env, **GIT}
    for words in (
        ["init", "-q", "-b", "main", str(repository)],
        ["-C", str(repository), *"commit -q --allow-empty -m Begin".split()],
    ):
        subprocess.run(["git", *words], env=env, timeout=COMMAND_TIMEOUT, check=True)
    slots = ["--agent", "demo", "--model", "small", "--agent", "demo", "--model", "large"]
    words = ["launch", *slots, "--group", "tries", "-p", "Say hello.", "--wait"]
    print("$ cd ~/app && agentctl", shlex.join(words), flush=True)
    run_agentctl([*words, "--cwd", str(repository), "--", "--script", f"[[bash:{COMMIT}]] [[text:Said hello.]]"], env)
    print(flush=True)
    tell(["compare", "tries"], env)
    answer = json.loads(run_agentctl(["compare", "tries", "--json"], env, capture=True))
    if [(one["status"], one["commits"]) for one in answer["slots"]] != [("done", 1)] * 2:
        raise DemoFailed(f"both tries should be done with one commit: {answer['slots']}")


UNSEEN = "others may be on it"  # in the reason of a session


def check(actors: list[Actor], env: dict[str, str]) -> None:
    """Compare what agentctl says with what is true. In a plain chroot, processes outside may use the same files, and
    agentctl cannot see them: there `unknown` is right, and said."""
    answer = json.loads(run_agentctl(["list", "-a", "--json", "--agent", "demo"], env, capture=True))
    said = {session["id"]: session["status"] for session in answer["sessions"]}
    true = {actor.id: actor.scene.status for actor in actors}
    if INSIDE not in os.environ and folder_for_home() is not None:
        hidden = [one for one in answer["sessions"] if UNSEEN in (one["reason"] or "")]
        unsure = [one["id"] for one in hidden if one["status"] == "unknown"]
        true.update({id: "unknown" for id in unsure if id in true})
        print("In a chroot agentctl cannot see who else uses these files: what was killed is unknown.\n")
    wrong = [
        f"{id}: agentctl says {said.get(id, 'nothing')}, the truth is {true.get(id, 'that there is none')}"
        for id in sorted(said.keys() | true.keys())
        if said.get(id) != true.get(id)
    ]
    wrong += [f"unattached: {entry}" for entry in answer["unattached"]]
    wrong += [f"problem: {entry}" for entry in answer["problems"]]
    if wrong:
        raise DemoFailed("\n  ".join(["not as it should be:", *wrong]))


def run_agentctl(arguments: list[str], env: dict[str, str], *, capture: bool = False) -> str:
    result = subprocess.run(
        [sys.executable, "-m", "agentctl", *arguments],
        env=env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE if capture else None,
        text=True,
        timeout=COMMAND_TIMEOUT,
        check=False,
    )
    if result.returncode != 0:
        raise DemoFailed(f"agentctl {' '.join(arguments)} ended with {result.returncode}")
    return result.stdout or ""


if __name__ == "__main__":
    sys.exit(main())
