"""OB-14 and OB-18: replicas on one database, which share work and limits, and take over from each other."""

import asyncio
import signal
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from time import monotonic

import pytest

from tests.conformance.outbox import QUICK, Outbox, hanging
from tests.faults.provider import Provider
from tests.support.program import Program
from tests.support.waits import until

LEASE_SECONDS = 1.0
# Those who are there already have this long to notice a newcomer.
SLOW_BEAT = {
    "DISPATCHER_INSTANCE__HEARTBEAT_SECONDS": "1.5",
    "DISPATCHER_INSTANCE__LEASE_SECONDS": "4",
    "DISPATCHER_INSTANCE__LICENCE_SECONDS": "2",
}
# A clock of the database's own for marks: when each was made, and under which token.
WATCH_MARKS = """
CREATE TABLE public.marks (id bigint, token bigint, at timestamptz);
CREATE FUNCTION public.note_mark() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO public.marks VALUES (NEW.id, NEW.token, clock_timestamp());
    RETURN NULL;
END $$;
CREATE TRIGGER note_mark AFTER UPDATE ON dispatcher.delivery_state
    FOR EACH ROW WHEN (NEW.marked AND NOT OLD.marked) EXECUTE FUNCTION public.note_mark();
"""


@pytest.fixture
async def third(url: str) -> AsyncIterator[Program]:
    """One more replica."""
    program = Program(url)
    try:
        yield program
    finally:
        program.end()


def _at(provider: Provider, **settings: str) -> dict[str, str]:
    """SMS speak with this ledger, a few at a time, so that everybody gets some."""
    few = {"DISPATCHER_CLAIM__LANE_CAPACITY": "20", "DISPATCHER_CHANNELS__SMS__MARKED_MAX": "10"}
    place = {"PROVIDER": "ledger", "OPTIONS__PORT": str(provider.port)}
    return QUICK | few | {f"DISPATCHER_CHANNELS__SMS__{name}": text for name, text in (place | settings).items()}


async def _start(programs: Sequence[Program], environment: dict[str, str]) -> None:
    await asyncio.gather(*(program.start(**environment) for program in programs))
    await until(lambda: all(one.events("pipeline.started") for one in programs), "all have joined")


def _sent_by(program: Program) -> float:
    return program.metric("dispatcher_outcomes_total", channel="sms", outcome="succeeded")


def _whole(shares: list[float], total: int) -> list[float] | None:
    return shares if sum(shares) == total else None


def _epoch(program: Program) -> int:
    """The newest epoch that a program has begun."""
    return int(program.events("pipeline.started")[-1]["epoch"])


async def _marked_by(outbox: Outbox, epoch: int) -> int:
    counted = "SELECT count(*) FROM public.marks WHERE token >> 24 = $1"
    return int(await outbox.connection.fetchval(counted, epoch))


async def _claims_of(outbox: Outbox, epoch: int) -> int:
    """How many deliveries are still owned under an epoch; held ones are nobody's."""
    owned = """SELECT count(*) FROM dispatcher.delivery_state
                WHERE status = 'queued' AND NOT held AND token >> 24 = $1"""
    return int(await outbox.connection.fetchval(owned, epoch))


async def _until_recovered(outbox: Outbox, epoch: int) -> None:
    async def gone() -> bool:
        return not await _claims_of(outbox, epoch)

    await until(gone, "the last of its claims is recovered")


async def test_OB_18_three_replicas_share_the_work_without_duplicates(
    program: Program, second: Program, third: Program, outbox: Outbox, tmp_path: Path
) -> None:
    everybody = [program, second, third]
    async with Provider(tmp_path / "books", "--delay-ms-max", "5") as provider:
        await _start(everybody, _at(provider))
        await outbox.fill(900)
        await outbox.until_count(900, "sent")
        # Each counts after its commit, and so after whoever sees that.
        shares = await until(lambda: _whole([_sent_by(one) for one in everybody], 900), "each has counted its own")
        books = provider.entries()
    assert min(shares) >= 50
    assert {entry.accepted for entry in books.values()} == {1}
    assert len(books) == 900


async def test_OB_14_what_a_killed_worker_had_claimed_is_recovered_within_its_lease(
    program: Program, second: Program, outbox: Outbox, tmp_path: Path
) -> None:
    """Killed at work, with claims and calls under way: others have all of it within the lease and two seconds."""
    async with Provider(tmp_path / "books", "--dedupe", "--delay-ms-max", "100") as provider:
        settings = _at(provider, OPTIONS__KEYED="true")
        await _start([program, second], settings)
        await outbox.fill(300)
        epoch = _epoch(program)
        await until(lambda: _claims_of(outbox, epoch), "the one to be killed has some")
        await until(lambda: len(provider.entries()) >= 50, "calls are going on")
        await program.kill()
        killed_at = monotonic()
        assert await _claims_of(outbox, epoch) > 0

        await _until_recovered(outbox, epoch)
        took = monotonic() - killed_at
        await outbox.until_count(300, "sent")
        books = provider.entries()
    assert took <= LEASE_SECONDS + 2
    assert len(books) == 300
    assert {entry.accepted for entry in books.values()} == {1}


async def test_OB_14_nobody_takes_from_a_live_owner(program: Program, second: Program, outbox: Outbox) -> None:
    """However long a call takes: a lease is renewed, and only silence loses it."""
    await program.start(**QUICK, **hanging("sms"))
    owned = await outbox.fill(5)
    await outbox.until_count(5, "sending")
    await second.start(**QUICK)
    beats = "SELECT coalesce(min(beat), 0) FROM dispatcher.instances"
    renewals = 3 * LEASE_SECONDS / 0.2

    async def leases_have_passed() -> bool:
        return int(await outbox.connection.fetchval(beats)) >= renewals

    await until(leases_have_passed, "three leases went by")
    assert [await outbox.life(one) for one in owned] == ["sending"] * 5
    assert second.metric("dispatcher_fenced_instances_total") == 0


