"""OB-12 and OB-14 on a database that came out of a backup: what may have been sent since is held, and says so."""

import asyncio
import subprocess
from datetime import UTC, datetime
from pathlib import Path

import pytest

from dispatcher.db.schema import migrator
from tests.conformance.outbox import Outbox, hanging
from tests.conformance.servers import dump, outbox_at, run
from tests.faults.provider import Provider
from tests.support.program import Program
from tests.support.waits import until, until_blocked, until_waits

BRISK = {
    "DISPATCHER_JANITOR__INTERVAL_SECONDS": "0.1",
    "DISPATCHER_INSTANCE__HEARTBEAT_SECONDS": "0.5",
    "DISPATCHER_INSTANCE__LEASE_SECONDS": "3",
    "DISPATCHER_INSTANCE__LICENCE_SECONDS": "2",
}
# How long a call may outlive what became of its owner: this and the licence.
SHORT_CALLS = {"DISPATCHER_CHANNELS__CHAT__CALL_SECONDS_MAX": "1"}
QUARANTINED = "quarantined: the database was restored, copied or failed over, and marks may have been forgotten"
LATER = datetime(2040, 1, 1, tzinfo=UTC)


async def _restore(outbox: Outbox, url: str, file: Path, *words: str) -> "subprocess.CompletedProcess[bytes]":
    return await run(outbox.connection, "pg_restore", *words, "-d", url, str(file))


async def _settled(outbox: Outbox, delivery: int, settle_as: str) -> str:
    settle = "SELECT dispatcher.settle_held($1, $2, 'ann', 'looked it up')"
    return str(await outbox.connection.fetchval(settle, delivery, settle_as))


async def _until_settled(outbox: Outbox, delivery: int) -> None:
    async def settled() -> bool:
        return await _settled(outbox, delivery, "requeue") == "settled"

    await until(settled, "its call cannot be going on any more")


async def _pause(outbox: Outbox, channel: str) -> None:
    await outbox.connection.execute(
        "SELECT dispatcher.pause_everywhere('channel', $1, 'ann', 'a backup is made')", channel
    )


async def _resume(outbox: Outbox, channel: str) -> None:
    await outbox.connection.execute("SELECT dispatcher.resume_everywhere('channel', $1, 'ann')", channel)


async def test_OB_12_on_another_server_what_may_have_been_sent_is_held_and_says_so(
    program: Program, outbox: Outbox, url: str, elsewhere: str, tmp_path: Path
) -> None:
    """Dumped at work, sent afterwards, restored into a server with another identity: it is not sent again."""
    # Before it starts: from then on it takes a moment to be heard of.
    await _pause(outbox, "voice")
    await program.start(**BRISK, **hanging("chat"), **SHORT_CALLS)
    sent, sending = await outbox.put(), await outbox.put("chat")
    due, later = await outbox.put("voice"), await outbox.put(run_at=LATER)
    await outbox.until_life(sent, "sent")
    await outbox.until_life(sending, "sending")
    await dump(outbox.connection, url, tmp_path / "dump")
    await _resume(outbox, "voice")
    await outbox.until_life(due, "called")
    await program.kill()

    async with outbox_at(elsewhere) as found:
        await found.connection.execute("CREATE ROLE dispatcher_tenant NOLOGIN")
    restored = await _restore(outbox, elsewhere, tmp_path / "dump")
    assert restored.returncode == 0, restored.stderr
    other = Program(elsewhere)
    try:
        await other.start(**BRISK)
        async with outbox_at(elsewhere) as found:
            await found.until_life(await found.put(), "sent")
            assert [await found.life(one) for one in (sent, sending, due, later)] == ["sent", "held", "held", "pending"]
            assert [(await found.row(one))["error"] for one in (sending, due)] == [QUARANTINED] * 2
            assert await found.captured(sending, due) == []
            (told,) = other.events("cluster.changed")
            assert (told["quarantined"], told["level"]) == (2, "error")
            await _resume(found, "voice")
            assert await _settled(found, due, "sent") == "settled"
            await _until_settled(found, sending)
            await found.until_life(sending, "sent")
        assert len(other.events("cluster.changed")) == 1
    finally:
        other.end()


async def test_OB_12_a_failover_under_a_running_dispatcher_quarantines_before_anything_is_sent(
    program: Program, outbox: Outbox
) -> None:
    """Its connections are cut, and what it finds when it is back is another server's: marks may have been forgotten."""
    await program.start()
    await outbox.until_life(await outbox.put(), "sent")
    async with outbox.connection.transaction():
        # It is back before the other server is there to be seen: whatever it asks waits for that.
        await outbox.connection.execute("LOCK TABLE dispatcher.clusters IN ACCESS EXCLUSIVE MODE")
        await outbox.connection.execute("UPDATE dispatcher.clusters SET timeline = timeline + 1")
        forgotten = await outbox.put()
        cut = """SELECT pg_terminate_backend(pid) FROM pg_stat_activity
                  WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_type = 'client backend'"""
        await outbox.connection.execute(cut)
    await program.until(lambda: program.events("cluster.changed"), "it has seen that")
    await outbox.until_life(forgotten, "held", "sent")
    assert await outbox.captured(forgotten) == []
    assert await outbox.life(forgotten) == "held"


