"""OP-06: webhooks of our own, signed as Standard Webhooks ask, from what happens to what a receiver can rely on."""

import json
import signal
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from tests.channels.shared.web.fake_server import LOOPBACK, FakeServer, Request, Silent, dropped, json_of, says
from tests.conformance.flows import BRISK
from tests.features.webhooks.support import signatures, verify
from tests.support import flows
from tests.support.program import Program
from tests.support.scene import Connection
from tests.support.waits import until

WHY = ("--reason", "a test", "--actor", "ann")
OPEN = {"DISPATCHER_CHANNELS__WEBHOOK__OPTIONS__ALLOW_ADDRESSES": LOOPBACK}
QUICK = {
    "DISPATCHER_WALK__POLL_SECONDS": "0.05",
    "DISPATCHER_INSTANCE__HEARTBEAT_SECONDS": "0.1",
    "DISPATCHER_INSTANCE__LEASE_SECONDS": "0.6",
    "DISPATCHER_INSTANCE__LICENCE_SECONDS": "0.4",
}
SETTINGS = OPEN | QUICK | BRISK
INSERT = """INSERT INTO dispatcher.deliveries (idempotency_key, channel, recipient, template)
            VALUES ($1, 'sms', '+4917012345', '{"body": "hello"}') RETURNING id"""


class Hooks:
    """A program with an endpoint, and what that is told."""

    def __init__(self, program: Program, connection: Connection, fake: FakeServer) -> None:
        self.program, self.connection, self.fake = program, connection, fake
        program.environment |= OPEN
        self.secret = ""

    def make(self, name: str = "crm", *more: str, events: tuple[str, ...] = ("delivery.*", "run.*")) -> str:
        """An endpoint, as an operator makes one; answers its secret."""
        wanted = [word for event in events for word in ("--event", event)]
        made = self.program.run("webhooks", "create", name, self.fake.url, *wanted, *WHY, *more)
        assert made.returncode == 0, made.stderr
        return made.stdout.decode().strip()

    def do(self, *words: str) -> str:
        """A command about the endpoint."""
        done = self.program.run("webhooks", *words, *WHY)
        assert done.returncode == 0, done.stderr
        return done.stdout.decode().strip()

    async def send(self, key: str) -> int:
        """A message that its provider takes."""
        return int(await self.connection.fetchval(INSERT, key))

    async def until_told(self, count: int, **what: Any) -> list[Request]:
        """Wait until so many messages have come whose data has this."""

        def told() -> list[Request]:
            found = [one for one in self.fake.requests if what.items() <= json_of(one)["data"].items()]
            return found if len(found) >= count else []

        return await self.program.until(told, f"{count} messages have come")

    async def until_ended(self, status: str = "sent", count: int = 1) -> list[Any]:
        """Wait until so many deliveries of the channel have ended so, and none is left; answers all."""
        asked = """SELECT d.idempotency_key, s.status, s.attempt, s.error FROM dispatcher.deliveries d
                     JOIN dispatcher.delivery_state s USING (id) WHERE d.channel = 'webhook' ORDER BY d.id"""

        async def ended() -> list[Any]:
            rows = await self.connection.fetch(asked)
            over = sum(row["status"] == status for row in rows) >= count
            return rows if over and all(row["status"] != "queued" for row in rows) else []

        return await self.program.until(ended, f"{count} are {status}")


@asynccontextmanager
async def listening(program: Program, connection: Connection, start: bool = True) -> AsyncIterator[Hooks]:
    """A program whose endpoint takes everything."""
    async with FakeServer(says(204)) as fake:
        hooks = Hooks(program, connection, fake)
        hooks.secret = hooks.make()
        if start:
            await program.start(**SETTINGS)
        yield hooks


@pytest.fixture
async def hooks(program: Program, connection: Connection) -> AsyncIterator[Hooks]:
    """As above."""
    async with listening(program, connection) as hooks:
        yield hooks


async def test_OP_06_the_end_of_a_delivery_is_told_signed_and_once(hooks: Hooks) -> None:
    one = await hooks.send("order-17")
    (request,) = await hooks.until_told(1, id=one)
    said = verify(request, hooks.secret, time.time())
    assert said["type"] == "delivery.sent"
    assert (said["data"]["idempotency_key"], said["data"]["channel"]) == ("order-17", "sms")
    (row,) = await hooks.until_ended()
    assert row["attempt"] == 1
    assert len(hooks.fake.requests) == 1


