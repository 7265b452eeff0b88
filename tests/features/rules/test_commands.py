"""The `rules`, `notify` and `settings` commands as whoever types them sees them."""

import json
import subprocess
from pathlib import Path

import pytest

from tests.support.program import Program
from tests.support.rules import put_template
from tests.support.scene import Connection

Done = subprocess.CompletedProcess[bytes]
RULE = """
trigger: quote_sent
channel: email
audience: lead
steps:
  - template: quote/sent
  - {template: quote/sent, offset: 3d, recipients: {customEmails: [bo@example.org]}}
"""


@pytest.fixture(autouse=True)
async def template(connection: Connection) -> None:
    """What is sent."""
    await put_template(connection, reads=["lead.name", "quote.number"])


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder under version control."""
    (tmp_path / "quote.yaml").write_text(RULE)
    return tmp_path


def _said(result: Done, code: int = 0) -> str:
    assert result.returncode == code, (result.stdout + result.stderr).decode()
    assert b"Traceback" not in result.stderr
    return (result.stderr if code > 1 else result.stdout).decode()


async def test_rules_are_kept_in_files(program: Program, folder: Path) -> None:
    assert "is not stored (quote.yaml)" in _said(program.run("rules", "sync", str(folder), "--check"), 1)
    assert "rule quote_sent/email/lead: version 1 is saved" in _said(program.run("rules", "sync", str(folder)))
    assert "all 1 are stored as they are here" in _said(program.run("rules", "sync", str(folder), "--check"))
    (folder / "quote.yaml").write_text(RULE.replace("3d", "4d"))
    assert "says something else" in _said(program.run("rules", "sync", str(folder), "--check"), 1)
    assert "is changed" in _said(program.run("rules", "put", str(folder / "quote.yaml")))
    shown = json.loads(_said(program.run("rules", "show", "quote_sent/email/lead", "--json")))
    assert [step["offset"] for step in shown["steps"]] == ["0s", "4d"]
    assert "quote_sent/email/lead" in _said(program.run("rules", "list"))


async def test_every_fault_is_named_with_its_file(program: Program, folder: Path) -> None:
    (folder / "other.yaml").write_text(RULE.replace("quote_sent", "quote_snet"))
    (folder / "third.yaml").write_text("trigger: [")
    said = program.run("rules", "sync", str(folder))
    assert said.returncode == 3
    assert b"third.yaml" in said.stderr
    (folder / "third.yaml").unlink()
    said = program.run("rules", "sync", str(folder))
    assert b"other.yaml: $.trigger: there is no trigger 'quote_snet'; did you mean \"quote_sent\"?" in said.stderr


async def test_a_rule_is_switched_and_an_event_told_and_explained(
    program: Program, folder: Path, connection: Connection
) -> None:
    _said(program.run("rules", "put", str(folder / "quote.yaml")))
    explained = _said(program.run("rules", "explain", "quote_sent", "--var", 'quote={"number": "Q-9"}'))
    assert "found lead.email ann@example.org; sent to ann@example.org" in explained
    assert "Hello Ann Lee Q-9" in explained
    assert await connection.fetchval("SELECT count(*) FROM dispatcher.deliveries") == 0
    lead = '{"name": "Ann", "email": "ann@example.org"}'
    tell = ("notify", "quote_sent", "--var", 'quote={"number": "Q-9"}', "--lead", lead, "--message-id", "one")
    assert "scheduled" in _said(program.run(*tell))
    assert "duplicate (scheduled)" in _said(program.run(*tell))
    assert await connection.fetchval("SELECT count(*) FROM dispatcher.deliveries") == 2
    assert "is disabled" in _said(program.run("rules", "disable", "quote_sent/email/lead"))
    assert "was disabled before" in _said(program.run("rules", "disable", "quote_sent/email/lead"))
    assert "suppressed" in _said(program.run(*tell[:-1], "two"))
    assert "is deleted" in _said(program.run("rules", "delete", "quote_sent/email/lead"))
    assert "the built-in" not in _said(program.run(*tell[:-1], "three"))
    assert "quote_rejected" in _said(program.run("rules", "triggers"))
    assert "did you mean" in _said(program.run("notify", "quote_snet"), 3)


async def test_settings_are_saved_and_shown(program: Program) -> None:
    assert _said(program.run("settings", "show")) == "phone region none, time zone UTC\n"
    put = ("settings", "put", "--phone-region", "DE", "--time-zone", "Europe/Berlin")
    assert _said(program.run(*put)) == "phone region DE, time zone Europe/Berlin\n"
    assert "is not a region" in _said(program.run("settings", "put", "--phone-region", "XX"), 3)
