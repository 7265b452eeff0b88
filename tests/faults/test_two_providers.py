"""Two providers and a process that dies: no message is at both, wherever it was cut off."""

import signal
from collections.abc import AsyncIterator
from itertools import count
from pathlib import Path

import pytest

from dispatcher.db.database import Database
from dispatcher.db.health import checks
from dispatcher.features.deliveries.store import New, insert
from tests.faults.provider import Provider
from tests.support.program import Program
from tests.support.waits import until

NUMBER = 40
BEAT = {
    "DISPATCHER_INSTANCE__HEARTBEAT_SECONDS": "0.1",
    "DISPATCHER_INSTANCE__LEASE_SECONDS": "0.6",
    "DISPATCHER_INSTANCE__LICENCE_SECONDS": "0.4",
    "DISPATCHER_CHANNELS__SMS__CALL_SECONDS_MAX": "1",
    "DISPATCHER_RETRY__BASE_SECONDS": "0.1",
}
# Marked, and without a result that was written.
UNKNOWN = ("mark.written", "call.begun", "call.ended", "flush.asked")

_numbers = count(1)


@pytest.fixture
async def second(url: str) -> AsyncIterator[Program]:
    """The program that goes on when the first one is dead."""
    program = Program(url)
    try:
        yield program
    finally:
        program.end()


def _settings(one: Provider, other: Provider, weights: tuple[int, int], *, keyed: bool) -> dict[str, str]:
    at = "DISPATCHER_CHANNELS__SMS__PROVIDERS__"
    found = dict(BEAT)
    for name, provider, weight in (("ONE", one, weights[0]), ("OTHER", other, weights[1])):
        found |= {
            f"{at}{name}__PROVIDER": "ledger",
            f"{at}{name}__WEIGHT": str(weight),
            f"{at}{name}__BREAKER_SECONDS": "0.2",
            f"{at}{name}__OPTIONS__PORT": str(provider.port),
            f"{at}{name}__OPTIONS__KEYED": str(keyed).lower(),
        }
    return found


async def _write(database: Database, number: int = NUMBER) -> list[int]:
    batch = [
        New(
            idempotency_key=f"two-{next(_numbers)}",
            channel="sms",
            recipient="+4917012345",
            template='{"body": "hello"}',
        )
        for _ in range(number)
    ]
    return [written.id for written in await insert(database, batch)]


async def _settled(database: Database, ids: list[int], *lives: str) -> dict[int, str]:
    """Wait until each of these has come to one of these lives; answers which."""

    async def there() -> dict[int, str]:
        rows = await database.fetch("SELECT id, life FROM dispatcher.delivery_life WHERE id = ANY ($1)", ids)
        found = {row["id"]: row["life"] for row in rows}
        return found if set(found.values()) <= set(lives) else {}

    found: dict[int, str] = await until(there, f"each is {' or '.join(lives)}", 20)
    return found


async def _sound(database: Database) -> None:
    assert [found for name in checks.invariants() if (found := await checks.check(database, name))] == []


@pytest.mark.parametrize("keyed", [False, True], ids=["unkeyed", "keyed"])
@pytest.mark.parametrize("point", UNKNOWN)
async def test_what_a_kill_leaves_unknown_never_goes_to_the_other_provider(
    database: Database, program: Program, second: Program, tmp_path: Path, point: str, keyed: bool
) -> None:
    """Even where the one that goes on sends everything new by the other."""
    arguments = ("--dedupe",) if keyed else ()
    async with Provider(tmp_path / "one", *arguments) as one, Provider(tmp_path / "other", *arguments) as other:
        await program.start(FAULT=f"{point}:1:kill9", **_settings(one, other, (1, 0), keyed=keyed))
        ids = await _write(database)
        assert await program.ended(15) == -signal.SIGKILL
        marked = "SELECT count(*) FROM dispatcher.delivery_state WHERE marked AND provider = 'one (ledger)'"
        unknown = int(await database.value(marked))
        assert unknown
        ids += await _write(database)
        await second.start(**_settings(one, other, (0, 1), keyed=keyed))
        lives = await _settled(database, ids, "sent", "held")
        held = sum(life == "held" for life in lives.values())
        assert held == (0 if keyed else unknown)
        assert not one.entries().keys() & other.entries().keys()
        assert len(other.entries()) == len(ids) - unknown
        assert all(entry.accepted == 1 for entry in other.entries().values())
        by_one = "SELECT count(*) FROM dispatcher.delivery_state WHERE provider = 'one (ledger)'"
        assert int(await database.value(by_one)) == unknown
        await _sound(database)


@pytest.mark.parametrize("keyed", [False, True], ids=["unkeyed", "keyed"])
async def test_a_provider_that_dies_under_load_leaves_nothing_at_both(
    database: Database, program: Program, tmp_path: Path, keyed: bool
) -> None:
    """What it may have taken waits for it, or is held; the rest goes by the other one."""
    arguments = ("--dedupe",) if keyed else ()
    async with (
        Provider(tmp_path / "one", *arguments, "--delay-ms-max", "5") as one,
        Provider(tmp_path / "other", *arguments) as other,
    ):
        await program.start(**_settings(one, other, (1, 1), keyed=keyed))
        ids = await _write(database, 2_000)
        await until(lambda: len(one.entries()) > 50 and len(other.entries()) > 50, "both have some")
        await one.end(signal.SIGKILL)
        ids += await _write(database, 200)
        by_other = """SELECT count(*) FILTER (WHERE status = 'sent' AND provider = 'other (ledger)'),
                             count(*) FILTER (WHERE status = 'queued' AND NOT held
                                                    AND provider IS DISTINCT FROM 'one (ledger)')
                        FROM dispatcher.delivery_state"""

        async def rest() -> bool:
            """What could not reach the first one is still its own until that is written."""
            ((sent, open_),) = await database.fetch(by_other)
            return bool(open_ == 0 and sent == len(other.entries()))

        await until(rest, "what the first provider cannot have is sent by the other, and nothing else", 20)
        assert not one.entries().keys() & other.entries().keys()
        await _sound(database)