async def test_OP_06_the_end_of_a_run_and_of_what_it_sends_is_told(hooks: Hooks, connection: Connection) -> None:
    await flows.put(connection)
    run = (await flows.trigger(connection))["execution_id"]
    await hooks.until_told(1, run_id=run)
    assert await connection.fetchval("SELECT dispatcher.cancel_run($1, 'enough')", run) == "cancelled"
    requests = await hooks.until_told(1, id=run, status="cancelled")
    told = [verify(one, hooks.secret, time.time()) for one in (hooks.fake.requests[0], *requests)]
    assert [said["type"] for said in told] == ["delivery.sent", "run.cancelled"]
    assert told[0]["data"]["workflow"] == told[1]["data"]["workflow"] == "welcome"


async def test_OP_06_what_is_not_taken_comes_again_with_the_same_id_and_words_and_a_new_signature(
    hooks: Hooks,
) -> None:
    hooks.fake.next += [says(500, {}), says(404, {}), dropped]
    one = await hooks.send("order-17")
    requests = await hooks.until_told(4, id=one)
    assert len({request.headers["webhook-id"] for request in requests}) == 1
    assert len({request.body for request in requests}) == 1
    for request in requests:
        verify(request, hooks.secret, time.time())
    (row,) = await hooks.until_ended()
    assert (row["status"], row["attempt"]) == ("sent", 4)


async def test_OP_06_who_asks_to_be_left_alone_is_left_alone_for_so_long(hooks: Hooks) -> None:
    hooks.fake.next.append(says(429, {}, Retry_After="3600"))
    one = await hooks.send("order-17")
    await hooks.until_told(1, id=one)
    waits = """SELECT extract(epoch FROM s.run_at - now()) FROM dispatcher.delivery_state s
                WHERE s.channel = 'webhook' AND s.ready AND s.attempt = 1"""

    async def put_off() -> bool:
        return bool((await hooks.connection.fetchval(waits) or 0) > 3_000)

    await until(put_off, "it waits for an hour")


async def test_OP_06_who_is_gone_is_disabled_and_that_is_kept(hooks: Hooks) -> None:
    hooks.fake.next.append(says(410))
    await hooks.send("order-17")
    await hooks.program.until(lambda: hooks.program.events("webhook.disabled"), "it is disabled")
    await hooks.send("order-18")
    sent = "SELECT count(*) FROM dispatcher.captured_messages"

    async def both() -> bool:
        return bool(await hooks.connection.fetchval(sent) == 2)

    await until(both, "both are sent")
    (row,) = await hooks.until_ended("failed")
    assert "410" in row["error"]
    assert len(hooks.fake.requests) == 1
    log = hooks.program.run("webhooks", "log", "crm", "--json")
    done = [json.loads(line) for line in log.stdout.splitlines()]
    assert [(row["action"], row["actor"]) for row in done] == [("disable", "dispatcher"), ("create", "ann")]


@pytest.mark.parametrize("how", ["disable", "delete"])
async def test_OP_06_what_waits_for_who_listens_no_more_is_skipped(hooks: Hooks, how: str) -> None:
    """Also where an attempt may have arrived: whether it has is nobody's question any more."""
    hooks.fake.always = dropped
    one = await hooks.send("order-17")
    await hooks.until_told(1, id=one)
    hooks.do(how, "crm")
    (row,) = await hooks.until_ended("skipped")
    assert ("disabled" if how == "disable" else "not there") in row["error"]


async def test_OP_06_a_secret_that_is_rotated_signs_beside_the_new_one(hooks: Hooks) -> None:
    new = hooks.do("rotate", "crm", "--overlap", "1h")
    (first,) = await hooks.until_told(1, id=await hooks.send("order-17"))
    for secret in (hooks.secret, new):
        verify(first, secret, time.time())
    newest = hooks.do("rotate", "crm", "--overlap", "0s")
    (second,) = await hooks.until_told(1, id=await hooks.send("order-18"))
    verify(second, newest, time.time())
    assert len(signatures(second)) == 1
    for path in (hooks.program.log_path.read_text(), hooks.program.run("webhooks", "list").stdout.decode()):
        assert not [secret for secret in (hooks.secret, new, newest) if secret in path]


