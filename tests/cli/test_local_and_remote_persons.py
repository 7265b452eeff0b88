"""The `contacts` commands about a person on a database and through a server: the same is shown, done and refused."""

import asyncio

import pytest

from dispatcher.cli.failures import UNUSABLE
from tests.cli.test_operate import rows, talk, text
from tests.cli.test_remote import cutting, said
from tests.support.caller import make_key
from tests.support.program import Program
from tests.support.remote_cli import Cli, RemoteCli, same
from tests.support.scene import Connection

WHY = ("--reason", "by letter")
LATER = "2040-01-01T00:00:00Z"
MAIL = ("send", "--channel", "email", "--part", "subject=Hi", "--part", "text={{ n }}", "--vars", '{"n": 1.50}')


@pytest.fixture
async def quick(program: Program) -> Program:
    """A program that erases at once."""
    return await program.start(DISPATCHER_JANITOR__INTERVAL_SECONDS="0.2")


@pytest.fixture
def remote(quick: Program) -> RemoteCli:
    """Its server, with a key of an administrator."""
    return RemoteCli(quick)


@pytest.fixture(params=["database", "server"])
def cli(request: pytest.FixtureRequest, quick: Program, remote: RemoteCli) -> Cli:
    """The command line, locally and remotely."""
    return quick if request.param == "database" else remote


async def furnish(program: Program) -> None:
    """Something of everything about Ann, who has a phone too; and a message to somebody like her."""
    text(program.run("contacts", "upsert", "ann", "--email", "Ann@Example.org", "--phone", "+49 170 12345"))
    for number, who in enumerate(("ann@example.org", "ANN@example.org", "joann@example.org")):
        text(program.run(*MAIL, "--to", who, "--key", f"mail-{number}", "--at", LATER))
    text(program.run("send", "--channel", "sms", "--body", "x", "--to", "+4917012345", "--key", "sms", "--at", LATER))
    text(program.run("suppressions", "add", "ann@example.org", "--source", "unsubscribe", *WHY))

    def skipped() -> bool:
        return len(rows(program.run("deliveries", "list", "--life", "skipped", "--json"))) == 2

    await program.until(skipped, "the mails are skipped")


async def test_local_and_remote_views_of_a_person_agree(quick: Program, remote: RemoteCli) -> None:
    await furnish(quick)
    for words in (
        "timeline ann@example.org",
        "timeline Ann@Example.org --json",
        "timeline ann@example.org --limit 1",
        "timeline ann@example.org --limit 2 --json",
        "timeline nobody@example.org",
        "timeline nobody",
        "timeline fax --kind other --json",
        "export-person ann@example.org --json",
        "export-person +4917012345 --json",
        "export-person joann@example.org +4917012345 --contact ann --json",
        "export-person nobody@example.org --json",
        "export-person --contact nobody",
        "export-person --contact nobody! --json",
        "export-person ann@example.org nobody",
        "export-person",
        "erasures",
        "erasures --json",
    ):
        await same(quick, remote, "contacts", *words.split())
    await same(quick, remote, "contacts", "export-person", "--contact", "", "--json")
    await same(quick, remote, "contacts", "export-person", *(f"a{number}@example.org" for number in range(101)))
    found = rows(remote.run("contacts", "export-person", "ann@example.org"))
    assert [one["record"] for one in found] == ["contact", "suppression", "said", *["delivery"] * 3]
    assert '"n": 1.50' in text(remote.run("contacts", "export-person", "ann@example.org"))


async def test_an_export_of_several_pages_is_whole_and_nothing_is_kept_of_it(
    quick: Program, remote: RemoteCli, connection: Connection
) -> None:
    await connection.execute(
        """INSERT INTO dispatcher.deliveries (idempotency_key, channel, recipient, template, scheduled_for)
           SELECT 'k' || n, 'sms', '+4917012345', '{"body": "x"}', '2040-01-01' FROM generate_series(1, 620) AS n"""
    )
    asked = "contacts", "export-person", "+4917012345", "--json"
    keys = [one["idempotency_key"] for one in rows(remote.run(*asked))]
    assert keys == [f"k{number}" for number in range(1, 621)]
    assert keys == [one["idempotency_key"] for one in rows(quick.run(*asked))]
    # Neither does who looks for an address among contacts and suppressions.
    for words in (("contacts", "list", "--address"), ("suppressions", "check")):
        text(remote.run(*words, "ann@example.org"))
    assert await connection.fetchval("SELECT count(*) FROM dispatcher.api_answers") == 0


