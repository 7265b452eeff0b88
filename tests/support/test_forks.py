"""What the tests start by fork is what anybody starts: it says the same, and ends the same way."""

import os
import signal
import subprocess

import pytest

from tests.support.forks import forks
from tests.support.program import Program

NOWHERE = "postgresql://postgres@127.0.0.1:1/nothing?connect_timeout=1"


@pytest.fixture
def program() -> Program:
    """A program without a database; what forks is there before the test."""
    forks()
    return Program(NOWHERE)


@pytest.mark.parametrize("words", ["--version", "keys --help", "nonsense", "config show --json", "config check"])
@pytest.mark.parametrize("level", ["error", "no such level"])
def test_a_fork_prints_what_a_process_prints(program: Program, words: str, level: str) -> None:
    forked = program.run(*words.split(), DISPATCHER_LOG__LEVEL=level)
    environment = program.environment_with({"DISPATCHER_LOG__LEVEL": level})
    anew = subprocess.run(program.command(*words.split()), env=environment, capture_output=True, check=False)
    assert (forked.returncode, forked.stdout, forked.stderr) == (anew.returncode, anew.stdout, anew.stderr)


def test_tests_start_forks(program: Program) -> None:
    environment = program.environment_with({"FAULT": "none"})
    assert forks().suits(environment), environment.items() ^ forks().environment.items()


def test_it_has_the_environment_that_it_is_given(program: Program) -> None:
    assert b"shown-here" in program.run("config", "show", DISPATCHER_INSTANCE__NAME="shown-here").stdout
    assert b"shown-here" not in program.run("config", "show").stdout


def test_variables_that_python_reads_at_start_need_a_new_process(program: Program) -> None:
    said = program.run("--version", PYTHONVERBOSE="1").stderr
    assert b"import " in said


async def test_signals_reach_it_and_its_end_is_known(program: Program) -> None:
    try:
        for number, code in ((signal.SIGTERM, 0), (signal.SIGKILL, -signal.SIGKILL)):
            await program.launch()
            process = program.process
            assert process is not None
            assert process.poll() is None
            os.kill(process.pid, 0)
            program.signal(number)
            assert await program.ended() == code
            assert (process.poll(), process.returncode) == (code, code)
            program.signal(number)
    finally:
        program.end()
