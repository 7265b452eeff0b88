"""The `caps` commands as whoever types them sees them."""

import subprocess

from tests.support.program import Program

Done = subprocess.CompletedProcess[bytes]
WEEKLY = ("caps", "put", "weekly", "--messages", "3", "--period", "7d", "--channel", "sms", "--channel", "email")


def _said(result: Done, code: int = 0) -> str:
    assert result.returncode == code, result.stderr.decode()
    assert b"Traceback" not in result.stderr
    return (result.stderr if code else result.stdout).decode()


async def test_a_cap_is_put_looked_at_and_deleted(program: Program) -> None:
    assert "There are no caps." in _said(program.run("caps", "list"))
    assert _said(program.run(*WEEKLY, "--actor", "ann")) == "cap weekly is saved: 3 in 7d\n"
    assert "says this already" in _said(program.run(*WEEKLY))
    assert "is changed" in _said(program.run(*WEEKLY, "--topic", "news", "--actor", "bob"))
    listed = _said(program.run("caps", "list"))
    assert "email, sms" in listed
    assert "bob" in listed
    assert "news" in _said(program.run("caps", "show", "weekly"))
    assert "weekly is deleted" in _said(program.run("caps", "delete", "weekly"))
    assert "weekly" in _said(program.run("caps", "delete", "weekly"), 1)


async def test_every_fault_is_said(program: Program) -> None:
    said = _said(program.run("caps", "put", "none", "--messages", "0", "--period", "7d", "--channel", "sms"), 3)
    assert "messages" in said
    said = _said(program.run("caps", "put", "none", "--messages", "1", "--period", "7", "--channel", "smss"), 3)
    assert "period" in said
    assert 'did you mean "sms"?' in said
