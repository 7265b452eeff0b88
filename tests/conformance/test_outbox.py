"""OB-01 to OB-05: durable before any call, keys that are unique and for ever, and ends that are final."""

import ast
import asyncio
import hashlib
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import asyncpg
import pytest

from dispatcher.base.values.idempotency import delivery_key
from tests.conformance.outbox import Outbox, once
from tests.support.forks import ROOT
from tests.support.program import Program
from tests.support.scene import Connection

HAND_MADE = """
from channels.blackhole import Blackhole
from channels.contract import Envelope, Licence, Report


async def by_hand(report: Report) -> None:
    await Blackhole().deliver([Envelope({licence}, 1, "t", "w", "k", "sms", "+4917012345", {{}}, {{}}, 1)], report)
"""
BY_THE_MARK = """
from channels.blackhole import Blackhole
from channels.contract import Envelope, Report
from dispatcher.base.clock import boottime
from dispatcher.engine.rules.life import Claimed
from dispatcher.db.database import Database
from dispatcher.engine.store.marks import mark


async def by_the_mark(database: Database, items: list[Claimed], report: Report) -> None:
    licence, attempts = await mark(database, 1, items, boottime, 5.0, "capture")
    batch = [Envelope(licence, one.id, "t", "w", "k", "sms", "+4917012345", {}, {}, attempts[one.id]) for one in items]
    await Blackhole().deliver(batch, report)
"""


