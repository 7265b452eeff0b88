"""A move in the databases: everything of the tenant comes over as it was, once, wherever the mover is cut off."""

import asyncio
from collections import Counter
from collections.abc import Sequence

import pytest

from dispatcher.base import fault_points
from dispatcher.base.errors import MoveInterrupted, MoveRefused
from dispatcher.base.fault_points import FaultPointError
from dispatcher.config.settings import Database as Settings
from dispatcher.db.database import Database
from dispatcher.db.statements import statements
from dispatcher.engine.rules.life import Succeeded
from dispatcher.features.cells.moving import mover as movers
from dispatcher.features.cells.moving import standing_still
from dispatcher.features.cells.moving.plan import plan_of
from dispatcher.features.cells.moving.rows import copying
from dispatcher.features.cells.moving.rows.digests import columns_of
from dispatcher.features.cells.moving.rows.tables import rows_of, tables
from tests.features.cells.moving.conftest import TENANT, Cells
from tests.support.home import furnish
from tests.support.scene import Connection, Scene
from tests.support.waits import until

SEND = """INSERT INTO dispatcher.deliveries (tenant_id, idempotency_key, channel, recipient, template)
          VALUES ($1, $2, 'sms', '+4917012345', '{"body": "x"}')"""
ADD_SOME = """INSERT INTO dispatcher.deliveries (tenant_id, idempotency_key, channel, recipient, template)
              SELECT $1, 'many-' || n, 'sms', '+4917012345', '{"body": "x"}' FROM generate_series(1, $2) AS n"""
FINISH = """UPDATE dispatcher.delivery_state s
               SET ready = false, marked = true, attempt = 1, token = 7, status = 'sent', finished_at = now()
              FROM dispatcher.deliveries d WHERE d.id = s.id AND d.idempotency_key = $1"""