async def test_OB_14_who_wakes_after_its_lease_marks_nothing_and_begins_anew(
    program: Program, second: Program, outbox: Outbox, tmp_path: Path
) -> None:
    await outbox.connection.execute(WATCH_MARKS)
    async with Provider(tmp_path / "books", "--delay-ms-max", "50") as provider:
        await program.start(**_at(provider))
        ids = await outbox.fill(400)
        await until(lambda: len(provider.entries()) >= 50, "it is at work")
        program.signal(signal.SIGSTOP)
        old = _epoch(program)
        assert await _claims_of(outbox, old) > 0
        await second.start(**_at(provider))
        await _until_recovered(outbox, old)
        await outbox.until_count(300, "sent")
        marked = await _marked_by(outbox, old)
        ids += await outbox.fill(200)
        program.signal(signal.SIGCONT)
        await program.until(lambda: _epoch(program) != old, "it has begun another epoch")
        ids += await outbox.fill(200)

        async def settled() -> bool:
            return await outbox.count("sent") + await outbox.count("held") == len(ids)

        await until(settled, "everything is sent or held")
        assert await _marked_by(outbox, old) == marked
        assert await _marked_by(outbox, _epoch(program)) > 0
        assert {entry.accepted for entry in provider.entries().values()} == {1}


@pytest.mark.parametrize(("policy", "meanwhile", "attempts"), [("false", "held", 1), ("true", "sent", 2)])
async def test_OB_14_a_licence_runs_out_while_its_owner_is_stopped(
    program: Program, second: Program, outbox: Outbox, tmp_path: Path, policy: str, meanwhile: str, attempts: int
) -> None:
    """Stopped between mark and call, and taken for dead: awake it calls nobody, and what it knows frees the held."""
    async with Provider(tmp_path / "books") as provider:
        settings = _at(provider, AT_LEAST_ONCE=policy)
        await program.start(**settings, FAULT="call.begun:1:stop")
        ids = await outbox.fill(5)
        await outbox.until_count(5, "sending")
        await second.start(**settings)
        await outbox.until_count(5, meanwhile)
        old = _epoch(program)
        program.signal(signal.SIGCONT)
        await program.until(lambda: _epoch(program) != old, "it has begun another epoch")
        await outbox.until_count(5, "sent")
        assert [(await outbox.row(one))["attempts"] for one in ids] == [attempts] * 5
        assert [entry.accepted for entry in provider.entries().values()] == [1] * 5


def _worst(times: Sequence[float], seconds: float) -> int:
    """The most of them in any window of so many seconds."""
    return max(sum(start <= at < start + seconds for at in times) for start in times)


async def test_OB_18_a_limit_is_for_all_replicas_together(
    program: Program, second: Program, outbox: Outbox, tmp_path: Path
) -> None:
    """Fifty a second: from one, while another joins, and from both."""
    await outbox.connection.execute(WATCH_MARKS)
    async with Provider(tmp_path / "books") as provider:
        settings = _at(provider, RATE_PER_SECOND="50") | SLOW_BEAT
        await program.start(**settings)
        await outbox.fill(2_000)
        await outbox.until_count(30, "sent")
        await second.start(**settings)
        await until(lambda: _sent_by(second) >= 40, "both are at work")
        called = sorted(entry.first_at for entry in provider.entries().values())
    rows = await outbox.connection.fetch("SELECT extract(epoch FROM at)::float8 AS at FROM public.marks ORDER BY at")
    permitted = [row["at"] for row in rows]
    assert _worst(permitted, 1.0) <= 50 * 1.1
    assert _worst(called, 1.0) <= 50 * 1.2
    assert _worst(called, 2.0) <= 100 * 1.1
    # A limit is no reason to stand still either.
    assert len(called) / (called[-1] - called[0]) >= 20


async def test_OB_18_replicas_with_another_configuration_are_reported(
    program: Program, second: Program, third: Program
) -> None:
    other = QUICK | {"DISPATCHER_INSTANCE__NAME": "other", "DISPATCHER_CHANNELS__SMS__RATE_PER_SECOND": "7"}
    await asyncio.gather(_start([program, second], QUICK), third.start(**other))
    await program.until(lambda: program.metric("dispatcher_config_peers_differ") == 1, "one sees that one differs")
    await third.until(lambda: third.metric("dispatcher_config_peers_differ") == 2, "two differ from it", 5)
    (line,) = program.events("config.differs")
    assert line["instances"] == ["other"]
    assert await third.stop() == 0
    await program.until(lambda: program.metric("dispatcher_config_peers_differ") == 0, "they agree again")
    assert len(program.events("config.agrees")) == 1
    assert len(program.events("config.differs")) == 1


@pytest.mark.parametrize(
    ("setting", "seconds"), [("HEARTBEAT_SECONDS", "5"), ("LICENCE_SECONDS", "10"), ("LEASE_SECONDS", "3")]
)
def test_OB_14_a_lease_that_its_heartbeat_cannot_keep_is_refused(setting: str, seconds: str) -> None:
    program = Program("postgresql://nowhere.invalid/", **{f"DISPATCHER_INSTANCE__{setting}": seconds})
    try:
        ended = program.run("serve")
    finally:
        program.end()
    assert ended.returncode == 2
    assert b"lease_seconds" in ended.stderr
    assert b"heartbeat" in ended.stderr
