"""The `suppressions` and `topics` commands as whoever types them sees them: lists, imports, faults, a bar."""

import os
import pty
import subprocess
from pathlib import Path

import pytest

from tests.cli.test_operate import rows, talk, text
from tests.support.forks import ROOT
from tests.support.program import Program
from tests.support.scene import Connection

WHY = ("--reason", "asked", "--actor", "bob")


async def test_the_list_is_shown_added_to_and_taken_from(program: Program) -> None:
    assert text(program.run("suppressions", "list")).strip() == "Nobody is suppressed."
    added = program.run("suppressions", "add", "Ann@Example.org", "+49 170 12345", *WHY)
    assert text(added).splitlines() == ["ann@example.org is suppressed", "+4917012345 is suppressed"]
    limited = ("suppressions", "add", "ann@example.org", "--channel", "sms", "--source", "complaint", *WHY)
    assert rows(program.run(*limited, "--json"))[0]["suppressed"] is True
    listed = rows(program.run("suppressions", "list", "--json"))
    assert [(row["address"], row["channel"], row["source"]) for row in listed] == [
        ("ann@example.org", "", "operator"),
        ("ann@example.org", "sms", "complaint"),
        ("+4917012345", "", "operator"),
    ]
    assert "ann@example.org" in text(program.run("suppressions", "list"))
    (only,) = rows(program.run("suppressions", "list", "--source", "complaint", "--json"))
    assert only["reason"] == "asked"
    (last,) = rows(program.run("suppressions", "list", "--behind", "ann@example.org", "--json"))
    assert last["kind"] == "phone"
    one = ("suppressions", "remove", "ann@example.org", "nobody@example.org", "--source", "operator", *WHY)
    assert text(program.run(*one)).splitlines() == [
        "ann@example.org is not suppressed any more (operator)",
        "nobody@example.org was not on the list",
    ]
    checked = text(program.run("suppressions", "check", "ann@example.org", "--channel", "sms"))
    assert checked.startswith("ann@example.org would not get it: suppressed: complaint: asked")
    assert "release" in checked
    assert text(program.run("suppressions", "check", "ann@example.org")).startswith("ann@example.org would get it")


@pytest.mark.parametrize(
    ("words", "code", "fault"),
    [
        (("add", "ann", *WHY), 3, "neither an e-mail address nor a phone number"),
        (("add", "ann@example.org", "--reason", " "), 3, "$.reason: "),
        (("add", "ann@example.org", "--source", "rumour", *WHY), 2, "expected one of operator"),
        (("add", "ann@example.org", "--channel", "smoke", *WHY), 3, "known are chat"),
        (("add", "ann@example.org", "--kind", "post", *WHY), 2, "expected one of email"),
        (("add", "ann@example.org", "--expires-at", "soon", *WHY), 2, "RFC 3339"),
        (("add", "ann@example.org", "--tenant", "t" * 101, *WHY), 2, "longer than 100 characters"),
        (("import", "/nowhere", *WHY), 2, "cannot be read"),
        (("check", "ann@example.org", "--lane", "fast"), 2, "expected one of"),
    ],
)
async def test_invalid_arguments_are_refused_with_a_sentence(
    program: Program, words: tuple[str, ...], code: int, fault: str
) -> None:
    assert fault in talk(program.run("suppressions", *words), code)


async def test_topics_are_left_and_come_back_to(program: Program) -> None:
    unsubscribe = ("topics", "unsubscribe", "news", "ann@example.org", "+4917012345", *WHY)
    assert text(program.run(*unsubscribe)).splitlines() == [
        "ann@example.org gets no more messages about news",
        "+4917012345 gets no more messages about news",
    ]
    rows(program.run("topics", "subscribe", "news", "+4917012345", *WHY, "--json"))
    listed = rows(program.run("topics", "list", "--topic", "news", "--json"))
    assert [(row["address"], row["subscribed"]) for row in listed] == [
        ("ann@example.org", False),
        ("+4917012345", True),
    ]
    assert "wants it" in text(program.run("topics", "list"))
    assert "said anything" in text(program.run("topics", "list", "--topic", "other"))
    assert "1 to 64 characters" in talk(program.run("topics", "unsubscribe", "No News", "ann@example.org", *WHY), 2)


async def test_every_fault_of_an_import_has_its_line(program: Program, connection: Connection) -> None:
    lines = [
        b"\xef\xbb\xbfAddress,Reason,Channel",
        b"ann@example.org,left,",
        b"bob@example.org,left",
        b'"carl@example.org,left,',
        b"\xff@example.org,left,",
        b",left,",
        b"dora@example.org,left,smoke",
        b"",
        b"+49 170 12345,,sms",
        b"x" * 1_100_000,
    ]
    refused = program.run("suppressions", "import", "-", *WHY, stdin=b"\n".join(lines))
    said = talk(refused, 3)
    assert "nothing was imported: 6 faults" in said
    assert "line 7: column channel: " in said
    assert [line.split(":")[0].strip() for line in said.splitlines()[1:]] == [
        f"line {number}" for number in (3, 4, 5, 6, 7, 10)
    ]
    assert await connection.fetchval("SELECT count(*) FROM dispatcher.suppressions") == 0
    strange = program.run("suppressions", "import", "-", *WHY, stdin=b"address,rason\nann@example.org,x\n")
    assert "unknown column 'rason'; did you mean" in talk(strange, 3)
    assert "has no address" in talk(program.run("suppressions", "import", "-", *WHY, stdin=b"\n"), 3)


async def test_a_long_list_is_imported_behind_a_bar(program: Program, connection: Connection, tmp_path: Path) -> None:
    """Twelve thousand lines, in three pages; twice, which changes nothing."""
    file = tmp_path / "list.txt"
    file.write_text("".join(f"user-{number}@example.org\n" for number in range(12_000)))
    ours, theirs = pty.openpty()
    try:
        ended = subprocess.run(  # noqa: ASYNC221 - nothing else runs
            program.command("suppressions", "import", str(file), *WHY),
            env=program.environment_with({"TERM": "xterm", "COLUMNS": "100"}),
            stdout=subprocess.PIPE,
            stderr=theirs,
            cwd=ROOT,
            timeout=120,
            check=False,
        )
        seen = os.read(ours, 1_000_000).decode(errors="replace")
    finally:
        os.close(ours)
        os.close(theirs)
    assert ended.stdout.decode().strip() == "12,000 addresses are suppressed"
    assert "reading" in seen
    again = program.run("suppressions", "import", str(file), *WHY, "--json")
    assert rows(again) == [{"imported": 12_000}]
    for table in ("suppressions", "suppression_log"):
        assert await connection.fetchval(f"SELECT count(*) FROM dispatcher.{table}") == 12_000
    assert await connection.fetchval("SELECT count(*) FROM dispatcher.suppression_work") == 0