# One row of each table that the furniture of home leaves empty.
MORE = """
    INSERT INTO dispatcher.parked (delivery_id, pause_id)
    SELECT d.id, p.id FROM dispatcher.deliveries d, dispatcher.pauses p
     WHERE d.idempotency_key = 'many-3' AND p.scope = 'tenant' AND p.name = 'default';
    UPDATE dispatcher.delivery_state SET ready = false WHERE id = (SELECT delivery_id FROM dispatcher.parked);
    INSERT INTO dispatcher.delivery_attempts (delivery_id, token, attempt, outcome)
    SELECT id, 1, 1, 'retry' FROM dispatcher.deliveries WHERE idempotency_key = 'many-1';
    INSERT INTO dispatcher.delivery_evidence (delivery_id, token, verdict)
    SELECT id, 1, 'unknown' FROM dispatcher.deliveries WHERE idempotency_key = 'many-1';
    INSERT INTO dispatcher.delivery_answers (delivery_id, token, data)
    SELECT id, 1, '{"a": 1.50}' FROM dispatcher.deliveries WHERE idempotency_key = 'many-1';
    INSERT INTO dispatcher.delivery_receipts (delivery_id, said_at, seen_at, rank, kind, provider)
    SELECT id, now(), now(), 1, 'delivered', 'x' FROM dispatcher.deliveries WHERE idempotency_key = 'many-1';
    INSERT INTO dispatcher.moved_deliveries (delivery_id, version, due_at, run_at, reason)
    SELECT id, 1, now(), now(), 'night' FROM dispatcher.deliveries WHERE idempotency_key = 'many-4';
    INSERT INTO dispatcher.reopened_ends (delivery_id, ended_at, attempt, called, status)
    SELECT id, now(), 1, true, 'failed' FROM dispatcher.deliveries WHERE idempotency_key = 'many-5';
    INSERT INTO dispatcher.operator_actions (delivery_id, actor, action, status_before, reason)
    SELECT id, 'ann', 'reopen', 'failed', 'again' FROM dispatcher.deliveries WHERE idempotency_key = 'many-5';
    INSERT INTO dispatcher.campaign_run_reasons (run_id, count, class, reason)
    SELECT id, 1, 'failed', 'x' FROM dispatcher.campaign_runs LIMIT 1;
    INSERT INTO dispatcher.cap_counters (cap_id, person, period, messages, deliveries, marked_at)
    SELECT id, 17, period, messages, '{1}', ARRAY[now()] FROM dispatcher.caps LIMIT 1;
    INSERT INTO dispatcher.digests (workflow_id, run_id, until, items_max, node, key)
    SELECT workflow_id, id, now(), 9, 'digest', 'k' FROM dispatcher.runs ORDER BY id LIMIT 1;
    INSERT INTO dispatcher.digest_items (digest_id, run_id, item) SELECT id, run_id, '{}' FROM dispatcher.digests;
    INSERT INTO dispatcher.signals (run_id, name, actor, data)
    SELECT id, 'go', 'ann', '{}' FROM dispatcher.runs LIMIT 1;
    INSERT INTO dispatcher.wakes (run_id) SELECT id FROM dispatcher.runs LIMIT 1;
    INSERT INTO dispatcher.quiet_hours_ended (version, tenant_id, workspace_id) VALUES (1, 'default', 'default');
    INSERT INTO dispatcher.rule_steps (rule_id, offset_seconds, step_order, enabled, template_name, custom)
    SELECT id, 0, 1, true, 'welcome', '{}' FROM dispatcher.rules LIMIT 1;
    INSERT INTO dispatcher.waiting_receipts (look_at, keep_until, provider, receipt)
    VALUES (now(), now(), 'x', '{"key": ["default", "default", "many-1"]}'),
           (now(), now(), 'x', '{"key": ["acme", "default", "order-1"]}')
"""
LATE = """
    INSERT INTO dispatcher.suppressions (kind, address, source, actor)
    VALUES ('email', 'late@example.org', 'unsubscribe', 'recipient');
    UPDATE dispatcher.topic_preferences SET subscribed = false, changed_at = now();
    INSERT INTO dispatcher.delivery_receipts (delivery_id, said_at, seen_at, rank, kind, provider)
    SELECT id, now(), now(), 2, 'opened', 'x' FROM dispatcher.deliveries WHERE idempotency_key = 'many-1'
"""
FAULTS = tuple(point for point in fault_points.POINTS if point.startswith("move."))
NEIGHBOUR = "acme"
# What is another thing in each cell: transactions, and who waits for the end of the move.
OWN = ("frozen_at", "ready")


async def rows_of_tenant(connection: Connection, tenant: str = TENANT) -> dict[str, list[dict[str, object]]]:
    """All rows of a tenant, by table."""
    found: dict[str, list[dict[str, object]]] = {}
    for table in tables():
        rows = await connection.fetch(f"SELECT t.* {rows_of(table, tenant, all_rows=True)}")
        found[table.name] = sorted(
            ({name: value for name, value in row.items() if name not in OWN} for row in rows), key=repr
        )
    return {name: rows for name, rows in found.items() if rows}


async def _furnished(cells: Cells) -> dict[str, list[dict[str, object]]]:
    """Something of everything, some deliveries of each kind, and a neighbour."""
    await furnish(cells.first)
    await cells.first.execute(ADD_SOME, TENANT, 10)
    await cells.first.execute(FINISH, "many-1")
    await cells.first.execute(SEND, NEIGHBOUR, "order-1")
    await cells.first.execute(MORE)
    return await rows_of_tenant(cells.first)


async def violations(connection: Connection) -> dict[str, int]:
    """What breaks an invariant, and how often."""
    found: dict[str, int] = {}
    for name, query in statements("dispatcher.db.health.checks").items():
        rows = await connection.fetch(query, *((60.0,) if "$1" in query else ()))
        found |= {name: len(rows)} if rows else {}
    return found


