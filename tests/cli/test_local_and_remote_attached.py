"""What is attached to a workspace, its endpoints of webhooks and its objects, on a database and through a server."""

import json
import os
from pathlib import Path

import pytest

from dispatcher.features.objects.models import OBJECT_BYTES_MAX
from tests.cli.test_operate import rows, talk, text
from tests.support.program import Program
from tests.support.remote_cli import Cli, RemoteCli, same
from tests.support.scene import Connection

WHY = ("--reason", "to see")
URL = "https://crm.example.org/hooks"


async def test_endpoints_are_made_changed_rotated_and_deleted(cli: Cli, serving: Program, remote: RemoteCli) -> None:
    name = f"hook-{type(cli).__name__.lower()}"
    made = cli.run("webhooks", "create", name, URL, "--event", "run.*", "--event", "run.*", *WHY)
    secret = text(made).strip()
    assert secret.startswith("whsec_")
    assert "It is shown only now" in made.stderr.decode()
    taken = json.loads(talk(cli.run("webhooks", "create", name, URL, "--event", "run.*", *WHY, "--json"), 1))
    assert (taken["error"], f"there is an endpoint {name}" in taken["message"]) == ("Conflict", True)
    moved = ("webhooks", "change", name, "--url", f"{URL}/there", "--reason", "it moved")
    assert text(cli.run(*moved)) == f"endpoint {name} is changed\n"
    assert rows(cli.run(*moved, "--json")) == [{"name": name, "answer": "same"}]
    assert text(cli.run("webhooks", "disable", name, *WHY)) == f"endpoint {name} is changed\n"
    (rotated,) = rows(cli.run("webhooks", "rotate", name, "--overlap", "2h", *WHY, "--json"))
    assert (rotated["name"], rotated["secret"] != secret) == (name, True)
    for words in ("list", "list --json", "list --after hook --limit 1 --json", f"log {name}", f"log {name} --json"):
        assert "whsec_" not in await same(serving, remote, "webhooks", *words.split())
    (listed,) = (one for one in rows(cli.run("webhooks", "list", "--json")) if one["name"] == name)
    assert (listed["url"], listed["events"], listed["enabled"]) == (f"{URL}/there", ["run.*"], False)
    assert listed["old_secret_until"] is not None
    assert text(cli.run("webhooks", "delete", name, "--reason", "it is over")) == f"endpoint {name} is deleted\n"
    done = [(one["action"], one["reason"]) for one in rows(cli.run("webhooks", "log", name, "--json"))]
    (last,) = rows(cli.run("webhooks", "log", name, "--limit", "1", "--json"))
    assert (last["action"], last["reason"]) == done[0]
    assert done == [
        ("delete", "it is over"),
        ("rotate", "to see"),
        ("disable", "to see"),
        ("change", "it moved"),
        ("create", "to see"),
    ]


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("delete", "nobody", *WHY), 1),
        (("change", "nobody", "--url", URL, *WHY), 1),
        (("rotate", "nobody", *WHY, "--json"), 1),
        (("log", "nobody"), 1),
        (("list", "--after", "z" * 100), 0),
        (("list", "--after", "a b"), 0),
        (("create", "a/b", URL, "--event", "run.*", *WHY), 2),
        (("create", "sound", "http://crm.example.org", "--event", "run.*", *WHY, "--json"), 2),
        (("create", "sound", "ftp://crm.example.org", "--event", "run.*", *WHY), 2),
        (("create", "sound", "", "--event", "run.*", *WHY), 2),
        (("create", "sound", f"{URL}/{'x' * 2_000}", "--event", "run.*", *WHY), 2),
        (("create", "sound", URL, "--event", "run.born", "--event", "delivery.sen", *WHY), 2),
        (("create", "sound", URL, "--event", "run.*", "--reason", " "), 3),
        (("rotate", "sound", "--overlap", "91d", *WHY), 2),
        (("list", "--workspace", ""), 2),
    ],
    ids=lambda one: " ".join(one)[:40] if isinstance(one, tuple) else None,
)
async def test_invalid_endpoints_are_refused_in_the_same_words(
    serving: Program, remote: RemoteCli, words: tuple[str, ...], code: int
) -> None:
    await same(serving, remote, "webhooks", *words)
    assert remote.run("webhooks", *words).returncode == code


async def test_the_server_tells_whether_it_takes_unicode_addresses(program: Program) -> None:
    await program.start(DISPATCHER_CHANNELS__WEBHOOK__OPTIONS__ALLOW_ADDRESSES="10.0.0.0/8")
    remote = RemoteCli(program)
    plain = ("webhooks", "create", "inside", "http://10.0.0.1/", "--event", "run.*", *WHY)
    assert text(remote.run(*plain)).startswith("whsec_")
    moved = remote.run("webhooks", "change", "inside", "--url", "ftp://10.0.0.1/", *WHY)
    assert "--url: must begin with https:// or http://" in talk(moved, 2)