async def test_OP_06_another_workspace_is_told_nothing(hooks: Hooks) -> None:
    hooks.make("theirs", "--workspace", "other")
    hooks.make("acme", "--tenant", "acme")
    one = await hooks.send("order-17")
    await hooks.until_told(1, id=one)
    assert len(await hooks.until_ended()) == 1
    assert len(hooks.fake.requests) == 1
    verify(hooks.fake.requests[0], hooks.secret, time.time())


async def test_OP_06_of_a_transaction_that_is_rolled_back_nothing_is_told(hooks: Hooks) -> None:
    held = await hooks.connection.fetchval(
        """INSERT INTO dispatcher.deliveries (idempotency_key, channel, recipient, template, scheduled_for)
           VALUES ('later', 'sms', '+49170', '{"body": "x"}', now() + interval '1 day') RETURNING id"""
    )
    undone = hooks.connection.transaction()
    await undone.start()
    assert (
        await hooks.connection.fetchval("SELECT dispatcher.cancel_delivery_by_id($1, 'ann', 'no')", held) == "cancelled"
    )
    await undone.rollback()
    one = await hooks.send("order-17")
    await hooks.until_told(1, id=one)
    await hooks.until_ended()
    assert [json_of(request)["data"]["id"] for request in hooks.fake.requests] == [one]


POINTS = {
    "announce.before_commit": "announce.before_commit:1:kill9",
    "announce.committed": "announce.committed:1:kill9",
}


@pytest.mark.parametrize("point", POINTS)
async def test_OP_02_a_kill_between_what_happens_and_its_delivery_loses_nothing_and_doubles_nothing(
    program: Program, second: Program, connection: Connection, point: str
) -> None:
    async with listening(program, connection, start=False) as hooks:
        ids = [await hooks.send(f"order-{number}") for number in range(20)]
        await program.launch(FAULT=POINTS[point], **SETTINGS)
        assert await program.ended() == -signal.SIGKILL
        await second.start(**SETTINGS)
        hooks.program = second
        await hooks.until_ended("sent", len(ids))
        told = Counter((said["type"], said["data"]["id"]) for said in map(json_of, hooks.fake.requests))
        assert told == Counter(("delivery.sent", one) for one in ids)


async def test_OP_02_a_kill_during_a_call_has_it_made_again_under_its_id(
    program: Program, second: Program, connection: Connection
) -> None:
    async with listening(program, connection, start=False) as hooks:
        silent = Silent()
        hooks.fake.next.append(silent)
        await program.start(**SETTINGS)
        one = await hooks.send("order-17")
        await silent.begun.wait()
        await program.kill()
        await second.start(**SETTINGS)
        hooks.program = second
        requests = await hooks.until_told(2, id=one)
        silent.let_go.set()
        await hooks.until_ended()
        assert len({request.headers["webhook-id"] for request in requests}) == 1
        assert len({request.body for request in requests}) == 1


def _refuses(words: tuple[str, ...], code: int) -> Callable[[Program], str]:
    def run(program: Program) -> str:
        ended = program.run("webhooks", *words, *WHY)
        assert (ended.returncode, ended.stdout) == (code, b"")
        return ended.stderr.decode()

    return run


ALL = ("--event", "delivery.*")
FAULTS = {
    "http": (_refuses(("create", "crm", "http://crm.example.org/", *ALL), 2), "must begin with https://"),
    "login": (_refuses(("create", "crm", "https://a:b@crm.example.org/", *ALL), 2), "login"),
    "event": (_refuses(("create", "crm", "https://crm.example.org/", "--event", "delivery.send"), 2), "delivery.sent"),
    "name": (_refuses(("create", "a b", "https://crm.example.org/", *ALL), 2), "letters, digits"),
    "unknown": (_refuses(("rotate", "crm"), 1), "there is no endpoint crm"),
    "change": (_refuses(("change", "crm", "--url", "https://b.example/"), 1), "there is no endpoint crm"),
    "delete": (_refuses(("delete", "crm"), 1), "there is no endpoint crm"),
    "overlap": (_refuses(("rotate", "crm", "--overlap", "91d"), 2), "90 days"),
}


@pytest.mark.parametrize("what", FAULTS)
async def test_OP_06_what_can_be_no_endpoint_is_refused_in_a_sentence(program: Program, what: str) -> None:
    refuse, words = FAULTS[what]
    assert words in refuse(program)
