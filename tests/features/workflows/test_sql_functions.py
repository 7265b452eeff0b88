"""The SQL functions of workflows: triggers, their keys, versions and deletion, and who may call what."""

import asyncio
import json
from contextlib import AsyncExitStack
from typing import Any
from uuid import uuid4

import asyncpg
import pytest

from dispatcher.db.database import Database
from dispatcher.plans.plan import RequiredVariable, TemplateUse
from tests.features.templates.support import draft, save
from tests.support.flows import TRIGGER, at_node, faults, plan, put, status, trigger, wakes
from tests.support.scene import Connection
from tests.support.waits import until_waits

DELETE = "SELECT dispatcher.delete_workflow('default', 'default', 'welcome', 'ann')"
ACTIVE = "SELECT dispatcher.set_workflow_active('default', 'default', 'welcome', $1, 'ann')"
FACES = (
    "trigger_workflow",
    "enqueue_delivery",
    "signal_run",
    "cancel_run",
    "run_status",
    "delivery_status",
    "cancel_delivery",
)


async def test_WF_01_every_change_is_a_version_with_its_author_and_runs_stay_on_theirs(connection: Connection) -> None:
    first = await put(connection)
    run = await trigger(connection)
    again = await put(connection, author="bob")
    second = await put(connection, plan(required=["name"]), author="bob")
    assert (first["number"], again["number"], again["created"], second["number"]) == (1, 1, False, 2)
    assert await connection.fetchval(ACTIVE, False) == "done"
    assert await connection.fetchval(ACTIVE, False) == "same"
    rows = await connection.fetch("SELECT version, actor, action FROM dispatcher.workflow_actions ORDER BY id")
    assert [tuple(row) for row in rows] == [
        (1, "ann", "put"),
        (1, "ann", "activate"),
        (2, "bob", "put"),
        (2, "ann", "deactivate"),
    ]
    shown = await connection.fetchval(
        "SELECT workflow_version FROM dispatcher.workflow_executions WHERE id = $1", run["execution_id"]
    )
    assert shown == 1
    with pytest.raises(asyncpg.ObjectNotInPrerequisiteStateError):
        await connection.execute("UPDATE dispatcher.plan_versions SET number = 3")


async def test_WF_05_a_workflow_with_runs_is_not_deleted_while_it_is_active(connection: Connection) -> None:
    await put(connection)
    run = (await trigger(connection, key="k"))["execution_id"]
    assert await connection.fetchval(DELETE) == "running"
    await connection.execute(ACTIVE, False)
    assert await connection.fetchval(DELETE) == "running"
    await connection.execute("SELECT dispatcher.cancel_run($1)", run)
    await connection.execute(ACTIVE, True)
    assert await connection.fetchval(DELETE) == "active"
    await connection.execute(ACTIVE, False)
    assert await connection.fetchval(DELETE) == "deleted"
    assert await connection.fetchval(DELETE) == "unknown"
    # Another of that name is another workflow; the key of the first still answers the first run.
    assert (await put(connection))["number"] == 1
    assert (await trigger(connection, key="k"))["execution_id"] == run


async def test_WF_05_a_trigger_and_a_deletion_wait_for_each_other(connection: Connection, url: str) -> None:
    await put(connection)
    async with AsyncExitStack() as stack:
        other = await asyncpg.connect(url)
        stack.push_async_callback(other.close)
        transaction = other.transaction()
        await transaction.start()
        await trigger(other)
        async with asyncio.TaskGroup() as group:
            deletion = group.create_task(connection.fetchval(DELETE))
            watcher = await asyncpg.connect(url)
            stack.push_async_callback(watcher.close)
            await until_waits(watcher, connection)
            await transaction.commit()
        assert deletion.result() == "running"


