"""Contacts on a database and through a server: written, listed, imported by the file, and each refused the same way."""

import asyncio
import csv
import io
import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.cli.test_operate import rows, talk, text
from tests.cli.test_remote import cutting, said
from tests.support.caller import make_key
from tests.support.program import Program
from tests.support.remote_cli import Cli, Done, RemoteCli, same

MODES = ("upsert", "create", "put")
# More lines than a request takes contacts.
MANY = 1_200
NOBODY = "There are no such contacts here.\n"


def conflict(done: Done) -> str:
    """Why a command wrote nothing, where it is not the command's fault."""
    error = said(done, 1)
    assert error["error"] == "Conflict"
    return str(error["message"])


async def test_a_contact_is_written_shown_found_and_deleted(cli: Cli, serving: Program, remote: RemoteCli) -> None:
    key = type(cli).__name__.lower()
    mail, phone = f"Ann.{key}@Exämple.org", "+491701" if key == "remotecli" else "+491702"
    words = ("--name", "Ann Lee", "--company", "Lee", "--tag", "b", "--tag", key, "--email", f"Ann <{mail}>")
    more = ("--phone", phone, "--address", "push=t/1 = 2", "--attributes", '{"n": 1.50, "big": 73786976294838206464}')
    assert text(cli.run("contacts", "create", key, *words, *more)) == f"contact {key} is created: version 1\n"
    assert conflict(cli.run("contacts", "create", key, "--json")) == f"contact {key}: there is a contact with this key"
    less = ("--attributes", '{"big": null, "deep": [{"ä": null}]}')
    changed = rows(cli.run("contacts", "update", key, *less, "--json"))
    assert changed == [{"key": key, "answer": "changed", "version": 2}]
    again = text(cli.run("contacts", "upsert", key, "--tag", key, "--tag", "b"))
    assert again == f"contact {key} says this already: version 2\n"
    for command in (
        ("show", key, "--json"),
        ("show", key),
        ("list", "--json"),
        ("list", "--company", "Lee", "--after", "a", "--limit", "1"),
        ("list", "--address", f"ann.{key}@xn--exmple-cua.org", "--status", "active", "--tag", key),
        ("export",),
    ):
        assert key in await same(serving, remote, "contacts", *command)
    for nobody in (
        ("--address", phone, "--tag", "other"),
        ("--address", "nobody@example.org"),
        ("--address", phone, "--after", key),
    ):
        assert await same(serving, remote, "contacts", "list", *nobody) == NOBODY
    (found,) = rows(cli.run("contacts", "list", "--address", phone.replace("+", "00"), "--json"))
    assert (found["key"], found["attributes"]) == (key, {"n": 1.5, "deep": [{"ä": None}]})
    assert found["addresses"][0] == {"kind": "email", "address": f"Ann.{key}@xn--exmple-cua.org"}
    assert text(cli.run("contacts", "put", key, "--name", "Bob")) == f"contact {key} is changed: version 3\n"
    (put,) = rows(cli.run("contacts", "show", key, "--json"))
    assert (put["name"], put["company"], put["tags"], put["addresses"]) == ("Bob", None, [], [])
    assert text(cli.run("contacts", "delete", key)) == f"contact {key} is deleted\n"
    assert f"there is no contact '{key}'" in talk(cli.run("contacts", "delete", key), 1)


async def test_impossible_actions_are_refused_alike_locally_and_remotely(serving: Program, remote: RemoteCli) -> None:
    text(serving.run("contacts", "put", "holder", "--email", "held@example.org", "--attribute", "n=1"))
    large = json.dumps({"x": [1e300] * 200})
    for command in (
        ("show", "nobody"),
        ("show", ""),
        ("show", "a b", "--json"),
        ("delete", "a/../b"),
        ("delete", ""),
        ("delete", "nobody", "--json"),
        ("update", "nobody", "--name", "x", "--json"),
        ("create", "a b", "--time-zone", "Mars", "--email", "x", "--tag", ""),
        ("put", "rival", "--email", "HELD@example.org"),
        ("put", "rival", "--email", "held@example.org", "--json"),
        ("upsert", "holder", "--attributes", large),
        ("create", "rival", "--attributes", "[1]"),
        ("list", "--address", "nobody"),
        ("list", "--company", ""),
        ("list", "--status", "x" * 300, "--json"),
        ("import", "-", "--mode", "update"),
        ("import", "/nowhere"),
    ):
        assert await same(serving, remote, "contacts", *command) == ""
    taken = conflict(remote.run("contacts", "put", "rival", "--email", "held@example.org", "--json"))
    assert taken == "contact rival: the address email held@example.org is another contact's"
    too_large = said(remote.run("contacts", "upsert", "holder", "--attributes", large, "--json"), 3)
    assert [fault["path"] for fault in too_large["faults"]] == ["$.attributes"]
    (shown,) = rows(remote.run("contacts", "show", "holder", "--json"))
    assert (shown["version"], shown["attributes"]) == (1, {"n": 1})


