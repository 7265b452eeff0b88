"""The `objects` commands as whoever types them sees them."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from dispatcher.features.objects.models import OBJECT_BYTES_MAX
from tests.support.program import Program

Done = subprocess.CompletedProcess[bytes]


def said(result: Done, code: int = 0) -> str:
    """Standard output, or standard error of what failed, of a command that ended with this code."""
    assert result.returncode == code, result.stderr.decode()
    assert b"Traceback" not in result.stderr
    return (result.stderr if code else result.stdout).decode()


def record(result: Done) -> dict[str, Any]:
    """The one JSON object that a command wrote."""
    found: dict[str, Any] = json.loads(said(result))
    return found


@pytest.fixture
def invoice(tmp_path: Path) -> Path:
    """A file."""
    path = tmp_path / "invoice.pdf"
    path.write_bytes(b"%PDF-1.7")
    return path


async def test_an_object_is_put_listed_shown_and_deleted(program: Program, invoice: Path) -> None:
    assert said(program.run("objects", "list")) == "There are no objects here.\n"
    assert said(program.run("objects", "put", str(invoice))) == "invoice.pdf is kept: 8 bytes of application/pdf\n"
    assert "kept already" in said(program.run("objects", "put", str(invoice)))
    again = record(program.run("objects", "put", "-", "--name", "a/b", "--json", stdin=b"x"))
    assert (again["answer"], again["name"], again["content_type"]) == ("stored", "a/b", "application/octet-stream")
    listed = [json.loads(line) for line in said(program.run("objects", "list", "--json")).splitlines()]
    assert [one["name"] for one in listed] == ["a/b", "invoice.pdf"]
    assert record(program.run("objects", "show", "invoice.pdf", "--json"))["size"] == 8
    assert "--yes" in said(program.run("objects", "delete", "a/b"), 1)
    assert said(program.run("objects", "delete", "a/b", "--yes")) == "a/b is erased\n"
    assert "erased 2" in said(program.run("objects", "list"))
    assert said(program.run("objects", "delete", "a/b", "--yes")) == "a/b was erased before\n"


async def test_invalid_values_are_named(program: Program, invoice: Path, tmp_path: Path) -> None:
    program.run("objects", "put", str(invoice))
    invoice.write_bytes(b"another")
    assert "means another content" in said(program.run("objects", "put", str(invoice)), 1)
    assert "there is no object x" in said(program.run("objects", "show", "x"), 1)
    assert "there is no object x" in said(program.run("objects", "delete", "x", "--yes"), 1)
    assert "cannot be read" in said(program.run("objects", "put", str(tmp_path / "none")), 2)
    assert "name it with --name" in said(program.run("objects", "put", str(invoice), "--name", "a b"), 2)
    assert "not a media type" in said(program.run("objects", "put", str(invoice), "--type", "pdf"), 2)
    assert "--tenant" in said(program.run("objects", "put", str(invoice), "--tenant", "t" * 101), 2)
    large = tmp_path / "large"
    with large.open("wb") as file:
        file.truncate(OBJECT_BYTES_MAX + 1)
    assert "larger than" in said(program.run("objects", "put", str(large)), 2)