async def test_a_person_is_erased_once_after_a_confirmation(cli: Cli, quick: Program, remote: RemoteCli) -> None:
    await furnish(quick)
    words = ("contacts", "erase", "--contact", "ann", *WHY)
    unsure = cli.run(*words, "--json")
    assert said(unsure, 1) == {
        "error": "Unconfirmed",
        "message": "this cannot be undone; nothing was done: confirm with --yes",
        "addresses": 2,
    }
    assert "confirm with --yes" in talk(cli.run(*words), 1)
    assert rows(cli.run("contacts", "erasures", "--json")) == []
    (done,) = rows(cli.run(*words, "--yes", "--json"))
    assert {name: value for name, value in done.items() if name != "id"} == {
        "workspace": "default",
        "deliveries": 3,
        "runs": 0,
        "waits_for": 0,
        "finished": True,
    }
    for shown in ("erasures", "erasures --json", "timeline ann@example.org", "export-person ann@example.org --json"):
        await same(quick, remote, "contacts", *shown.split())
    (row,) = rows(cli.run("contacts", "erasures", "--json"))
    assert (row["id"], row["reason"], row["deliveries"], len(row["subjects"])) == (done["id"], "by letter", 3, 2)
    assert (row["actor"].startswith("key ")) == isinstance(cli, RemoteCli)
    assert "there is no contact 'ann'" in talk(cli.run(*words, "--yes"), 1)
    again = f"erasure {done['id'] + 1} in default is done: 0 deliveries, 0 runs\n"
    assert text(cli.run("contacts", "erase", "+49 170 12345", *WHY, "--yes")) == again
    assert "duplicate" in text(cli.run(*MAIL, "--to", "b@example.org", "--key", "mail-0"))


async def put_sending(connection: Connection) -> None:
    """A message that is with its provider, by an instance that is there yet."""
    await connection.execute(
        """INSERT INTO dispatcher.deliveries (idempotency_key, channel, recipient, template, scheduled_for)
           VALUES ('sending', 'sms', '+4917012345', '{"body": "x"}', '2040-01-01')"""
    )
    await connection.execute("UPDATE dispatcher.delivery_state SET ready = false, marked = true, attempt = 1")


async def test_a_waiting_erasure_is_reported_and_continues_by_itself(
    cli: Cli, quick: Program, connection: Connection
) -> None:
    await put_sending(connection)
    waits = cli.run("contacts", "erase", "+4917012345", *WHY, "--yes")
    assert text(waits, 1) == (
        "erasure 1 in default waits for 1 delivery, and goes on by itself: 0 deliveries, 0 runs\n"
    )
    assert rows(cli.run("contacts", "erasures", "--json"))[0]["waits_for"] == 1
    await connection.execute(
        "UPDATE dispatcher.delivery_state SET marked = false, status = 'sent', finished_at = now() WHERE marked"
    )

    def finished() -> bool:
        (row,) = rows(cli.run("contacts", "erasures", "--json"))
        return (row["finished_at"] is not None, row["deliveries"]) == (True, 1)

    await quick.until(finished, "the server has gone on")


async def test_an_erasure_whose_answer_is_lost_is_asked_for_once(quick: Program, remote: RemoteCli) -> None:
    await furnish(quick)
    words = ("contacts", "erase", "--contact", "ann", "--reason", "ann@example.org has asked for it", "--yes", "--json")
    for number, lost in enumerate((b"POST /erasures ", b"POST /persons/find ", b"GET /erasures/"), 1):
        async with cutting(quick, 2, lost) as address:
            done = await asyncio.to_thread(remote.run, *words, DISPATCHER_URL=address)
        (row,) = rows(done)
        assert (row["id"], row["finished"], row["deliveries"]) == (number, True, 3 if number == 1 else 0)
        text(quick.run("contacts", "upsert", "ann", "--email", "Ann@Example.org"))
    assert len(rows(remote.run("contacts", "erasures", "--json"))) == number


async def test_local_only_commands_are_refused_remotely(quick: Program, remote: RemoteCli) -> None:
    erase = ("contacts", "erase", "ann@example.org", *WHY, "--yes")
    everywhere = said(remote.run(*erase, "--all-workspaces", "--json"), UNUSABLE)
    assert (everywhere["error"], "opens one workspace" in everywhere["message"]) == ("NoRemoteForm", True)
    assert "--actor" in talk(remote.run(*erase, "--actor", "ann"), UNUSABLE)
    for words in (erase, *(("contacts", *one) for one in ABOUT)):
        error = said(remote.run(*words, "--tenant", "acme", "--json"), UNUSABLE)
        assert (error["error"], error["faults"][0]["path"]) == ("OtherWorkspace", "--tenant")
        error = said(remote.run(*words, "--workspace", "other", "--json"), UNUSABLE)
        assert (error["error"], error["faults"][0]["path"]) == ("OtherWorkspace", "--workspace")
    assert rows(remote.run("contacts", "erasures", "--json", "--tenant", "default", "--workspace", "default")) == []
    theirs = RemoteCli(quick, make_key(quick, "systemAdmin", "acme", "main"))
    (done,) = rows(theirs.run(*erase, "--json"))
    assert (done["workspace"], done["finished"]) == ("main", True)
    assert rows(remote.run("contacts", "erasures", "--json")) == []
    poor = RemoteCli(quick, make_key(quick, "triggerOperator"))
    assert said(poor.run(*erase, "--json"), 1)["error"] == "Forbidden"


ABOUT = (("timeline", "ann@example.org"), ("export-person", "ann@example.org"), ("erasures",))
