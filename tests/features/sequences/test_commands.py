"""The `sequences` commands as whoever types them sees them."""

import json
import subprocess
from pathlib import Path
from typing import Any

from tests.support.program import Program
from tests.support.scene import Connection

Done = subprocess.CompletedProcess[bytes]
DRIP = """
name: drip
stopOn: bought
steps:
  - {name: hello, stepOrder: 1, dayOffset: 0, sendHour: 9, channel: sms, content: "Hello {{ contact.name }}"}
  - {name: more, stepOrder: 2, dayOffset: 3, sendHour: 9, channel: sms, content: "More"}
"""


def _said(result: Done, code: int = 0) -> str:
    assert result.returncode == code, result.stderr.decode()
    assert b"Traceback" not in result.stderr
    return (result.stderr if code else result.stdout).decode()


def _records(result: Done) -> list[dict[str, Any]]:
    return [json.loads(line) for line in _said(result).splitlines()]


async def test_a_sequence_is_put_published_filled_operated_and_deleted(
    program: Program, connection: Connection, tmp_path: Path
) -> None:
    await connection.execute(
        "SELECT dispatcher.put_contact('default', 'default', 'ann', '{\"name\": \"Ann\"}', 'put', NULL, 'x')"
    )
    (file := tmp_path / "drip.yaml").write_text(DRIP)
    assert "its draft is saved" in _said(program.run("sequences", "put", str(file)))
    assert "is not published" in program.run("sequences", "sync", str(tmp_path), "--check", "--publish").stdout.decode()
    assert "version 1 is published" in _said(program.run("sequences", "publish", "drip"))
    assert "stored as they are here" in _said(program.run("sequences", "sync", str(tmp_path), "--check"))
    shown = _said(program.run("sequences", "preview", "drip", "--contact", "ann"))
    assert "no address" in shown
    assert "1 enrolled, 0 skipped" in _said(program.run("sequences", "enrol", "drip", "ann"))
    assert "already enrolled: 1" in _said(program.run("sequences", "enrol", "drip", "--audience", '{"all": true}'))
    (row,) = _records(program.run("sequences", "enrolments", "drip", "--json"))
    number = str(row["id"])
    assert "is paused" in _said(program.run("sequences", "change", "pause", number, "--reason", "x"))
    assert "1 enrolment of drip is resumed" in _said(
        program.run("sequences", "change-all", "resume", "drip", "--reason", "x")
    )
    assert "drip" in _said(program.run("sequences", "enrolment", number))
    file.write_text(DRIP.replace("dayOffset: 3", "dayOffset: 5"))
    assert "says something else" in program.run("sequences", "sync", str(tmp_path), "--check").stdout.decode()
    assert "version 2" in _said(program.run("sequences", "sync", str(tmp_path), "--publish"))
    assert _said(program.run("sequences", "move", "drip", "--from", "1", "--to", "2"))
    assert "1 enrolment of drip is moved" in _said(
        program.run("sequences", "move", "drip", "--from", "1", "--to", "2", "--yes")
    )
    assert "is paused" in _said(program.run("sequences", "pause", "drip", "--reason", "x"))
    assert "goes on" in _said(program.run("sequences", "resume", "drip", "--reason", "x"))
    assert "hello" in _said(program.run("sequences", "show", "drip"))
    assert "open enrolments" in _said(program.run("sequences", "delete", "drip"), 1)
    assert "is cancelled" in _said(program.run("sequences", "change-all", "cancel", "drip", "--reason", "x"))
    assert "is deleted" in _said(program.run("sequences", "delete", "drip"))
    assert "There are no sequences" in _said(program.run("sequences", "list"))


async def test_every_fault_of_every_file_is_named(program: Program, tmp_path: Path) -> None:
    (tmp_path / "one.yaml").write_text(DRIP.replace("channel: sms", "channel: smss", 1))
    (tmp_path / "two.yaml").write_text(
        DRIP.replace("name: drip", "name: other").replace("stepOrder: 2", "stepOrder: 1")
    )
    said = _said(program.run("sequences", "sync", str(tmp_path)), 3)
    assert "one.yaml: $.steps[0].channel" in said
    assert "two.yaml: $.steps[1].stepOrder" in said
