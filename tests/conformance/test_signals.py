"""OB-15 and OB-16: new work wakes the dispatcher at once, and signals stop or change it without losing anything."""

import asyncio
import signal
from pathlib import Path

import pytest

from tests.conformance.outbox import PATIENT, QUICK, Outbox, hanging, once
from tests.support.program import Program
from tests.support.waits import until

LISTENER = "application_name = 'dispatcher wakeup' AND datname = current_database()"


async def _listening(outbox: Outbox) -> bool:
    listening = f"SELECT count(*) FROM pg_stat_activity WHERE {LISTENER} AND query LIKE 'LISTEN%'"
    return int(await outbox.connection.fetchval(listening)) == 1


async def _asleep(outbox: Outbox) -> bool:
    """Whether the dispatcher listens, has asked to be woken, and has looked around for the last time."""
    wants = "SELECT bool_and(wants_notify AND wants_urgent) FROM dispatcher.instances"
    quiet = """SELECT count(*) FROM pg_stat_activity
                WHERE application_name = 'dispatcher' AND datname = current_database()
                  AND state_change > clock_timestamp() - interval '1 s' AND query LIKE '-- For each lane asked%'"""
    return (
        await _listening(outbox)
        and bool(await outbox.connection.fetchval(wants))
        and not await outbox.connection.fetchval(quiet)
    )


async def _overlooked(outbox: Outbox) -> int | None:
    """Put a delivery without a notification; return it unless it is found within a second.

    After work, and when it starts, the dispatcher looks around for half a second before it sleeps; then it asks to be
    woken, also after one that it has found here.
    """
    still = "SELECT coalesce(max(finished_at) < clock_timestamp() - interval '1 s', true) FROM dispatcher.delivery_life"
    decided = """SELECT life <> 'pending' OR run_at < clock_timestamp() - interval '1 s'
                   FROM dispatcher.delivery_life WHERE id = $1"""
    await until(lambda: outbox.connection.fetchval(still), "nothing was sent for a second")
    await outbox.connection.execute("UPDATE dispatcher.instances SET wants_notify = false")
    delivery = await outbox.put()
    await until(lambda: outbox.connection.fetchval(decided, delivery), "it is found, or a second has passed")
    return delivery if await outbox.life(delivery) == "pending" else None


async def test_OB_15_new_work_wakes_the_dispatcher_at_once(program: Program, outbox: Outbox) -> None:
    """It polls every ten minutes: only a notification explains that anything leaves."""
    await program.start(**PATIENT)
    for lane in (0, 1, 2):
        await until(lambda: _asleep(outbox), "it sleeps")
        await outbox.until_life(await outbox.put(lane=lane), "sent")


async def test_OB_15_what_was_busy_is_woken_again_when_it_is_idle(program: Program, outbox: Outbox) -> None:
    await program.start(**PATIENT)
    await outbox.fill(20_000)
    await outbox.until_count(20_000, "sent")
    await until(lambda: _asleep(outbox), "it sleeps")
    await outbox.until_life(await outbox.put(), "sent")


async def test_OB_15_a_delivery_for_later_leaves_at_its_time_without_a_poll(program: Program, outbox: Outbox) -> None:
    await program.start(**PATIENT)
    moment = await outbox.connection.fetchval("SELECT now() + interval '1.5 s'")
    delivery = await outbox.put(run_at=moment)
    await outbox.until_life(delivery, "sent")
    assert (await outbox.row(delivery))["finished_at"] >= moment


async def test_OB_15_polling_finds_what_was_not_announced(program: Program, outbox: Outbox) -> None:
    await program.start(DISPATCHER_CLAIM__POLL_SECONDS="0.3", DISPATCHER_CLAIM__POLL_JITTER="0")
    await until(lambda: _listening(outbox), "it listens")
    await outbox.connection.execute("UPDATE dispatcher.instances SET wants_notify = false, wants_urgent = false")
    for lane in (0, 1):
        await outbox.until_life(await outbox.put(lane=lane), "sent")


