"""The cost of the hot statements: the index that they use, the pages that they write, and what they wait for."""

import contextlib
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Any, TypeVar

import asyncpg
import pytest

from dispatcher.base.errors import Fenced
from dispatcher.db.database import SESSION, Database
from dispatcher.engine.rules.life import Claimed, Held, Succeeded
from dispatcher.features.templates import store as templates
from tests.features.templates.support import draft, save
from tests.support.explained import Asked, explained
from tests.support.scene import Connection, Scene
from tests.support.waits import until

T = TypeVar("T")

FUTURE = 30_000


@pytest.fixture
async def session(url: str) -> AsyncIterator[Connection]:
    """A session with the program's own settings."""
    connection = await asyncpg.connect(url, server_settings=SESSION)
    yield connection
    await connection.close()


async def _fill(session: Connection, count: int) -> None:
    await session.execute(
        """INSERT INTO dispatcher.deliveries (idempotency_key, channel, recipient, template, scheduled_for)
           SELECT 'f' || n, 'sms', '+49', '{"body": "x"}', now() + make_interval(days => 1, secs => n)
             FROM generate_series(1, $1::int) AS n""",
        count,
    )


class Overheard(Database):
    """Hears what a function of the store would ask Postgres first, and asks nothing."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, tuple[object, ...]]] = []

    async def fetch(self, query: str, *arguments: object) -> Sequence[Any]:
        self.asked.append((query, arguments))
        return []

    async def write(self, query: str, *arguments: object) -> int:
        return len(await self.fetch(query, *arguments))

    async def fetch_while(self, holds: Callable[[], bool], query: str, *arguments: object) -> Sequence[Any]:
        assert holds()
        return await self.fetch(query, *arguments)

    async def persist(self, what: str, operation: Callable[[], Awaitable[T]]) -> T:
        return await operation()


Verb = Callable[[Scene, Claimed], Awaitable[object]]


async def _asked(scene: Scene, item: Claimed, verb: Verb) -> Asked:
    """The statement of a verb with its arguments."""
    ours, scene.database = scene.database, Overheard()
    try:
        with contextlib.suppress(Fenced):
            await verb(scene, item)
        return scene.database.asked[0]
    finally:
        scene.database = ours


VERBS: dict[str, Verb] = {
    "claim": lambda scene, _item: scene.claim(100),
    "claim_recovered": lambda scene, _item: scene.claim_recovered(),
    "mark": lambda scene, item: scene.mark([item]),
    "accepted": lambda scene, item: scene.flush((item, Succeeded("m"))),
    "others": lambda scene, item: scene.flush((item, Held("unknown: x"))),
    "join": lambda scene, _item: Scene.open(scene.database),
}


@pytest.mark.parametrize("analyzed", [False, True], ids=["statistics_of_an_empty_table", "fresh_statistics"])
async def test_a_claim_reads_its_index_and_none_of_the_future(
    scene: Scene, session: Connection, analyzed: bool
) -> None:
    if not analyzed:
        await session.execute("ANALYZE dispatcher.delivery_state")
    await _fill(session, FUTURE)
    if analyzed:
        await session.execute("ANALYZE dispatcher.delivery_state; ANALYZE dispatcher.deliveries")
    await scene.write(1)
    (item,) = await scene.claim()
    await scene.write(10)
    plan = await explained(session, await _asked(scene, item, VERBS["claim"]))
    scan = plan[plan.index("delivery_state_due") :]
    assert "Seq Scan on delivery_state" not in plan
    assert "Seq Scan on deliveries" not in plan
    assert "run_at <= statement_timestamp()" in scan[scan.index("Index Cond") :].splitlines()[0], plan
    # A filter, or a sort, over rows that are not due would show here.
    assert "Rows Removed by Filter" not in plan, plan
    assert "actual rows=10" in scan.splitlines()[0], plan


async def test_a_claim_of_an_empty_queue_reads_next_to_nothing(scene: Scene, session: Connection) -> None:
    await _fill(session, FUTURE)
    await session.execute("VACUUM ANALYZE dispatcher.delivery_state")
    before = await _blocks_read(session)
    assert await scene.claim() == []
    assert await _blocks_read(session) - before < 100


async def _blocks_read(session: Connection) -> int:
    await session.execute("SELECT pg_stat_clear_snapshot()")
    return int(
        await session.fetchval(
            """SELECT sum(heap_blks_read + heap_blks_hit + idx_blks_read + idx_blks_hit)::bigint
                 FROM pg_statio_user_tables WHERE relname = 'delivery_state'"""
        )
    )


@pytest.mark.parametrize("verb", ["mark", "accepted", "others"])
async def test_marks_and_flushes_find_their_rows_by_key(scene: Scene, session: Connection, verb: str) -> None:
    await _fill(session, FUTURE)
    await session.execute("ANALYZE dispatcher.delivery_state")
    await scene.write(1)
    (item,) = await scene.claim()
    if verb != "mark":
        await scene.mark([item])
    plan = await explained(session, await _asked(scene, item, VERBS[verb]))
    assert "Index Scan using delivery_state_pkey" in plan
    assert "Seq Scan on delivery_state" not in plan


@pytest.mark.parametrize("verb", ["claim", "mark", "accepted", "others"])
async def test_a_plan_that_is_made_of_an_empty_table_does_not_read_it_whole(
    scene: Scene, session: Connection, verb: str
) -> None:
    """A session keeps its plans until the next ANALYZE, and the queue may have a million rows by then."""
    await session.execute("VACUUM (ANALYZE) dispatcher.delivery_state, dispatcher.deliveries")
    await scene.write(1)
    (item,) = await scene.claim()
    if verb in {"accepted", "others"}:
        await scene.mark([item])
    plan = await explained(session, await _asked(scene, item, VERBS[verb]))
    assert "Seq Scan" not in plan
    scans = re.findall(r"Index Scan using deliver\w+_pkey .*\n *(.*)", plan)
    assert scans, plan
    assert all(below.startswith("Index Cond: ((id >= ") for below in scans), plan


async def test_versions_are_loaded_by_key(scene: Scene, session: Connection) -> None:
    saved = [await save(scene.database, draft(f"t{number}")) for number in range(50)]
    keys = [f"v:{one.version_id}:default" for one in saved]
    overheard = Overheard()
    await templates.load(overheard, keys)
    plan = await explained(session, overheard.asked[0])
    assert "Index Scan using template_versions_pkey" in plan
    assert "Seq Scan" not in plan


async def test_a_delivery_is_frozen_by_one_look_at_an_index(scene: Scene, connection: Connection) -> None:
    for number in range(3):
        await save(scene.database, draft(f"t{number}"))
    await connection.execute("ANALYZE dispatcher.templates, dispatcher.template_versions")
    await connection.execute("SET enable_seqscan = off")  # three rows are one page, which anybody reads at once
    async with connection.transaction():
        await connection.execute(
            """INSERT INTO dispatcher.deliveries (idempotency_key, channel, recipient, template_name)
               SELECT n, 'sms', '+49', 't1' FROM generate_series(1, 100) AS n"""
        )
        rows = await connection.fetch(
            """SELECT relname, seq_scan, idx_scan FROM pg_stat_xact_user_tables
                WHERE relname IN ('templates', 'template_versions') ORDER BY relname"""
        )
    # The planner looks a few times itself.
    assert [(row["relname"], row["seq_scan"], row["idx_scan"] // 50) for row in rows] == [
        ("template_versions", 0, 2),
        ("templates", 0, 2),
    ]


async def test_most_writes_of_a_delivery_touch_no_index(scene: Scene, connection: Connection) -> None:
    """Claim, mark and flush are three writes; only the claim takes the row out of an index."""
    for _ in range(3):
        await scene.write(1_000)
        items = await scene.claim(1_000)
        await scene.mark(items)
        await scene.flush(*((item, Succeeded("m")) for item in items))
    hot = """SELECT n_tup_hot_upd::float8 / nullif(n_tup_upd, 0) FROM pg_stat_user_tables
              WHERE relname = 'delivery_state' AND n_tup_upd >= 9000"""

    async def share() -> float | None:
        await connection.execute("SELECT pg_stat_clear_snapshot()")
        found: float | None = await connection.fetchval(hot)
        return found

    await scene.database.close()  # sessions tell their counts when they end, if not before
    assert await until(share, "the statistics are in") > 0.6


@pytest.mark.parametrize(("verb", "durable"), [(verb, "off" if "claim" in verb else "on") for verb in VERBS])
async def test_each_statement_sets_its_synchronous_commit(
    scene: Scene, session: Connection, verb: str, durable: str
) -> None:
    """Sessions and poolers leak settings: whatever the session says is not what counts."""
    await scene.write(1)
    (item,) = await scene.claim()
    if verb in {"accepted", "others"}:
        await scene.mark([item])
    query, arguments = await _asked(scene, item, VERBS[verb])
    opposite = "on" if durable == "off" else "off"
    await session.execute(f"SET synchronous_commit = {opposite}")
    async with session.transaction():
        await session.fetch(query, *arguments)
        assert await session.fetchval("SHOW synchronous_commit") == durable
    assert await session.fetchval("SHOW synchronous_commit") == opposite
