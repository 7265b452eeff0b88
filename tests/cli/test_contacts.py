"""The `contacts` commands as whoever types them sees them."""

import json
from typing import Any

import pytest

from tests.cli.test_operate import rows, text
from tests.support.program import Program


async def test_a_contact_is_written_shown_listed_and_deleted(program: Program) -> None:
    words = ("--name", "Ann Lee", "--tag", "b", "--tag", "a", "--email", "Ann@Example.org", "--attribute", "seats=3")
    assert text(program.run("contacts", "create", "ann", *words)).strip() == "contact ann is created: version 1"
    again = program.run("contacts", "create", "ann")
    assert (again.returncode, b"there is a contact with this key" in again.stderr) == (1, True)
    program.run("contacts", "upsert", "ann", "--company", "Lee")
    (shown,) = rows(program.run("contacts", "show", "ann", "--json"))
    assert (shown["version"], shown["tags"], shown["attributes"]) == (2, ["a", "b"], {"seats": 3})
    listed = text(program.run("contacts", "list", "--company", "Lee", "--address", "ann@example.org"))
    assert "Ann@example.org" in listed
    assert "is deleted" in text(program.run("contacts", "delete", "ann"))
    assert program.run("contacts", "show", "ann").returncode == 1


async def test_faults_of_csv_name_the_line_and_the_column(program: Program) -> None:
    lines = [
        "key,email,phone,tags,time_zone,attributes.plan",
        "a,ann@example.org;nobody,+4917012345,x,UTC,gold",
        "b,,12,x,Mars/Base,",
        f"c,,,{'y' * 500},UTC,",
    ]
    ended = program.run("contacts", "import", "-", stdin="\n".join(lines).encode())
    assert (ended.returncode, text(ended, 3)) == (3, "created 0, changed 0, same 0, refused 3\n")
    said = [line.strip() for line in ended.stderr.decode().splitlines()]
    assert [line.split(": ")[0] for line in said] == [
        *("line 2", "column email"),
        *("line 3", "column time_zone", "column phone"),
        *("line 4", "column tags"),
    ]


async def test_a_file_is_imported_and_every_refused_line_is_named(program: Program) -> None:
    lines = ["key,name,email,tags", "a,Ann,ann@example.org,x; y", "b,Bob,bob", "c,Cid,ann@example.org,", "d,Dan,,"]
    ended = program.run("contacts", "import", "-", "--json", stdin="\n".join(lines).encode())
    assert (ended.returncode, rows_of(ended.stdout)) == (3, [{"created": 2, "changed": 0, "same": 0, "refused": 2}])
    refused = rows_of(ended.stderr)
    assert [(one["line"], one["faults"][0]["path"]) for one in refused] == [(3, "line"), (4, "column addresses")]
    out = program.run("contacts", "export").stdout
    assert [one["key"] for one in rows_of(out)] == ["a", "d"]
    back = program.run("contacts", "import", "-", stdin=out)
    assert (back.returncode, text(back).strip()) == (0, "created 0, changed 0, same 2, refused 0")


async def test_a_timeline_says_why_and_an_export_says_everything(program: Program) -> None:
    program.run("send", "--channel", "email", "--to", "ann@example.org", "--part", "subject=Hi", "--key", "order-1")
    program.run("contacts", "upsert", "ann", "--email", "Ann@Example.org")
    shown = text(program.run("contacts", "timeline", "ANN@example.org"))
    assert "an application wrote it with the key order-1" in shown
    (entry,) = rows(program.run("contacts", "timeline", "ann@example.org", "--json"))
    assert (entry["kind"], entry["subject"], entry["life"]) == ("delivery", "Hi", "pending")
    records = rows(program.run("contacts", "export-person", "--contact", "ann"))
    assert [one["record"] for one in records] == ["contact", "delivery"]


async def test_a_person_is_erased_only_after_a_confirmation(program: Program) -> None:
    program.run("send", "--channel", "email", "--to", "ann@example.org", "--part", "subject=Hi", "--key", "order-1")
    words = ("contacts", "erase", "ann@example.org", "--reason", "by letter", "--actor", "bob")
    unsure = program.run(*words)
    assert (unsure.returncode, b"confirm with --yes" in unsure.stderr) == (1, True)
    assert "is done: 1 delivery, 0 runs" in text(program.run(*words, "--yes", "--all-workspaces"))
    (row,) = rows(program.run("contacts", "erasures", "--json"))
    assert (row["actor"], row["reason"], row["deliveries"]) == ("bob", "by letter", 1)
    assert "Nothing was sent to ann@example.org here" in text(program.run("contacts", "timeline", "ann@example.org"))
    again = program.run("send", "--channel", "sms", "--to", "+4917012345", "--body", "x", "--key", "order-1")
    assert "duplicate" in text(again)


def rows_of(output: bytes) -> list[dict[str, Any]]:
    """JSON, one object a line."""
    return [json.loads(line) for line in output.splitlines()]


@pytest.mark.parametrize(
    ("words", "code", "fault"),
    [
        (("create", "a b"), 3, "letters, digits"),
        (("create", "a", "--time-zone", "Mars", "--email", "x"), 3, "time_zone: there is no such time zone"),
        (("create", "a", "--address", "fax=1"), 3, "one of email"),
        (("update", "nobody", "--name", "x"), 1, "there is no contact 'nobody'"),
        (("import", "-", "--mode", "x"), 2, "upsert, create, put"),
        (("export-person",), 2, "name an address, or a contact"),
        (("export-person", "--contact", "nobody"), 1, "there is no contact 'nobody'"),
        (("delete", "nobody"), 1, "there is no contact 'nobody'"),
    ],
)
async def test_impossible_actions_are_refused_with_a_sentence(
    program: Program, words: tuple[str, ...], code: int, fault: str
) -> None:
    ended = program.run("contacts", *words)
    assert (ended.returncode, ended.stdout) == (code, b"")
    assert fault in ended.stderr.decode()