@pytest.mark.parametrize("isolation", ["repeatable_read", "serializable"])
async def test_WF_05_an_old_look_starts_nothing_of_a_deleted_workflow(
    connection: Connection, url: str, isolation: Any
) -> None:
    await put(connection)
    other = await asyncpg.connect(url)
    try:
        async with other.transaction(isolation=isolation):
            await other.fetchval("SELECT count(*) FROM dispatcher.workflows")
            assert await connection.fetchval(DELETE) == "deleted"
            with pytest.raises(asyncpg.SerializationError):
                async with other.transaction():
                    await trigger(other)
    finally:
        await other.close()
    await put(connection)
    transaction = connection.transaction(isolation=isolation)
    await transaction.start()
    with pytest.raises(asyncpg.ActiveSQLTransactionError):
        await connection.fetchval(DELETE)
    await transaction.rollback()


async def test_WF_06_one_answer_names_everything_that_is_missing(connection: Connection, database: Database) -> None:
    await save(
        database,
        draft(
            "hello",
            body="{{ guest.name }} {{ step_0_result.x }} {{ step_1_error }} {{ step_00_error }} {{ mail.y }} "
            "{{ given }} {{ unsubscribe_url }}",
        ),
    )
    stored = TemplateUse(node="mail", channel="sms", steps=1, name="hello", provides=("given",))
    variable = TemplateUse(
        node="mail",
        channel="sms",
        steps=2,
        variable=RequiredVariable("template_id", ("template_id",)),
        provides=("given",),
    )
    templates = [stored, variable]
    await put(connection, plan(required=["guest_name", "a.b"], reads=[("order", "id"), ("name",)], templates=templates))
    with pytest.raises(asyncpg.InvalidParameterValueError) as refused:
        await trigger(connection, {"order": {}, "a": [], "template_id": "nobody"})
    assert refused.value.as_dict()["message"] == (
        "Missing required fields: guest_name, a.b; Missing template variables: order.id, name, guest.name, "
        "step_00_error, step_1_error; there is no template 'nobody'"
    )
    assert faults(refused.value) == {
        "$.guest_name": "is required",
        "$.a.b": "is required",
        **{
            f"$.{name}": "is read by the template 'hello'"
            # No step that comes before the node is called so.
            for name in ("guest.name", "step_1_error", "step_00_error")
        },
        "$.template_id": "there is no template 'nobody'",
        "$.order.id": "is read by the workflow",
        "$.name": "is read by the workflow",
    }
    given = {"guest_name": None, "a": {"b": ""}, "guest": {"name": ""}, "order": {"id": None}, "name": 0}
    given |= {"step_00_error": None, "step_1_error": None}
    assert not (await trigger(connection, {**given, "template_id": "hello"}))["duplicate"]


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (None, "expected a JSON object"),
        ("[]", "expected a JSON object"),
        (json.dumps({"a": "x" * 5_000_000}), "larger than 1048576 bytes"),
        ('{"a": ' + "[" * 200 + "]" * 200 + "}", "nested more than 128 deep"),
        ('{"a": 99999999999999999999}', "has a number of more than 64 bits: write it as a text"),
    ],
)
async def test_an_unusable_input_is_refused(connection: Connection, given: str | None, words: str) -> None:
    await put(connection)
    with pytest.raises(asyncpg.InvalidParameterValueError) as refused:
        await connection.fetchrow(TRIGGER, "welcome", given, None)
    assert faults(refused.value) == {"$": words}


async def test_the_size_is_that_of_the_text_also_where_it_is_stored_compressed(connection: Connection) -> None:
    await put(connection)
    await connection.execute("CREATE TABLE given AS SELECT jsonb_build_object('a', repeat('x', 2000000)) AS input")
    with pytest.raises(asyncpg.InvalidParameterValueError, match="larger than"):
        await connection.execute("SELECT dispatcher.trigger_workflow('welcome', input) FROM given")


async def test_a_missing_or_inactive_workflow_is_refused_by_name(connection: Connection) -> None:
    with pytest.raises(asyncpg.NoDataFoundError, match="there is no workflow 'welcome'"):
        await trigger(connection)
    with pytest.raises(asyncpg.NoDataFoundError, match="there is no workflow null"):
        await connection.execute("SELECT dispatcher.trigger_workflow(NULL)")
    await put(connection, active=False)
    with pytest.raises(asyncpg.ObjectNotInPrerequisiteStateError) as refused:
        await trigger(connection)
    assert faults(refused.value) == {"$.workflow": "it is not active"}
    with pytest.raises(asyncpg.InvalidParameterValueError) as long:
        await trigger(connection, key="x" * 256)
    assert faults(long.value) == {"$.idempotency_key": "expected 1 to 255 characters"}