@pytest.mark.parametrize("command", ["create x", "show x", "list", "delete x", "import -", "export"])
async def test_a_foreign_workspace_is_refused_before_any_change(remote: RemoteCli, command: str) -> None:
    asked = ("contacts", *command.split())
    # No line of it is sound: nothing would be asked for.
    elsewhere = said(remote.run(*asked, "--tenant", "acme", "--workspace", "main", "--json", stdin=b"7\n"), 2)
    assert elsewhere["error"] == "OtherWorkspace"
    assert [fault["path"] for fault in elsewhere["faults"]] == ["--tenant", "--workspace"]
    assert remote.run(*asked, "--tenant", "default", "--workspace", "default").returncode != 2
    if command in ("create x", "import -"):
        assert "it writes the name of the key" in talk(remote.run(*asked, "--actor", "ann"), 2)


def people(count: int) -> list[dict[str, Any]]:
    """Contacts of which some have faults, some are there already, and some stand twice."""
    made: list[dict[str, Any]] = [
        {
            "key": f"p{number % (count - 20)}",
            "name": f"Änn {number}",
            "tags": ["b", "a"],
            "attributes": {"n": number / 8},
        }
        for number in range(count)
    ]
    made[3] |= {"email": "Ann <Ann@Exämple.org>", "phone": "0049 (0) 170 12345", "push": "token/1 = ;"}
    made[4]["email"] = "ann@exämple.org"
    made[5] |= {"time_zone": "Mars", "email": "nobody", "status": "x" * 200}
    made[6] |= {"key": "a b", "locale": "pt_br"}
    made[7] |= {"key": "there", "name": "Changed"}
    made[8]["attributes"] = {"big": 2**70, "x": [1e22, None, {"deep": "\u2028"}]}
    made[9]["attributes"] = {"x": [1e300] * 200}
    return made


def as_json(contacts: list[dict[str, Any]]) -> bytes:
    """A file of JSON, one object a line; some lines are none."""
    kinds = ("email", "phone", "push")
    lines = [
        json.dumps(
            {name: value for name, value in one.items() if name not in kinds}
            | {"addresses": [{"kind": kind, "address": one[kind]} for kind in kinds if kind in one]}
        ).encode()
        for one in contacts
    ]
    faulty = [b"no JSON", b"", b"[7]", b"\xff{}", b"x" * 1_100_000, b'{"nam": 1}', b'{"key": "nul", "name": "\\u0000"}']
    return b"\n".join([*lines[:11], *faulty, *lines[11:]])


def as_csv(contacts: list[dict[str, Any]]) -> bytes:
    """The same as a table."""
    columns = ["key", "name", "tags", "time_zone", "status", "locale", "email", "phone", "push", "attributes"]
    text = io.StringIO()
    table = csv.DictWriter(text, columns, lineterminator="\n")
    table.writeheader()
    for one in contacts:
        table.writerow(one | {"tags": ";".join(one["tags"]), "attributes": json.dumps(one["attributes"])})
    return text.getvalue().encode() + b"one,two\n"


