"""Batches of triggers: each trigger is answered as if it were alone."""

import asyncio
from typing import Any

import asyncpg
import pytest

from dispatcher.base.errors import TriggerRefused
from dispatcher.base.workspace import Workspace
from dispatcher.db import tenants
from dispatcher.db.database import Database
from dispatcher.features.runs import store as runs
from dispatcher.features.runs.models import Triggered
from dispatcher.features.runs.store import Trigger
from dispatcher.features.runs.trigger_batches import TriggerBatches
from dispatcher.http.server.connection_shares import PATIENT_MAX
from tests.support.flows import plan, put
from tests.support.scene import Connection
from tests.support.waits import until, until_blocked

OURS = Workspace("default", "default")
DELETE = "SELECT dispatcher.delete_workflow('default', 'default', 'welcome', 'ann')"
ACTIVE = "SELECT dispatcher.set_workflow_active('default', 'default', 'welcome', $1, 'ann')"


def asked(given: str = '{"name": "Ann"}', key: str | None = None, workflow: str = "welcome") -> Trigger:
    """A trigger of ours."""
    return Trigger(workflow=workflow, input=given, key=key, workspace=OURS, by="test")


def _facts(answer: Triggered | TriggerRefused) -> Any:
    """What an answer says that does not depend on when it was asked for."""
    if isinstance(answer, Triggered):
        return answer.workflow_name, answer.version, answer.status, answer.total_steps, answer.duplicate
    return answer.why, answer.message, answer.faults


async def _alone(database: Database, one: Trigger) -> Triggered | TriggerRefused:
    try:
        return await runs.trigger(database, one)
    except TriggerRefused as refused:
        return refused


async def test_each_is_answered_as_if_it_had_come_alone(database: Database, connection: Connection) -> None:
    await put(connection, plan(required=["name"]))
    before = await runs.trigger(database, asked(key="before"))

    def batch(called: str) -> list[Trigger]:
        return [
            asked(key=f"{called}-1"),
            asked("{}", key=f"{called}-2"),
            # Its key has a run already, whatever else it says now.
            asked("{}", key="before"),
            asked(key=f"{called}-1"),
            asked(),
            asked(key="k" * 256),
            asked("[]", key=f"{called}-3"),
            asked(f'{{"name": "{"x" * 1_100_000}"}}', key=f"{called}-4"),
        ]

    batched = await runs.trigger_many(database, batch("together"))
    alone = [await _alone(database, one) for one in batch("alone")]
    assert [_facts(one) for one in batched] == [_facts(one) for one in alone]
    kinds = [one.duplicate if isinstance(one, Triggered) else one.why for one in batched]
    assert kinds == [False, "faulty", True, True, False, "faulty", "faulty", "faulty"]
    assert batched[2] == Triggered(before.execution_id, "welcome", 1, "queued", 2, duplicate=True)
    ids = [one.execution_id for one in batched if isinstance(one, Triggered)]
    assert ids[2] == ids[0]
    find = "SELECT id, idempotency_key, triggered_by FROM dispatcher.runs WHERE id = ANY ($1)"
    stored = await connection.fetch(find, ids)
    assert {row["id"]: (row["idempotency_key"], row["triggered_by"]) for row in stored} == {
        before.execution_id: ("before", "test"),
        ids[0]: ("together-1", "test"),
        ids[3]: (None, "test"),
    }


async def test_a_workflow_that_is_not_there_or_not_active_refuses_all(
    database: Database, connection: Connection
) -> None:
    await put(connection, active=False)
    for name, why in (("welcome", "not now"), ("nothing", "unknown")):
        answers = await runs.trigger_many(database, [asked(workflow=name), asked(workflow=name, key="k")])
        assert [one.why for one in answers if isinstance(one, TriggerRefused)] == [why, why]


async def test_an_unstorable_value_refuses_the_whole_batch(database: Database, connection: Connection) -> None:
    await put(connection)
    with pytest.raises(TriggerRefused):
        await runs.trigger_many(database, [asked('{"a": "\\u0000"}', key="bad"), asked(key="good")])
    assert await connection.fetchval("SELECT count(*) FROM dispatcher.runs") == 0


async def test_a_faulty_trigger_does_not_refuse_its_batch(database: Database, connection: Connection) -> None:
    await put(connection)
    batched = TriggerBatches(lambda: database)
    sent = [asked('{"a": "\\u0000"}', key="bad"), *(asked(key=f"good-{number}") for number in range(5))]
    bad, *good = await asyncio.gather(*(batched.start(one) for one in sent), return_exceptions=True)
    assert isinstance(bad, TriggerRefused)
    assert all(isinstance(one, Triggered) and not one.duplicate for one in good)
    stored = await connection.fetch("SELECT idempotency_key FROM dispatcher.runs ORDER BY 1")
    assert [row[0] for row in stored] == [f"good-{number}" for number in range(5)]


