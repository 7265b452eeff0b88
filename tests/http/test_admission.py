"""Admission: what a key may do follows its configuration, and only what is due in a hurry keeps callers out."""

import pytest
from msgspec import structs

from dispatcher.base.workspace import Workspace
from dispatcher.config.settings import Api, Config
from dispatcher.db.database import Database
from dispatcher.engine.rules.life import Lane
from dispatcher.engine.store import backlog
from dispatcher.features.keys import store as keys
from dispatcher.http.problems import OVERLOADED, TOO_MANY, Problem
from dispatcher.http.roles import Role
from dispatcher.http.server.admission import BACKLOG_SECONDS, TOUCH_SECONDS, Admission
from dispatcher.http.server.authentication import Key
from tests.support.scene import Connection

HOUR = 3_600.0


class Hall:
    """An admission with a configuration and a clock that a test sets, and a key."""

    def __init__(self, database: Database, api: Api) -> None:
        self.config = Config(api=api)
        self.now = 1_000.0
        self.admission = Admission(lambda: self.config, lambda: database, backlog.ages, lambda: self.now)
        self._database = database

    def configure(self, **fields: float) -> None:
        """Say something else of the API from now on."""
        self.config = structs.replace(self.config, api=structs.replace(self.config.api, **fields))

    async def key(self) -> Key:
        """A key, and that it is good."""
        made = await keys.create(self._database, Workspace(), "shop", Role.SYSTEM_ADMIN, None, by=("ann", "a test"))
        assert made is not None
        return await self.admission.key(f"Bearer {made.text}")

    async def admits(self, key: Key) -> bool:
        """Whether one more request with the key is let through."""
        try:
            await self.admission.admit(key, None)
        except Problem as problem:
            return problem.kind is not TOO_MANY
        return True

    async def sheds(self) -> bool:
        """Whether more work is refused, as seen now."""
        await self.admission.look()
        try:
            await self.admission.shed(["sms"])
        except Problem as problem:
            return problem.kind is OVERLOADED
        return False


async def _due(connection: Connection, lane: Lane) -> None:
    await connection.execute(
        """INSERT INTO dispatcher.deliveries (idempotency_key, channel, recipient, template, scheduled_for, lane)
           VALUES ('late-' || $1::integer, 'sms', '+4917012345', '{"body": "x"}', now() - interval '1 hour', $1)""",
        lane.value,
    )


async def test_another_rate_holds_for_a_key_that_is_in_use(database: Database) -> None:
    hall = Hall(database, Api(key_rate_per_second=0.01, key_rate_burst=1))
    key = await hall.key()
    assert [await hall.admits(key) for _ in range(2)] == [True, False]
    hall.configure(key_rate_per_second=0.0)
    assert await hall.admits(key)
    hall.configure(key_rate_per_second=0.01)
    assert [await hall.admits(key) for _ in range(2)] == [True, False]


async def test_the_use_of_a_key_is_written_once_a_minute(database: Database, connection: Connection) -> None:
    hall = Hall(database, Api())
    key = await hall.key()

    async def written() -> bool:
        await connection.execute("UPDATE dispatcher.api_keys SET last_used_at = NULL")
        assert await hall.admits(key)
        return bool(await connection.fetchval("SELECT last_used_at IS NOT NULL FROM dispatcher.api_keys"))

    assert await written()
    assert not await written()
    hall.now += TOUCH_SECONDS
    assert await written()


@pytest.mark.parametrize("lane", Lane)
async def test_late_deliveries_shed_requests_except_in_bulk(
    database: Database, connection: Connection, lane: Lane
) -> None:
    hall = Hall(database, Api(shed_after_seconds=60))
    await _due(connection, lane)
    assert await hall.sheds() is (lane is not Lane.BULK)


async def test_one_look_at_what_is_late_is_for_all_of_a_second(database: Database, connection: Connection) -> None:
    hall = Hall(database, Api(shed_after_seconds=60))
    assert not await hall.sheds()
    await _due(connection, Lane.NORMAL)
    assert not await hall.sheds()
    hall.now += BACKLOG_SECONDS
    assert await hall.sheds()
    hall.configure(shed_after_seconds=2 * HOUR)
    assert not await hall.sheds()