@pytest.mark.parametrize(("mode", "write"), [*((mode, as_json) for mode in MODES), ("upsert", as_csv)])
async def test_a_file_becomes_the_same_contacts_and_the_same_refusals(
    serving: Program, mode: str, write: Any, tmp_path: Path
) -> None:
    file = tmp_path / "people"
    file.write_bytes(write(people(MANY)))
    place = f"{mode}-{write.__name__}"
    here = ("--workspace", f"{place}-local")
    remote = RemoteCli(serving, make_key(serving, "systemAdmin", "default", f"{place}-remote"))
    there = ("--attributes", '{"stays": 1}', "--email", "there@example.org", "--name", "Before")
    text(serving.run("contacts", "create", "there", *there, *here))
    text(remote.run("contacts", "create", "there", *there))
    asked = ("contacts", "import", str(file), "--mode", mode)
    for output in (), ("--json",):
        local, over_http = serving.run(*asked, *output, *here), remote.run(*asked, *output)
        assert (over_http.returncode, over_http.stdout, over_http.stderr) == (
            local.returncode,
            local.stdout,
            local.stderr,
        )
        assert local.returncode == 3
    kept = rows(serving.run("contacts", "export", *here))
    assert rows(remote.run("contacts", "export")) == kept
    assert len(kept) > MANY / 2
    listed = rows(remote.run("contacts", "list", "--limit", "10000", "--json"))
    assert [one["key"] for one in listed] == [one["key"] for one in kept]
    assert {one["updated_by"].partition(".")[0] for one in listed} == {"key systemAdmin"}


def lines(first: int, last: int) -> bytes:
    """Lines of a file, each with a contact."""
    return b"".join(b'{"key": "k%d", "name": "Ann"}\n' % number for number in range(first, last))


async def test_an_import_whose_answers_are_lost_counts_everything_once(serving: Program) -> None:
    key = make_key(serving, "systemAdmin", "default", "lossy")
    async with cutting(serving, 3) as address:
        remote = RemoteCli(serving, key)
        done = await asyncio.to_thread(
            remote.run,
            "contacts",
            "import",
            "-",
            "--mode",
            "create",
            "--json",
            stdin=lines(0, 1_500),
            DISPATCHER_URL=address,
        )
    assert rows(done) == [{"created": 1_500, "changed": 0, "same": 0, "refused": 0}]


async def test_a_stopped_import_shows_its_position(program: Program) -> None:
    await program.start()
    remote = RemoteCli(program)
    command = [*program.command(), "contacts", "import", "-"]
    environment = program.environment_with(remote.environment)
    with subprocess.Popen(  # noqa: ASYNC220 - forking takes a moment, and nothing else runs
        command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as importing:
        assert importing.stdin is not None
        importing.stdin.write(lines(0, 300))
        importing.stdin.flush()
        await program.until(
            lambda: len(text(program.run("contacts", "export")).splitlines()) == 300, "what has come is written"
        )
        await program.kill()
        out, talk = await asyncio.to_thread(importing.communicate, lines(300, 400))
    assert (importing.returncode, out) == (1, b"")
    words = talk.decode()
    assert "stopped after line 300: created 300, changed 0, same 0, refused 0. Import the whole file again" in words
    assert "the server cannot be reached: " in words
    await program.start()
    remote = RemoteCli(program)
    assert (
        text(remote.run("contacts", "import", "-", stdin=lines(0, 400)))
        == "created 100, changed 0, same 300, refused 0\n"
    )


async def test_imports_over_the_request_limit_are_split(program: Program, tmp_path: Path) -> None:
    await program.start(DISPATCHER_API__BATCH_BYTES_MAX="4000")
    remote = RemoteCli(program)
    assert text(remote.run("contacts", "import", "-", stdin=lines(0, 1_000))).startswith("created 1,000,")
    large = b'{"key": "large", "attributes": {"x": "%s"}}\n' % (b"y" * 5_000)
    done = remote.run("contacts", "import", "-", stdin=lines(0, 9) + large + lines(9, 99))
    assert text(done, 3) == "created 0, changed 0, same 99, refused 1\n"
    assert b"line 10: refused\n  line: its body is over 4000 bytes" in done.stderr
    await program.stop()
    # Few bytes, and more values than a body may have. A pipe would not give them all at once.
    file = tmp_path / "values.jsonl"
    file.write_text("".join(f'{{"key": "v{n}", "attributes": {{"n": {[1] * 5_000}}}}}\n' for n in range(60)))
    await program.start()
    assert text(RemoteCli(program).run("contacts", "import", str(file))).startswith("created 60,")
