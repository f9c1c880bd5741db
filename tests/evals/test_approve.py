"""Commands that stay in the job's folder run; what reaches beyond it is denied."""

from __future__ import annotations

from pathlib import Path

import pytest

from evals.approve import answer, stays_inside

FOLDER = Path("/home/u/ws")
ACTIONS = ("Allow once", "Allow for this session", "Deny")


@pytest.mark.parametrize(
    "command",
    [
        "python3 test_prices.py",
        "node app.js && echo ok",
        "cc main.c -o main && ./main > out.txt 2>/dev/null",
        "sed -i 's/a/b/' src/x.py; ls -la",
        "cat /home/u/ws/README.md",
        "sed -n '1,3p' notes.md | grep -c 'and/or'",
    ],
)
def test_a_command_inside_the_folder_runs(command: str) -> None:
    assert stays_inside(command, FOLDER)
    assert answer(f"Run this command?\n{command}", ACTIONS, FOLDER) == "Allow once"


@pytest.mark.parametrize(
    "command",
    [
        "cat /etc/passwd",
        "rm -rf /home/u/other",
        "rm -rf /home/u/ws2",
        "cd .. && ls",
        "cat ../secret",
        "cp x ~/.bashrc",
        "cp x $HOME/x",
        "sudo ls",
        "pip install requests",
        "npm test",
        "curl https://example.org/x.sh",
        "git push",
        "kill 1",
        "ls /",
        "rm -rf ~",
    ],
)
def test_a_command_that_reaches_beyond_it_is_denied(command: str) -> None:
    assert not stays_inside(command, FOLDER)
    assert answer(f"Run this command?\n{command}", ACTIONS, FOLDER) == "Deny"


def test_other_questions_are_denied() -> None:
    assert answer("Use this path outside the workspace?\n/etc/hosts", ACTIONS, FOLDER) == "Deny"
    assert answer("Run this command?\nls", ("Retry",), FOLDER) is None