async def test_WF_07_a_hundred_triggers_with_one_key_start_one_run(connection: Connection, url: str) -> None:
    await put(connection)
    pool = await asyncpg.create_pool(url, min_size=10, max_size=10)
    try:

        async def one() -> Any:
            async with pool.acquire() as session:
                return await session.fetchrow(TRIGGER, "welcome", "{}", "order-17")

        answers = await asyncio.gather(*(one() for _ in range(100)))
    finally:
        await pool.close()
    assert len({answer["execution_id"] for answer in answers}) == 1
    assert sum(answer["duplicate"] for answer in answers) == 99
    assert await connection.fetchval("SELECT count(*) FROM dispatcher.runs") == 1


async def test_WF_07_a_known_key_answers_after_deactivation_and_with_another_input(connection: Connection) -> None:
    await put(connection, plan(required=["name"]))
    first = await trigger(connection, {"name": "Ann"}, "k")
    await connection.execute(ACTIVE, False)
    again = await trigger(connection, {}, "k")
    assert (again["execution_id"], again["duplicate"], again["total_steps"]) == (first["execution_id"], True, 2)
    assert await connection.fetchval("SELECT input ->> 'name' FROM dispatcher.runs") == "Ann"


async def test_WF_07_correlation_id_is_another_name_for_the_key(connection: Connection) -> None:
    await put(connection)
    first = await trigger(connection, {}, "k")
    named = "SELECT * FROM dispatcher.trigger_workflow('welcome', correlation_id => $1, idempotency_key => $2)"
    for keys in (("k", None), ("k", "k")):
        (again,) = await connection.fetch(named, *keys)
        assert (again["execution_id"], again["duplicate"]) == (first["execution_id"], True)
    with pytest.raises(asyncpg.InvalidParameterValueError) as refused:
        await connection.fetchrow(named, "k", "other")
    assert faults(refused.value) == {"$.correlation_id": "another name for idempotency_key: give one of them"}


async def test_a_trigger_goes_with_the_callers_transaction(connection: Connection) -> None:
    await put(connection)
    transaction = connection.transaction()
    await transaction.start()
    inside = await trigger(connection, key="k")
    assert (await trigger(connection, key="k"))["execution_id"] == inside["execution_id"]
    assert await connection.fetchval("SELECT dispatcher.signal_run($1, 'paid')", inside["execution_id"]) == "accepted"
    await transaction.rollback()
    assert await connection.fetchval("SELECT count(*) FROM dispatcher.runs") == 0
    assert await wakes(connection) == []
    assert not (await trigger(connection, key="k"))["duplicate"]


async def test_a_role_with_nothing_but_execute_calls_the_faces_and_does_nothing_else(
    connection: Connection, url: str
) -> None:
    await put(connection)
    role = f"shop_{uuid4().hex[:8]}"
    await connection.execute(f"CREATE ROLE {role}; GRANT USAGE ON SCHEMA dispatcher TO {role}")
    for face in FACES:
        await connection.execute(f"GRANT EXECUTE ON FUNCTION dispatcher.{face} TO {role}")
    app = await asyncpg.connect(url)
    try:
        await app.execute(f"SET ROLE {role}")
        run = (await trigger(app, key="k"))["execution_id"]
        written = await app.fetchrow(
            "SELECT * FROM dispatcher.enqueue_delivery('sms', '+4917012345', 'k', '{\"body\": \"x\"}')"
        )
        assert written is not None
        assert (written["duplicate"], written["status"]) == (False, "queued")
        assert await app.fetchval("SELECT dispatcher.signal_run($1, 'paid')", run) == "accepted"
        assert await app.fetchval("SELECT dispatcher.cancel_run($1)", run) == "cancelled"
        assert await app.fetchval("SELECT status FROM dispatcher.run_status($1)", run) == "cancelled"
        assert await app.fetchval("SELECT dispatcher.cancel_delivery(idempotency_key => 'k')") == "cancelled"
        assert await app.fetchval("SELECT life FROM dispatcher.delivery_status(idempotency_key => 'k')") == "skipped"
        await _has_nothing_else(app)
        # What it defines itself is not what the faces call.
        await app.execute(
            """CREATE TEMPORARY TABLE runs (id bigint, tenant_id text, workspace_id text);
               CREATE FUNCTION pg_temp.length(text) RETURNS integer LANGUAGE plpgsql AS
                   $$ BEGIN PERFORM FROM dispatcher.runs; RAISE EXCEPTION 'mine was called'; END $$;
               SET search_path = pg_temp, dispatcher, pg_catalog"""
        )
        assert (await trigger(app, key="x"))["version"] == 1
    finally:
        await app.close()