async def _mypy(tmp_path: Path, text: str) -> "tuple[int, str]":
    snippet = tmp_path / "snippet.py"
    snippet.write_text(f'"""A channel, called."""\n{text}')
    done = await asyncio.to_thread(
        subprocess.run,
        # Without the library's stubs some modules would be untyped: that is not what is asked here.
        [
            *(
                sys.executable,
                "-m",
                "mypy",
                "--config-file",
                str(ROOT / "pyproject.toml"),
                "--follow-imports",
                "silent",
            ),
            *("--cache-dir", str(tmp_path.parent / "mypy"), str(snippet)),
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout + done.stderr


async def test_OB_01_the_type_checker_takes_an_envelope_whose_licence_a_mark_gave(tmp_path: Path) -> None:
    code, told = await _mypy(tmp_path, BY_THE_MARK)
    assert code == 0, told


@pytest.mark.parametrize(
    ("licence", "fault"),
    [
        ("Licence()", "call-arg"),
        ("Licence(1)", "arg-type"),
        ("None", "arg-type"),
        ("object.__new__(object)", "arg-type"),
    ],
)
async def test_OB_01_the_type_checker_refuses_an_envelope_without_one(tmp_path: Path, licence: str, fault: str) -> None:
    code, told = await _mypy(tmp_path, HAND_MADE.format(licence=licence))
    assert code == 1, told
    assert f"[{fault}]" in told


def test_OB_01_a_licence_is_minted_in_one_place() -> None:
    """What the type checker cannot see: `object.__new__` makes one without its constructor."""
    minted = [
        str(path.relative_to(ROOT))
        for folder in ("dispatcher", "channels")
        for path in (ROOT / folder).rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call) and ast.unparse(node.func).endswith("__new__") and "Licence" in ast.unparse(node)
    ]
    assert minted == ["dispatcher/engine/store/marks.py"]


def test_OB_01_nothing_but_a_sender_calls_a_channel() -> None:
    callers = {
        str(path.relative_to(ROOT))
        for path in (ROOT / "dispatcher").rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "deliver"
    }
    assert callers == {"dispatcher/engine/sender.py"}


async def test_OB_01_a_delivery_is_committed_before_its_provider_is_called(program: Program, outbox: Outbox) -> None:
    await program.start()
    transaction = outbox.connection.transaction()
    await transaction.start()
    rolled_back = await outbox.put()
    await transaction.rollback()
    sent = await outbox.put()
    await outbox.until_life(sent, "sent")
    assert await outbox.captured() == [sent]
    assert rolled_back != sent


INSERT = """INSERT INTO dispatcher.channel_outbox (idempotency_key, channel, recipient, template, status, skipped)
            VALUES ($1, 'sms', '+4917012345', '{"body": "x"}', $2, $3)"""


async def test_OB_02_a_delivery_without_a_key_is_refused(connection: Connection) -> None:
    for table in ("deliveries", "channel_outbox"):
        with pytest.raises(asyncpg.NotNullViolationError, match="idempotency_key"):
            await connection.execute(
                f"INSERT INTO dispatcher.{table} (channel, recipient, template)"
                " VALUES ('sms', '+4917012345', '{\"body\": \"x\"}')"
            )


async def test_OB_02_a_key_is_unique_within_tenant_and_workspace(outbox: Outbox) -> None:
    await outbox.put(idempotency_key="k")
    await outbox.put(idempotency_key="k", tenant_id="other")
    await outbox.put(idempotency_key="k", workspace_id="other")
    with pytest.raises(asyncpg.UniqueViolationError):
        await outbox.put(idempotency_key="k")


@pytest.mark.parametrize("status", ["done", "", "QUEUED", None])
async def test_OB_02_an_unknown_status_is_refused(connection: Connection, status: str | None) -> None:
    with pytest.raises(asyncpg.CheckViolationError):
        await connection.execute(INSERT, "k", status, False)


async def test_OB_02_an_unknown_status_is_refused_on_the_state_row_too(outbox: Outbox) -> None:
    await outbox.put()
    with pytest.raises(asyncpg.CheckViolationError):
        await outbox.connection.execute("UPDATE dispatcher.delivery_state SET status = 'done', finished_at = now()")


async def test_OB_02_skipped_goes_with_the_status_skipped_only(connection: Connection) -> None:
    for status in ("queued", "sent", "failed"):
        with pytest.raises(asyncpg.CheckViolationError, match="skipped"):
            await connection.execute(INSERT, "k", status, True)
    await connection.execute(INSERT, "k", "skipped", True)


AT = datetime(2026, 3, 1, 12, 30, 0, 5, tzinfo=UTC)
WHEN = "2026-03-01T12%3A30%3A00.000005Z"
VECTORS = {
    f"run-1|ann%40example.org|welcome|{WHEN}": (("email", "run-1", "ann@example.org", "welcome", AT), None),
    f"run-1|%2B4917012345|script%207|{WHEN}": (("voice", "run-1", "+4917012345", "script 7", AT), None),
    f"run-1|post-9|social|{WHEN}": (("social", "run-1", None, "post-9", AT), None),
    f"run-1|node%7C2|%2B49|hi|{WHEN}": (("sms", "run-1", "+49", "hi", AT), "node|2"),
    f"||%C3%BCml%C3%A4ut|{WHEN}": (("push", None, None, "ümläut", AT), None),
    f"run-1|n|p|social|{WHEN}": (("social", "run-1", "nobody", "p", AT), "n"),
}
# Frozen: whoever changes one of these sends everything that waits a second time.
DIGESTS = [
    "3f0488aee600512388f71f2f0aeaf5a5d6b9b9dd97f7bc0df6de78bfbf20829c",
    "924e30afda2d2ae9c17ad36545ba04ca0600139936b03992033e4f22bc7641a5",
    "4c7fadc8f4aebd1c3b8bd45f8482377f6a79aec310ccbb87198dcb50a2bcfd49",
    "b524fd48c9a646715a98c3ec83730ba87f88fcbbb32ec4966a2a0d52d45e46ba",
    "fd9e304a95df011ff7974c6d0ddefc46a3847c65b7401b217a699d7965442c7e",
    "02f127f83065cbac41080567177d7132b23c3e6bedc46b97120f278a9d88628d",
]


@pytest.mark.parametrize(("text", "digest"), list(zip(VECTORS, DIGESTS, strict=True)))
def test_OB_03_keys_are_what_they_always_were(text: str, digest: str) -> None:
    arguments, node = VECTORS[text]
    assert hashlib.sha256(text.encode()).hexdigest() == digest
    assert delivery_key(*arguments, node=node) == digest


async def test_OB_04_a_key_that_exists_sends_nothing_again(program: Program, outbox: Outbox) -> None:
    await program.start()
    first = await outbox.put(idempotency_key="k")
    await outbox.until_life(first, "sent")
    with pytest.raises(asyncpg.UniqueViolationError):
        await outbox.put(idempotency_key="k", body="another text")
    last = await outbox.put()
    await outbox.until_life(last, "sent")
    assert await outbox.captured() == [first, last]


async def test_OB_04_through_the_view_a_duplicate_is_23505_and_names_the_key(outbox: Outbox) -> None:
    await outbox.put(idempotency_key="k")
    with pytest.raises(asyncpg.UniqueViolationError) as duplicate:
        await outbox.put(idempotency_key="k")
    assert duplicate.value.sqlstate == "23505"
    assert duplicate.value.constraint_name == "deliveries_key"


async def test_OB_04_on_conflict_works_on_deliveries_and_the_holder_can_be_told(outbox: Outbox) -> None:
    first = await outbox.put(idempotency_key="k")
    insert = """INSERT INTO dispatcher.deliveries (idempotency_key, channel, recipient, template)
                SELECT key, 'sms', '+4917012345', '{"body": "x"}' FROM unnest(ARRAY['k', 'new']) AS key
                ON CONFLICT (tenant_id, workspace_id, idempotency_key) DO NOTHING RETURNING id"""
    written = await outbox.connection.fetch(insert)
    holder = await outbox.connection.fetchval("SELECT id FROM dispatcher.deliveries WHERE idempotency_key = 'k'")
    assert len(written) == 1
    assert holder == first


async def test_OB_04_of_many_at_once_one_is_written_and_all_are_told_which(url: str) -> None:
    connections = [await asyncpg.connect(url) for _ in range(5)]
    try:
        answers = await asyncio.gather(
            *(Outbox(one).put(idempotency_key="k") for one in connections), return_exceptions=True
        )
    finally:
        for one in connections:
            await one.close()
    assert sorted(type(answer).__name__ for answer in answers) == ["UniqueViolationError"] * 4 + ["int"]


TERMINAL = {"sms": "sent", "email": "sent", "voice": "called", "social": "posted"}


async def test_OB_05_each_channel_ends_in_its_own_status(program: Program, outbox: Outbox) -> None:
    channels = ["email", "sms", "whatsapp", "push", "chat", "http", "voice", "social"]
    ids = {channel: await outbox.put(channel) for channel in channels}
    await program.start()
    for channel, delivery in ids.items():
        assert await outbox.until_life(delivery, "sent", "called", "posted") == TERMINAL.get(channel, "sent")
    assert once(await outbox.captured())


ENDS = {
    "sent": "status = 'sent', marked = true, ready = false, token = 1, finished_at = now()",
    "failed": "status = 'failed', ready = false, finished_at = now()",
    "skipped": "status = 'skipped', ready = false, finished_at = now()",
}
BACK = "status = 'queued', ready = true, marked = false, token = NULL, finished_at = NULL"
LEAVING = [
    f"UPDATE dispatcher.delivery_state SET {BACK}",
    "UPDATE dispatcher.delivery_state SET ready = true, token = NULL, marked = false",
    "UPDATE dispatcher.delivery_state SET status = 'called'",
    "UPDATE dispatcher.delivery_state SET status = 'queued', finished_at = NULL",
    "UPDATE dispatcher.delivery_state SET held = true, marked = true, token = 7",
    "UPDATE dispatcher.channel_outbox SET status = 'queued'",
    "UPDATE dispatcher.channel_outbox SET status = 'posted'",
    "UPDATE dispatcher.channel_outbox SET run_at = now() + interval '1 h'",
    f"""INSERT INTO dispatcher.delivery_state AS s (id, channel, lane, run_at, ready)
        SELECT id, 'sms', 1, now(), true FROM dispatcher.deliveries ON CONFLICT (id) DO UPDATE SET {BACK}""",
    """INSERT INTO dispatcher.delivery_state (id, channel, lane, run_at, ready)
       SELECT id, 'sms', 1, now(), true FROM dispatcher.deliveries""",
    "DELETE FROM dispatcher.delivery_state",
    "TRUNCATE dispatcher.delivery_state",
    "TRUNCATE dispatcher.deliveries",
    "TRUNCATE dispatcher.deliveries CASCADE",
]


@pytest.mark.parametrize("leaving", LEAVING)
async def test_OB_05_no_statement_leaves_a_terminal_status(outbox: Outbox, leaving: str) -> None:
    for end, columns in ENDS.items():
        transaction = outbox.connection.transaction()
        await transaction.start()
        delivery = await outbox.put()
        await outbox.connection.execute(f"UPDATE dispatcher.delivery_state SET {columns}")
        with pytest.raises(asyncpg.PostgresError):
            async with outbox.connection.transaction():
                await outbox.connection.execute(leaving)
        assert await outbox.life(delivery) == end
        await transaction.rollback()


@pytest.mark.parametrize("function", ["cancel_delivery_by_id($1, 'me', 'x')", "move_delivery($1, now(), 'me', 'x')"])
async def test_OB_05_cancelling_and_moving_leave_an_end_alone(outbox: Outbox, function: str) -> None:
    delivery = await outbox.put()
    await outbox.connection.execute(f"UPDATE dispatcher.delivery_state SET {ENDS['failed']}")
    assert await outbox.connection.fetchval(f"SELECT dispatcher.{function}", delivery) == "failed"
    assert await outbox.life(delivery) == "failed"


async def test_OB_05_reopening_is_explicit_and_audited(program: Program, outbox: Outbox) -> None:
    delivery = await outbox.put(body="{{ missing }}")
    await program.start()
    await outbox.until_life(delivery, "failed")
    reopen = "SELECT dispatcher.reopen_delivery($1, 'ann', 'the template was wrong')"
    assert await outbox.connection.fetchval(reopen, delivery) == "reopened"
    (action,) = await outbox.connection.fetch("SELECT * FROM dispatcher.operator_actions")
    assert (action["actor"], action["reason"], action["status_before"]) == ("ann", "the template was wrong", "failed")
    await outbox.until_life(delivery, "failed")


async def test_OB_05_reopening_one_reopens_no_other(outbox: Outbox) -> None:
    delivery = await outbox.put()
    other = await outbox.put()
    await outbox.connection.execute(f"UPDATE dispatcher.delivery_state SET {ENDS['failed']}")
    async with outbox.connection.transaction():
        await outbox.connection.execute("SELECT dispatcher.reopen_delivery($1, 'ann', 'x')", delivery)
        with pytest.raises(asyncpg.PostgresError):
            async with outbox.connection.transaction():
                await outbox.connection.execute(f"UPDATE dispatcher.delivery_state SET {BACK} WHERE id = $1", other)
    assert await outbox.life(other) == "failed"
