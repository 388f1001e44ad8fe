"""Defences of what a launch promises after its start: that its session is found again, its hook run, its limit kept."""

from __future__ import annotations

from tests.mutants.model import mutant

KEPT = (
    mutant(
        "stores-of-launches",
        "launch remembers every store that HOME alone does not lead to, whoever named it",
        "a session that was launched with CODEX_HOME is not found from another shell",
        "tests/query/test_elsewhere.py::test_every_store_that_home_alone_does_not_lead_to_is_noted",
        (
            "launch/start.py",
            "    default = roots.of_home(load(order.agent), env)\n",
            "    default = roots.absolute(load(order.agent).roots(env))\n",
        ),
    ),
    mutant(
        "store-elsewhere",
        "a session of ours whose store is not read is elsewhere",
        "status: no session",
        "tests/query/test_elsewhere.py::test_a_store_that_is_not_read_is_elsewhere",
        ("query/sessions.py", "        elsewhere.check(prefix, look, os.environ if env is None else env)\n", ""),
    ),
    mutant(
        "launch-elsewhere",
        "wait knows that the store of a launch is not read",
        "wait: it exited with 0, without a session",
        "tests/query/test_elsewhere.py::test_a_store_that_is_not_read_is_elsewhere",
        (
            "wait.py",
            "    if (apart := looked.why_apart(launch)) is not None:\n",
            "    if (apart := None) is not None:\n",
        ),
    ),
    mutant(
        "resume-on-its-store",
        "resume runs on the store of the session",
        "the agent goes on with another account, without the conversation",
        "tests/launch/test_own_store.py::test_resume_goes_on_in_the_store_of_another_profile",
        ("launch/start.py", "        request = request._replace(env=on_its_store)\n", ""),
    ),
    mutant(
        "tree-of-an-ended-session",
        "stop --tree looks for what is left before it says that a session is gone",
        "gone already, and what its launch left behind lives on without a word",
        "tests/stop/test_behind.py::test_it_ends_while_the_runner_proves_it "
        "tests/stop/test_behind.py::test_it_is_named_and_left_once_the_runner_is_gone",
        (
            "stop/stop.py",
            "end_behind(session, of, world, self._launch_without_session) if self._options.tree else []",
            "[]",
        ),
    ),
    mutant(
        "tree-of-a-launch-that-goes-on",
        "stop --tree of an ended session does not end a launch that is on another session now",
        "stop ended an agent that nobody asked for",
        "tests/stop/test_behind.py::test_a_launch_that_is_on_another_session_now",
        (
            "stop/behind.py",
            "        and not may_live(world, one.launch.agent, one.launch.child, one.launch.runner)\n",
            "",
        ),
    ),
    mutant(
        "lost-promises",
        "a hook or a time limit whose runner is gone is named",
        "on-complete is lost, and no command says so",
        "tests/launches/test_promises.py::test_a_hook_whose_runner_was_killed_is_named_and_can_be_run_once_by_hand "
        "tests/launches/test_promises.py::test_a_time_limit_that_nobody_keeps_is_named",
        ("launches/promises.py", " or not processes.gone(launch.runner):", " or True:"),
    ),
    mutant(
        "kept-promises",
        "a promise is lost only if the runner is proved to be gone",
        "status: on-complete was not run, while its runner is about to run it",
        "tests/launches/test_promises.py::test_nothing_is_said_of_promises_that_are_kept",
        ("launches/promises.py", " or not processes.gone(launch.runner):", ":"),
    ),
    mutant(
        "asks-on-for-a-hook",
        "the runner asks on for a day if there is a hook to run",
        "on-complete is lost if agentctl is away for 15 s",
        "tests/launch/test_runner.py::test_if_there_is_a_hook_to_run_it_asks_on_for_a_day",
        ("launch/runner.py", 'FOR_A_HOOK if order["launch"].get("hooks") else ASK_AGAIN', "ASK_AGAIN"),
    ),
    mutant(
        "hook-without-its-directory",
        "a hook whose directory is gone runs elsewhere",
        "the person is not told that the agent has ended",
        "tests/launches/test_hook_places.py::test_an_agent_that_removes_its_own_directory",
        ("launches/hooks.py", "    if os.path.lexists(folder):\n", "    if True:\n"),
    ),
    mutant(
        "hook-in-no-repository",
        "a hook whose directory is gone runs in no git repository",
        "what it does to its agent's work, it does to the person's",
        "tests/launches/test_hook_places.py::test_where_it_runs",
        ("launches/hooks.py", " and not is_in_repository(folder):", ":"),
    ),
    mutant(
        "more-keys",
        "keys of more providers, and a password in a sentence, are removed",
        "they are kept in launch.json",
        "tests/files/test_more_keys.py::test_they_are_removed",
        ("files/redaction.py", "    text = without_more(text, REDACTED)\n", ""),
    ),
)
