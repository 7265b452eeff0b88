"""OB-12 with two real servers: a standby that lags is promoted under a dispatcher, and nothing is sent twice."""

import signal
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from dispatcher.db.schema import migrator
from dispatcher.selftest.proxy import Proxy
from tests.conformance.outbox import QUICK, Outbox
from tests.conformance.servers import outbox_at, socket_of, standby
from tests.faults.provider import Provider
from tests.support.program import Program
from tests.support.scene import Connection


@pytest.fixture
async def provider(tmp_path: Path) -> AsyncIterator[Provider]:
    """A provider with its own record, which does not depend on the database."""
    async with Provider(tmp_path / "books") as provider:
        yield provider


async def _until_sent(outbox: Outbox, channel: str = "sms") -> int:
    """A delivery that is sent: the dispatcher takes work."""
    delivery = await outbox.put(channel)
    await outbox.until_life(delivery, "sent")
    return delivery


async def _accepted(provider: Provider, outbox: Outbox, delivery: int) -> int:
    key = (await outbox.row(delivery))["idempotency_key"]
    entry = provider.entries().get(key)
    return entry.accepted if entry else 0


async def test_OB_12_what_a_promoted_standby_has_forgotten_is_not_sent_again(
    connection: Connection, elsewhere: str, provider: Provider
) -> None:
    """The standby knows of a delivery and not that it was sent. It is there to be connected to before it is promoted,
    and the old primary lives on: only the way leads elsewhere."""
    await migrator.migrate(elsewhere)
    async with Proxy("127.0.0.1", socket_of(elsewhere)) as proxy, outbox_at(elsewhere) as primary:
        program = Program(f"postgresql://postgres@127.0.0.1:{proxy.port}/postgres")
        place = {"PROVIDER": "ledger", "OPTIONS__PORT": str(provider.port)}
        try:
            await program.start(**QUICK | {f"DISPATCHER_CHANNELS__SMS__{name}": text for name, text in place.items()})
            await _until_sent(primary)
            program.signal(signal.SIGSTOP)
            forgotten = await primary.put()
            async with standby(connection, elsewhere) as url, outbox_at(url) as promoted:
                program.signal(signal.SIGCONT)
                await primary.until_life(forgotten, "sent")
                before = proxy.statistics.accepted
                proxy.lead_to(socket_of(url))
                proxy.cut_all()
                # The one that listens, and one of the pool.
                await program.until(lambda: proxy.statistics.accepted >= before + 2, "it has come to the standby")
                assert await promoted.connection.fetchval("SELECT pg_promote()")
                await program.until(lambda: program.events("cluster.changed"), "it has seen that")
                await program.until(lambda: len(program.events("pipeline.started")) == 2, "another epoch begins")
                later = await _until_sent(promoted)
                assert await promoted.life(forgotten) == "held"
                assert [await _accepted(provider, promoted, one) for one in (forgotten, later)] == [1, 1]
        finally:
            program.end()
