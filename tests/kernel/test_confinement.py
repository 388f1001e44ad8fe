"""Is another process as free as we are? Only then it gains nothing by what agentctl does at its word."""

from __future__ import annotations

import os
import subprocess

import pytest

from agentctl.kernel import confinement

FREE = {"NoNewPrivs": "0", "Seccomp": "0", "Uid": "7\t7\t7\t7", "CapEff": "0000000000000000"}


@pytest.mark.parametrize(
    ("theirs", "ours", "says"),
    [
        ({}, {}, None),
        ({"NoNewPrivs": "1"}, {}, "privileges"),
        ({"Seccomp": "2"}, {}, "filtered"),
        ({"Seccomp": "2", "Seccomp_filters": "2"}, {"Seccomp": "2", "Seccomp_filters": "1"}, "filtered"),
        ({"Seccomp": "2", "Seccomp_filters": "1"}, {"Seccomp": "2", "Seccomp_filters": "1"}, None),
        ({}, {"NoNewPrivs": "1"}, None),
        ({"Uid": "7\t8\t8\t8"}, {}, "another user"),
        ({}, {"CapEff": "0000000000000001"}, "capabilities"),
        ({"CapEff": "0000000000000003"}, {"CapEff": "0000000000000001"}, None),
    ],
)
def test_what_the_kernel_says_of_both(theirs: dict[str, str], ours: dict[str, str], says: str | None) -> None:
    found = confinement.why_restricted({**FREE, **theirs}, {**FREE, **ours})
    assert (found is None) if says is None else (says in str(found))


@pytest.mark.linux
def test_a_process_that_is_gone_is_not_proved() -> None:
    with subprocess.Popen(["true"]) as child:
        pass
    assert confinement.why_confined(child.pid) is not None
    assert confinement.why_confined(os.getpid()) is None