async def test_OB_15_a_lost_listener_is_replaced_and_what_came_meanwhile_is_found(
    program: Program, outbox: Outbox
) -> None:
    await program.start(**PATIENT)
    await until(lambda: _listening(outbox), "it listens")
    unannounced = await until(lambda: _overlooked(outbox), "it sleeps and does not see a delivery")
    await outbox.connection.execute("UPDATE dispatcher.instances SET wants_notify = true")
    await outbox.connection.execute(f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE {LISTENER}")
    await outbox.until_life(unannounced, "sent")
    await until(lambda: _listening(outbox), "it listens again")


async def test_OB_16_sigterm_finishes_what_is_in_flight_and_releases_the_rest(program: Program, outbox: Outbox) -> None:
    slow = {"LATENCY": "1", "LATENCY_SECONDS": "0.5"}
    await program.start(
        DISPATCHER_CHANNELS__SMS__MARKED_MAX="10",
        **{f"DISPATCHER_CHANNELS__SMS__FAULTS__{name}": value for name, value in slow.items()},
    )
    ids = await outbox.fill(500)
    await outbox.until_count(1, "sending")
    assert await program.stop() == 0
    assert await outbox.nothing_in_flight()
    assert await outbox.count("held") == 0
    sent, waiting = await outbox.count("sent"), await outbox.count("pending")
    assert sent >= 1
    assert waiting >= 1
    assert sent + waiting == len(ids)
    assert len(await outbox.captured()) == sent
    assert await outbox.instances() == 0
    assert await outbox.connection.fetchval("SELECT count(*) FROM dispatcher.claims") == 0
    attempts = "SELECT sum(attempt) FROM dispatcher.delivery_state WHERE status = 'queued'"
    assert await outbox.connection.fetchval(attempts) == 0


async def test_OB_16_while_it_drains_it_is_not_ready_and_claims_nothing(program: Program, outbox: Outbox) -> None:
    await program.start(**hanging("sms"), DISPATCHER_INSTANCE__GRACE_SECONDS="2")
    await outbox.put("sms")
    await outbox.until_count(1, "sending")
    program.signal(signal.SIGTERM)
    await program.until(lambda: program.get("/readyz")[0] == 503, "it says that it is not ready")
    assert "draining" in program.get("/readyz")[1]
    late = await outbox.put("email")
    assert await program.ended() == 0
    assert await outbox.life(late) == "pending"


async def test_OB_16_a_call_that_outlives_the_grace_is_held(program: Program, outbox: Outbox) -> None:
    await program.start(**hanging("sms"), DISPATCHER_INSTANCE__GRACE_SECONDS="0.3")
    delivery = await outbox.put("sms")
    await outbox.until_life(delivery, "sending")
    assert await program.stop() == 0
    assert await outbox.life(delivery) == "held"
    assert (await outbox.row(delivery))["error"].startswith("unknown")
    assert await outbox.nothing_in_flight()


async def test_OB_16_a_second_sigterm_exits_at_once_and_another_recovers_everything(
    program: Program, second: Program, outbox: Outbox
) -> None:
    await program.start(**QUICK, **hanging("sms"), DISPATCHER_CHANNELS__SMS__MARKED_MAX="10")
    ids = await outbox.fill(100)
    await outbox.until_count(1, "sending")
    program.signal(signal.SIGTERM)
    await program.until(lambda: program.events("process.draining"), "it drains")

    async def killed() -> bool:
        program.signal(signal.SIGTERM)
        return bool(program.events("process.killed"))

    await until(killed, "it is gone at once")
    assert await program.ended(5) not in {0, None}
    await second.start(**QUICK)
    await until(outbox.nothing_in_flight, "everything was recovered")

    async def settled() -> bool:
        return await outbox.count("held") + await outbox.count("sent") == len(ids)

    await until(settled, "all are sent or held")
    assert 1 <= await outbox.count("held") <= 10
    assert once(await outbox.captured())


async def test_OB_16_one_sigterm_that_comes_twice_drains(program: Program, outbox: Outbox) -> None:
    """As where it is sent to a process and to its group. Two kinds of signal are never one to the kernel."""
    await program.start()
    delivery = await outbox.put("sms")
    await outbox.until_life(delivery, "sent")
    for number in (signal.SIGSTOP, signal.SIGTERM, signal.SIGINT, signal.SIGCONT):
        program.signal(number)
    assert await program.ended() == 0
    assert not program.events("process.killed")


async def test_OB_16_sigterm_while_postgres_is_away_ends_too(program: Program) -> None:
    program.url = "postgresql://nobody@127.0.0.1:1/nowhere"
    await program.launch()
    await program.until(lambda: program.events("database.away"), "it has noticed")
    assert "waiting for the database" in program.get("/readyz")[1]
    assert await program.stop(10) == 0


@pytest.fixture
async def configured(program: Program, config_file: Path) -> Program:
    """The program with a configuration from a file."""
    config_file.write_text('[log]\nlevel = "info"\n')
    return await program.start(DISPATCHER_CONFIG=str(config_file))


BROKEN = {
    "broken_toml": "[channels.sms\n",
    "unknown_key": '[channels.sms]\nprovider = "blackhole"\n[claim]\nno_such_key = 1\n',
    "wrong_type": '[channels.sms]\nprovider = "blackhole"\n[claim]\npoll_seconds = "often"\n',
    "unknown_provider": '[channels.sms]\nprovider = "pigeon"\n',
    "no_file": None,
}


@pytest.mark.parametrize("how", BROKEN)
async def test_OB_16_sighup_with_an_invalid_file_changes_nothing_and_is_reported(
    configured: Program, outbox: Outbox, config_file: Path, how: str
) -> None:
    text = BROKEN[how]
    if text is None:
        config_file.unlink()
    else:
        config_file.write_text(text)
    configured.signal(signal.SIGHUP)
    (refused,) = await configured.until(lambda: configured.events("config.refused"), "it is refused")
    assert refused["faults"]
    assert configured.metric("dispatcher_config_reloads_total", result="refused") == 1
    delivery = await outbox.put("sms")
    await outbox.until_life(delivery, "sent")
    assert await outbox.captured() == [delivery]


async def test_OB_16_sighup_with_a_valid_file_applies_it_and_names_what_needs_a_restart(
    configured: Program, outbox: Outbox, config_file: Path
) -> None:
    before = await outbox.put("sms")
    await outbox.until_life(before, "sent")
    config_file.write_text('[channels.sms]\nprovider = "blackhole"\n[instance]\ngrace_seconds = 3\n')
    configured.signal(signal.SIGHUP)
    (reloaded,) = await configured.until(lambda: configured.events("config.reloaded"), "it is applied")
    assert "channels.sms.provider" in reloaded["applied"]
    assert reloaded["needs_restart"] == ["instance.grace_seconds"]
    assert configured.metric("dispatcher_config_reloads_total", result="applied") == 1
    after = await outbox.put("sms")
    await outbox.until_life(after, "sent")
    assert await outbox.captured() == [before]


async def test_OB_16_after_a_refused_file_a_valid_one_is_applied(
    configured: Program, outbox: Outbox, config_file: Path
) -> None:
    config_file.write_text("[")
    configured.signal(signal.SIGHUP)
    await configured.until(lambda: configured.events("config.refused"), "it is refused")
    config_file.write_text('[channels.sms]\nprovider = "blackhole"\n')
    configured.signal(signal.SIGHUP)
    await configured.until(lambda: configured.events("config.reloaded"), "it is applied")
    await outbox.until_life(await outbox.put("sms"), "sent")
    assert await outbox.captured() == []


async def test_OB_16_more_room_after_a_reload_is_used_at_once_although_all_calls_hang(
    program: Program, outbox: Outbox, config_file: Path
) -> None:
    hang = "[channels.sms.faults]\nhang = 1.0\n"
    config_file.write_text(f"[channels.sms]\nmarked_max = 5\n{hang}")
    await program.start(DISPATCHER_CONFIG=str(config_file), **PATIENT)
    await outbox.fill(200)
    await outbox.until_count(3, "sending")
    config_file.write_text(f"[channels.sms]\nmarked_max = 100\n{hang}")
    program.signal(signal.SIGHUP)
    await outbox.until_count(50, "sending")


async def test_OB_16_a_reload_loses_and_doubles_nothing(configured: Program, outbox: Outbox, config_file: Path) -> None:
    ids = await outbox.fill(3_000)
    for marked in (5, 500, 20, 300):
        config_file.write_text(f"[channels.sms]\nmarked_max = {marked}\n[claim]\nbatch_max = {marked}\n")
        configured.signal(signal.SIGHUP)
        await asyncio.sleep(0)
    await outbox.until_count(len(ids), "sent")
    captured = await outbox.captured()
    assert once(captured)
    assert sorted(captured) == sorted(ids)