async def test_OB_12_behind_a_pooler_the_next_epoch_quarantines_before_it_joins(
    program: Program, outbox: Outbox, url: str
) -> None:
    """Its connections last, and what is behind them is another server, which does not know its epoch."""
    await program.start()
    await outbox.until_life(await outbox.put(), "sent")
    lock = "LOCK TABLE dispatcher.clusters IN ACCESS EXCLUSIVE MODE"
    async with outbox_at(url) as other, other.connection.transaction():
        async with outbox.connection.transaction():
            await outbox.connection.execute(lock)
            await outbox.connection.execute("UPDATE dispatcher.clusters SET timeline = timeline + 1")
            await outbox.connection.execute("DELETE FROM dispatcher.instances")
            forgotten = await outbox.put()
            locking = asyncio.create_task(other.connection.execute(lock))
            await until_waits(outbox.connection, other.connection)
        await locking
        await until_blocked(outbox.connection)
        assert await outbox.instances() == 0
    await outbox.until_life(forgotten, "held", "sent")
    assert await outbox.captured(forgotten) == []
    await outbox.until_life(await outbox.put(), "sent")


async def test_OB_12_an_operator_quarantines_what_a_snapshot_may_have_forgotten(
    program: Program, outbox: Outbox
) -> None:
    """A snapshot that keeps its server's identity: what is due and older than it is held, and nothing else."""
    await _pause(outbox, "sms")
    older = await outbox.fill(3)
    later = await outbox.put(run_at=LATER)
    taken_at = await outbox.connection.fetchval("SELECT statement_timestamp()")
    newer = await outbox.fill(2)
    await program.start(**BRISK)
    words = ("quarantine", "--before", taken_at.isoformat(), "--reason", "restored", "--actor", "ann", "--yes")
    assert (await asyncio.to_thread(program.run, *words)).returncode == 0
    await _resume(outbox, "sms")
    for delivery in newer:
        await outbox.until_life(delivery, "sent")
    assert [await outbox.life(one) for one in (*older, later)] == ["held"] * 3 + ["pending"]
    assert await outbox.captured() == newer
    told = await outbox.connection.fetch("SELECT actor, reason FROM dispatcher.operator_actions ORDER BY delivery_id")
    assert [tuple(row) for row in told] == [("ann", "restored")] * 3


async def _quarantined_in_a_call(program: Program, outbox: Outbox) -> int:
    """A delivery whose call is going on while everything is quarantined."""
    await program.start(**BRISK, **hanging("chat"), **SHORT_CALLS)
    delivery = await outbox.put("chat")
    await outbox.until_life(delivery, "sending")
    quarantine = "SELECT deliveries FROM dispatcher.quarantine(now() + interval '1 minute', 'ann', 'restored')"
    assert await outbox.connection.fetchval(quarantine) == 1
    assert await outbox.life(delivery) == "held"
    return delivery


async def test_OB_12_a_quarantined_call_that_may_be_going_on_cannot_be_settled_yet(
    program: Program, outbox: Outbox
) -> None:
    delivery = await _quarantined_in_a_call(program, outbox)
    assert await _settled(outbox, delivery, "requeue") == "early"


async def test_OB_12_a_quarantined_attempt_is_counted_when_it_is_sent_again(
    program: Program, second: Program, outbox: Outbox
) -> None:
    delivery = await _quarantined_in_a_call(program, outbox)
    await program.kill()
    await _until_settled(outbox, delivery)
    await second.start(**BRISK)
    await outbox.until_life(delivery, "sent")
    assert (await outbox.row(delivery))["attempts"] == 1 + len(await outbox.attempts(delivery))
    checked = second.run("check")
    assert checked.returncode == 0, checked.stdout


@pytest.mark.parametrize("hours", [1, 0])
async def test_OB_12_data_restored_beside_a_running_dispatcher_is_not_sent_again(
    program: Program, second: Program, outbox: Outbox, url: str, empty_url: str, tmp_path: Path, hours: int
) -> None:
    """Data only, into a migrated schema: deliveries come first and where they stand comes later, and in between the
    dispatcher has all the time that it wants. However long ago they were written."""
    async with Provider(tmp_path / "books") as provider:
        ledger = {"PROVIDER": "ledger", "OPTIONS__PORT": str(provider.port)}
        settings = BRISK | {f"DISPATCHER_CHANNELS__SMS__{name}": text for name, text in ledger.items()}
        await program.start(**settings)
        sent = await outbox.fill(3)
        due = await outbox.put("voice", run_at=LATER)
        await outbox.until_count(3, "sent")
        assert await program.stop() == 0
        await _born_before(outbox, hours)
        await dump(outbox.connection, url, tmp_path / "dump", "--data-only")
        await migrator.migrate(empty_url)
        second.url = empty_url
        await second.start(**settings)
        async with outbox_at(empty_url) as found, outbox_at(empty_url) as observer:
            async with found.connection.transaction():
                await found.connection.execute("LOCK TABLE dispatcher.delivery_attempts IN SHARE MODE")
                restoring = asyncio.create_task(_restore(outbox, empty_url, tmp_path / "dump"))
                await until_blocked(observer.connection)
                await observer.until_life(await observer.put(id=1_000), "sent")
            await restoring
            await found.until_life(await found.put(id=1_001), "sent")
            lives = [await found.life(one) for one in (*sent, due)]
        # Three before the dump, and two beside the restore.
        assert [entry.accepted for entry in provider.entries().values()] == [1] * 5
    assert lives == ["sent"] * 3 + ["held"]


async def _born_before(outbox: Outbox, hours: int) -> None:
    """As if they had been written so long ago; deliveries are immutable, so the guard is taken off for it."""
    await outbox.connection.execute(
        f"""ALTER TABLE dispatcher.deliveries DISABLE TRIGGER deliveries_never_change;
            UPDATE dispatcher.deliveries SET created_at = created_at - interval '{hours} hours';
            ALTER TABLE dispatcher.deliveries ENABLE TRIGGER deliveries_never_change"""
    )