async def test_everything_comes_over_and_nothing_else_changes(cells: Cells) -> None:
    before = await _furnished(cells)
    neighbour = await rows_of_tenant(cells.first, NEIGHBOUR)
    odd = await violations(cells.first)
    result = await cells.move()
    assert before.keys() == {table.name for table in tables()}
    assert await rows_of_tenant(cells.second) == before
    assert await rows_of_tenant(cells.first) == {}
    assert await rows_of_tenant(cells.first, NEIGHBOUR) == neighbour
    assert await cells.states() == ("elsewhere", "here")
    assert (result.phase, result.rows) == ("done", sum(map(len, before.values())))
    assert (await violations(cells.first), await violations(cells.second)) == ({}, odd)


async def test_a_tenant_comes_back_to_where_it_was(cells: Cells) -> None:
    before = await _furnished(cells)
    await cells.move()
    await cells.move(source=2)
    assert await rows_of_tenant(cells.first) == before
    assert await rows_of_tenant(cells.second) == {}
    assert await cells.states() == ("here", "elsewhere")


async def test_a_mover_that_dies_anywhere_is_followed_by_one_that_goes_on(
    cells: Cells, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One after another dies, each a step further; nothing is ever open in both cells."""
    before = await _furnished(cells)
    for point in FAULTS:
        monkeypatch.setitem(fault_points.ARMED, point, fault_points.Armed(1, "raise"))
        with pytest.raises(FaultPointError, match=point):
            await cells.move()
        first, second = await cells.states()
        assert (first in (None, "here")) + (second == "here") <= 1
    result = await cells.move()
    assert (result.phase, result.rows) == ("done", sum(map(len, before.values())))
    assert await rows_of_tenant(cells.second) == before
    assert await rows_of_tenant(cells.first) == {}
    assert await cells.states() == ("elsewhere", "here")


@pytest.mark.parametrize("point", ["move.page", "move.verified"])
async def test_a_move_that_is_cancelled_leaves_everything_as_it_was(
    cells: Cells, point: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = await _furnished(cells)
    monkeypatch.setitem(fault_points.ARMED, point, fault_points.Armed(1, "raise"))
    with pytest.raises(FaultPointError):
        await cells.move()
    await cells.cancel()
    await cells.first.execute("SELECT dispatcher.unpark(100)")
    assert await rows_of_tenant(cells.first) == before
    assert await rows_of_tenant(cells.second) == {}
    assert (await cells.states())[1] == "elsewhere"
    await cells.first.execute(SEND, TENANT, "goes on")
    await cells.move()
    assert await cells.states() == ("elsewhere", "here")


async def test_a_move_that_has_switched_cannot_be_cancelled(cells: Cells, monkeypatch: pytest.MonkeyPatch) -> None:
    await _furnished(cells)
    monkeypatch.setitem(fault_points.ARMED, "move.closed", fault_points.Armed(1, "raise"))
    with pytest.raises(FaultPointError):
        await cells.move()
    with pytest.raises(MoveRefused, match="in cell 2 already"):
        await cells.cancel()
    assert await cells.states() == ("elsewhere", "arriving")


async def test_a_target_stays_shut_where_the_source_cannot_be_closed(
    cells: Cells, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing that waits is in two cells that might send it."""
    await _furnished(cells)

    async def away(_: movers.Mover, __: object) -> None:
        raise ConnectionResetError("the source is away")

    monkeypatch.setattr(movers.Mover, "_close", away)
    with pytest.raises(ConnectionResetError):
        await cells.move()
    assert await cells.states() == ("leaving", "arriving")
    assert await cells.second.fetchval("SELECT count(*) FROM dispatcher.delivery_state WHERE status = 'queued'") == 0
    await cells.cancel()
    assert await cells.states() == ("here", "elsewhere")


async def test_what_was_open_when_the_doors_were_shut_is_waited_for(cells: Cells) -> None:
    """Its transaction has passed the doors before they were shut, and commits behind the stop."""
    await cells.first.execute(SEND, TENANT, "first")
    open_one = cells.first.transaction()
    await open_one.start()
    await cells.first.execute(SEND, TENANT, "late")
    moving = asyncio.create_task(cells.move())
    await until(lambda: any("stands still" in words for words in cells.told), "the doors are shut")
    done, _ = await asyncio.wait([moving], timeout=1)
    assert not done
    await open_one.commit()
    await moving
    assert len((await rows_of_tenant(cells.second))["deliveries"]) == 2
    assert await rows_of_tenant(cells.first) == {}


async def test_what_is_claimed_is_waited_for(cells: Cells) -> None:
    """What is marked comes to its end, what is not is parked, and neither is held or sent again."""
    async with Database(Settings(), cells.urls[0]) as database:
        scene = await Scene.open(database)
        await scene.write(2)
        marked, claimed = await scene.claim()
        await scene.mark([marked])
        moving = asyncio.create_task(cells.move())
        await until(lambda: any("stands still" in words for words in cells.told), "the doors are shut")
        done, _ = await asyncio.wait([moving], timeout=1)
        assert not done
        await scene.flush((marked, Succeeded("m")))
        await cells.first.execute(
            "UPDATE dispatcher.delivery_state SET ready = true, token = NULL WHERE id = $1", claimed.id
        )
        await moving
    rows = (await rows_of_tenant(cells.second))["delivery_state"]
    assert sorted((row["status"], row["held"]) for row in rows) == [("queued", False), ("sent", False)]
    ready = "SELECT ready FROM dispatcher.delivery_state WHERE status = 'queued'"
    assert await cells.second.fetchval(ready)


async def test_a_tenant_that_does_not_come_to_rest_works_on(cells: Cells, monkeypatch: pytest.MonkeyPatch) -> None:
    await cells.first.execute(SEND, TENANT, "first")
    monkeypatch.setattr(standing_still, "SECONDS_MAX", 0.2)
    async with cells.first.transaction():
        await cells.first.execute(SEND, TENANT, "late")
        with pytest.raises(MoveInterrupted, match="has had a transaction open"):
            await cells.move()
    await cells.first.execute(SEND, TENANT, "goes on")
    assert await cells.states() == ("here", "arriving")


async def test_what_has_changed_since_it_was_copied_is_copied_again(
    cells: Cells, monkeypatch: pytest.MonkeyPatch
) -> None:
    await _furnished(cells)
    await cells.first.execute("UPDATE dispatcher.delivery_state SET announced = true WHERE status = 'sent'")
    monkeypatch.setitem(fault_points.ARMED, "move.page", fault_points.Armed(1, "raise"))
    with pytest.raises(FaultPointError):
        await cells.move()
    copied = (await rows_of_tenant(cells.second))["deliveries"]
    assert copied
    await cells.first.execute(FINISH, "many-2")
    await cells.first.execute(
        """SELECT set_config('dispatcher.erasing', 'on', false);
           UPDATE dispatcher.deliveries SET variables = '{"a": 1}' WHERE idempotency_key = 'many-1';
           DELETE FROM dispatcher.deliveries WHERE idempotency_key = 'of-home-dead'"""
    )
    before = await rows_of_tenant(cells.first)
    await cells.move()
    assert await rows_of_tenant(cells.second) == before


async def test_a_row_that_differs_stops_the_move(cells: Cells, monkeypatch: pytest.MonkeyPatch) -> None:
    await _furnished(cells)
    applied = copying.apply

    async def spoils(source: object, target: object, changes: Sequence[object]) -> Counter[str]:
        copied = await applied(source, target, changes)  # type: ignore[arg-type]  # they are passed on
        if len(changes) > 20:
            await target.connection.execute(  # type: ignore[attr-defined]  # as above
                "DELETE FROM dispatcher.rules; UPDATE dispatcher.caps SET messages = messages + 1"
            )
        return copied

    monkeypatch.setattr(movers, "apply", spoils)
    with pytest.raises(
        MoveInterrupted, match=r"rules: 2 rows in the source, 0 in.*caps: 2 rows in the source, 2 .*have other"
    ):
        await cells.move()
    assert await cells.states() == ("here", "arriving")


async def test_what_comes_behind_the_copy_is_brought_over(cells: Cells, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who unsubscribes while the doors are being shut is not written to by the other cell."""
    await _furnished(cells)
    monkeypatch.setitem(fault_points.ARMED, "move.opened", fault_points.Armed(1, "raise"))
    with pytest.raises(FaultPointError):
        await cells.move()
    await cells.first.execute(LATE)
    await cells.move()
    kept = "SELECT address FROM dispatcher.suppressions WHERE source = 'unsubscribe'"
    assert await cells.second.fetchval(kept) == "late@example.org"
    assert await cells.second.fetchval("SELECT subscribed FROM dispatcher.topic_preferences") is False
    kinds = "SELECT array_agg(kind ORDER BY kind) FROM dispatcher.delivery_receipts"
    assert await cells.second.fetchval(kinds) == ["delivered", "opened"]
    assert await rows_of_tenant(cells.first) == {}


async def test_keys_are_duplicates_in_the_target(cells: Cells) -> None:
    await _furnished(cells)
    await cells.move()
    again = SEND + " ON CONFLICT DO NOTHING"
    assert await cells.second.execute(again, TENANT, "many-1") == "INSERT 0 0"
    assert await cells.second.execute(again, TENANT, "many-3") == "INSERT 0 0"
    assert await cells.second.execute(again, TENANT, "new") == "INSERT 0 1"


async def test_a_plan_counts_and_changes_nothing(cells: Cells) -> None:
    before = await _furnished(cells)
    async with cells.mover() as mover:
        plan = await plan_of(mover.source, mover.target, TENANT)
    assert {one.table: one.rows for one in plan.tables} == {name: len(rows) for name, rows in before.items()}
    late = {one.table: one.late for one in plan.tables}
    assert (late["deliveries"], late["contacts"]) == (len(before["deliveries"]) - 5, 0)
    assert "no dispatcher runs" in plan.warnings[0]
    assert await rows_of_tenant(cells.second) == {}
    assert await cells.states() == (None, None)


async def test_all_reasons_against_a_move_are_said_at_once(cells: Cells) -> None:
    await cells.first.execute(SEND, TENANT, "first")
    await cells.second.execute(SEND, TENANT, "not of this move")
    await cells.second.execute("ALTER TABLE dispatcher.contacts ADD COLUMN more text")
    await cells.first.execute("CREATE TABLE dispatcher.newcomers (tenant_id text)")
    with pytest.raises(MoveRefused) as refused:
        await cells.move()
    assert [fault.path for fault in refused.value.faults] == [
        *("source.newcomers", "target.contacts", "target.newcomers"),
        *("target.deliveries", "target.delivery_state"),
    ]
    assert await cells.states() == (None, None)


async def test_the_same_columns_are_the_same_wherever_a_catalogue_keeps_them(cells: Cells) -> None:
    """What is altered and altered back stands elsewhere in the catalogue."""
    for statistics in (100, -1):
        await cells.second.execute(
            f"ALTER TABLE dispatcher.plan_versions ALTER COLUMN definition SET STATISTICS {statistics}"
        )
    assert await columns_of(cells.first) == await columns_of(cells.second)


async def test_an_unknown_tenant_is_refused(cells: Cells) -> None:
    with pytest.raises(MoveRefused, match="has nothing in cell 1"):
        await cells.move(tenant="nobody")


async def test_two_movers_do_not_work_on_one_tenant(cells: Cells) -> None:
    await cells.first.execute(SEND, TENANT, "first")
    async with cells.mover() as first:
        await first.open("ann", "")
        with pytest.raises(MoveInterrupted, match="another process"):
            await cells.move()