async def test_objects_are_kept_listed_shown_and_erased(
    cli: Cli, serving: Program, remote: RemoteCli, tmp_path: Path
) -> None:
    mark = type(cli).__name__.lower()
    file = tmp_path / f"{mark}.pdf"
    file.write_bytes(b'{"content": "YWJj"}\r\n\0\xff')
    assert text(cli.run("objects", "put", str(file))) == f"{mark}.pdf is kept: 23 bytes of application/pdf\n"
    assert "is kept already" in text(cli.run("objects", "put", str(file)))
    put = ("objects", "put", "-", "--name", f"{mark}/a@b+c:1", "--type", "application/json", "--json")
    assert rows(cli.run(*put, stdin=b"{}"))[0]["answer"] == "stored"
    taken = json.loads(talk(cli.run(*put, stdin=b"[]"), 1))
    assert (taken["error"], "another content or type" in taken["message"]) == ("Conflict", True)
    for words in (
        f"list --after {mark} --limit 1",
        "list --limit 1000 --json",
        f"show {mark}.pdf",
        f"show {mark}/a@b+c:1 --json",
        "show nobody",
        f"delete {mark}.pdf",
        f"delete {mark}.pdf --json",
        "delete nobody --yes --json",
    ):
        await same(serving, remote, "objects", *words.split())
    assert "confirm with --yes" in talk(cli.run("objects", "delete", f"{mark}.pdf"), 1)
    assert text(cli.run("objects", "delete", f"{mark}.pdf", "--yes")) == f"{mark}.pdf is erased\n"
    assert rows(cli.run("objects", "delete", f"{mark}.pdf", "--yes", "--json")) == [
        {"name": f"{mark}.pdf", "answer": "erased before"}
    ]
    assert rows(cli.run("objects", "put", str(file), "--json"))[0]["answer"] == "restored"


async def test_a_list_is_as_long_as_was_asked_for(program: Program, connection: Connection) -> None:
    """Over 500 is more than one answer of a server."""
    await connection.execute(
        """SELECT dispatcher.put_object('page-' || n, '', 'text/plain'),
                  dispatcher.create_webhook('default', 'default', 'again', 'https://example.org', '{run.*}', true,
                                               'whsec_' || repeat('a', 32), 9, 'test', 'time ' || n),
                  dispatcher.delete_webhook('default', 'default', 'again', 'test', 'time ' || n)
             FROM generate_series(1, 510) n"""
    )
    await program.start()
    remote = RemoteCli(program)
    for words in (("objects", "list"), ("webhooks", "log", "again")):
        assert len((await same(program, remote, *words, "--limit", "505", "--json")).splitlines()) == 505


async def test_too_large_objects_are_refused_by_command_or_server(program: Program, tmp_path: Path) -> None:
    await program.start(DISPATCHER_API__BATCH_BYTES_MAX="100000")
    remote, large = RemoteCli(program), tmp_path / "large"
    with large.open("wb") as file:
        file.truncate(OBJECT_BYTES_MAX + 1)
    nobody = "http://127.0.0.1:1"
    assert "is larger than" in talk(remote.run("objects", "put", str(large), DISPATCHER_URL=nobody), 2)
    os.truncate(large, OBJECT_BYTES_MAX)
    for size in (OBJECT_BYTES_MAX, 100_001):
        os.truncate(large, size)
        refused = json.loads(talk(remote.run("objects", "put", str(large), "--json"), 1))
        assert (refused["error"], refused["message"]) == ("TooLarge", "its body is over 100000 bytes")
    os.truncate(large, 100_000)
    assert "100,000 bytes" in text(remote.run("objects", "put", str(large)))
    assert rows(remote.run("objects", "show", "large", "--json"))[0]["size"] == 100_000


async def test_another_workspace_and_another_name_are_refused(remote: RemoteCli) -> None:
    for words in ("webhooks list", "webhooks log any", "objects list", "objects show any", "objects delete any --yes"):
        error = json.loads(talk(remote.run(*words.split(), "--tenant", "acme", "--json"), 2))
        assert (error["error"], [one["path"] for one in error["faults"]]) == ("OtherWorkspace", ["--tenant"])
    put = ("objects", "put", "-", "--name", "elsewhere", "--workspace", "other")
    assert "opens default, and not other" in talk(remote.run(*put, stdin=b"x"), 2)
    for words in ("rotate any", "delete any", "enable any", f"create any {URL} --event run.*"):
        there = ("webhooks", *words.split(), *WHY)
        assert "opens default, and not other" in talk(remote.run(*there, "--workspace", "other"), 2)
        assert "it writes the name of the key" in talk(remote.run(*there, "--actor", "ann"), 2)
