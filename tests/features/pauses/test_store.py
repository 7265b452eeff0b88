"""Pauses in Postgres: each holds where it was made, ends once, and keeps who ended it."""

import pytest

from dispatcher.base.workspace import Workspace
from dispatcher.db.database import Database
from dispatcher.features.pauses import store as pauses
from tests.support import flows
from tests.support.pauses import resume
from tests.support.scene import Connection

PLACES = (None, Workspace("default", "default"), Workspace("default", "other"), Workspace("acme", "default"))
ENDED = "SELECT ended_at, ended_by FROM dispatcher.pauses WHERE id = $1"


@pytest.mark.parametrize("place", PLACES, ids=str)
async def test_a_resume_in_one_workspace_leaves_the_others_paused(database: Database, place: Workspace | None) -> None:
    opened = {one: (await pauses.pause(database, "channel", "sms", "ann", "x", one)).id for one in PLACES}
    assert await resume(database, "channel", "sms", "bob", place)
    assert {row["id"] for row in await pauses.listed(database, None, 0, 100)} == set(opened.values()) - {opened[place]}


async def test_an_ended_run_keeps_its_status(database: Database, connection: Connection) -> None:
    first = await pauses.pause(database, "channel", "sms", "ann", "x")
    assert await resume(database, "channel", "sms", "bob")
    before = await connection.fetchrow(ENDED, first.id)
    assert not await resume(database, "channel", "sms", "carol")
    assert not await pauses.resume(database, first.id, "carol", "why")
    second = await pauses.pause(database, "channel", "sms", "ann", "y")
    assert (second.already, second.id != first.id) == (False, True)
    assert await pauses.resume(database, second.id, "carol", "why")
    assert await connection.fetchrow(ENDED, first.id) == before
    assert before is not None
    assert before["ended_by"] == "bob"


async def test_the_pause_of_a_run_ends_with_the_run_alone(database: Database, connection: Connection) -> None:
    await flows.put(connection)
    run = (await flows.trigger(connection))["execution_id"]
    await connection.execute("SELECT dispatcher.pause_run($1)", run)
    (row,) = await pauses.listed(database, None, 0, 100)
    assert (row["scope"], row["name"]) == ("run", str(run))
    assert not await pauses.resume(database, row["id"], "bob", "why")
    assert [one["id"] for one in await pauses.listed(database, None, 0, 100)] == [row["id"]]