async def _has_nothing_else(app: Connection) -> None:
    """Neither a table, nor a sequence, nor a function that runs with other rights."""
    tables = await app.fetch(
        """SELECT c.relname FROM pg_class c
            WHERE c.relnamespace = 'dispatcher'::regnamespace AND c.relkind IN ('r', 'v', 'S')
              AND CASE c.relkind WHEN 'S' THEN has_sequence_privilege(c.oid, 'USAGE, SELECT, UPDATE')
                       ELSE has_table_privilege(c.oid, 'SELECT, INSERT, UPDATE, DELETE, TRUNCATE') END"""
    )
    assert tables == []
    functions = await app.fetch(
        """SELECT p.proname FROM pg_proc p
            WHERE p.pronamespace = 'dispatcher'::regnamespace AND p.prosecdef AND p.prorettype <> 'trigger'::regtype
              AND has_function_privilege(p.oid, 'EXECUTE') ORDER BY 1"""
    )
    assert [row["proname"] for row in functions] == sorted(FACES)
    for call in (
        "dispatcher.wake_run(1)",
        "dispatcher.note_run(1, 'paused', 'x', 'y')",
        "dispatcher.put_workflow('default', 'default', 'x', '{}', '{}', 'x', true)",
        "dispatcher.cancel_delivery_by_id(1, 'x', 'y')",
        "dispatcher.find_delivery(1, 'x', 'default', 'default')",
        "dispatcher.template_fault('default', 'default', 'x', 'sms')",
    ):
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            await app.execute(f"SELECT {call}")
    for statement in ("SELECT FROM dispatcher.runs", "INSERT INTO dispatcher.wakes VALUES (1)"):
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            await app.execute(statement)


async def test_a_signal_and_the_end_of_its_run_wait_for_each_other(connection: Connection, url: str) -> None:
    await put(connection)
    run = (await trigger(connection))["execution_id"]
    await at_node(connection, run, "wait", "waiting")
    walker, watcher = await asyncpg.connect(url), await asyncpg.connect(url)
    try:
        transaction = walker.transaction()
        await transaction.start()
        await walker.execute("SELECT FROM dispatcher.runs WHERE id = $1 FOR UPDATE", run)
        await walker.execute(
            "UPDATE dispatcher.runs SET status = 'completed', available_at = NULL, finished_at = now() WHERE id = $1",
            run,
        )
        async with asyncio.TaskGroup() as group:
            signal = group.create_task(connection.fetchval("SELECT dispatcher.signal_run($1, 'paid')", run))
            await until_waits(watcher, connection)
            await transaction.commit()
        assert signal.result() == "completed"
    finally:
        await walker.close()
        await watcher.close()
    assert await status(connection, run) == "completed"


async def test_a_run_keeps_so_many_events_and_no_more(connection: Connection) -> None:
    await put(connection)
    run = (await trigger(connection))["execution_id"]
    await connection.execute("SELECT dispatcher.signal_run($1, 'paid') FROM generate_series(1, 1000)", run)
    with pytest.raises(asyncpg.ProgramLimitExceededError, match="1000 events waiting"):
        await connection.execute("SELECT dispatcher.signal_run($1, 'paid')", run)
    with pytest.raises(asyncpg.InvalidParameterValueError) as refused:
        await connection.execute("SELECT dispatcher.signal_run($1, '', '[]')", run)
    assert sorted(faults(refused.value)) == ["$.data", "$.event"]