async def test_the_same_keys_in_another_order_at_the_same_time_are_one_run_each(
    database: Database, connection: Connection
) -> None:
    await put(connection)
    names = [f"key-{number:02}" for number in range(30)]
    both = await asyncio.gather(
        *(runs.trigger_many(database, [asked(key=one) for one in order]) for order in (names, names[::-1]) * 3)
    )
    by_key: dict[str, set[int]] = {}
    for order, answers in zip((names, names[::-1]) * 3, both, strict=True):
        for key, answer in zip(order, answers, strict=True):
            assert isinstance(answer, Triggered), answer
            by_key.setdefault(key, set()).add(answer.execution_id)
    assert all(len(found) == 1 for found in by_key.values())
    assert sum(not one.duplicate for answers in both for one in answers if isinstance(one, Triggered)) == len(names)


async def test_a_deletion_that_is_under_way_is_waited_for(database: Database, connection: Connection) -> None:
    await put(connection)
    async with connection.transaction():
        await connection.execute(ACTIVE, False)
        assert await connection.fetchval(DELETE) == "deleted"
        waiting = asyncio.create_task(runs.trigger_many(database, [asked(key="k")]))
        await until_blocked(connection)
    (answer,) = await waiting
    assert isinstance(answer, TriggerRefused)
    assert answer.why == "unknown"


async def test_a_trigger_that_arrives_as_the_last_writer_ends_is_written(
    database: Database, connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dispatcher.features.runs.trigger_batches.UNDER_WAY_MAX", 1)
    await put(connection)
    gathered = TriggerBatches(lambda: database)
    for number in range(3):
        async with asyncio.timeout(10):
            await gathered.start(asked(key=f"key-{number}"))


async def test_triggers_beyond_one_batch_are_written_in_the_next(
    database: Database, connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dispatcher.features.runs.trigger_batches.BATCH_MAX", 2)
    await put(connection)
    gathered = TriggerBatches(lambda: database)
    async with asyncio.timeout(10):
        answers = await asyncio.gather(*(gathered.start(asked(key=f"key-{number}")) for number in range(7)))
    assert [one.duplicate for one in answers] == [False] * 7


class _Watched(TriggerBatches):
    """Counts the triggers that wait for a lock, and the connections on which they wait at the same time."""

    def __init__(self, database: Database) -> None:
        super().__init__(lambda: database)
        self.patient = 0
        self.waiting = 0
        self.waiting_most = 0

    async def _written(self, batch: Any, lock_seconds: float | None) -> Any:
        if lock_seconds is not None:
            try:
                return await super()._written(batch, lock_seconds)
            except asyncpg.LockNotAvailableError:
                self.patient += len(batch) == 1
                raise
        self.waiting += 1
        self.waiting_most = max(self.waiting_most, self.waiting)
        try:
            return await super()._written(batch, lock_seconds)
        finally:
            self.waiting -= 1


async def test_a_trigger_with_a_locked_key_waits_and_the_rest_of_its_batch_does_not(
    database: Database, connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The waiting triggers use at most PATIENT_MAX connections."""
    monkeypatch.setattr("dispatcher.features.runs.trigger_batches.LOCK_SECONDS", 0.01)
    monkeypatch.setattr("dispatcher.features.runs.trigger_batches.UNDER_WAY_MAX", 1)
    await put(connection)
    watched = _Watched(database)
    locked = [f"locked-{number}" for number in range(PATIENT_MAX + 2)]
    transaction = connection.transaction()
    await transaction.start()
    for key in locked:
        await connection.execute("SELECT dispatcher.trigger_workflow('welcome', '{\"name\": \"Ann\"}', $1)", key)
    # All of them are one batch.
    waiting, free = (
        [asyncio.create_task(watched.start(asked(key=key))) for key in keys] for keys in (locked, ["free"])
    )
    async with asyncio.timeout(10):
        assert [one.duplicate for one in await asyncio.gather(*free)] == [False]
    await until(lambda: watched.patient == len(locked), "all triggers with locked keys wait")
    assert [one.result() for one in waiting if one.done()] == []
    assert watched.waiting_most == PATIENT_MAX
    await transaction.rollback()
    assert [one.duplicate for one in await asyncio.gather(*waiting)] == [False] * len(locked)


async def test_a_lock_timeout_is_not_a_refusal(database: Database, connection: Connection) -> None:
    await put(connection)
    async with connection.transaction():
        await connection.execute("SELECT dispatcher.trigger_workflow('welcome', '{\"name\": \"Ann\"}', 'k')")
        for trigger in (runs.trigger, lambda inside, one: runs.trigger_many(inside, [one])):
            with pytest.raises(asyncpg.LockNotAvailableError):
                async with tenants.transaction(database, OURS, lock_seconds=0.01) as inside:
                    await trigger(inside, asked(key="k"))


async def test_a_lock_timeout_that_the_sql_function_returns_is_not_a_refusal() -> None:
    class Refusing:
        async def fetch(self, _query: str, *_given: object) -> Any:
            code, message = "55P03", "canceling statement due to lock timeout"
            names = "place", "execution_id", "version", "total_steps", "duplicate", "refusal", "message", "detail"
            return [dict(zip(names, (1, None, None, None, None, code, message, ""), strict=True))]

    with pytest.raises(asyncpg.LockNotAvailableError):
        await runs.trigger_many(Refusing(), [asked()])  # type: ignore[arg-type]  # all of a database that it asks
