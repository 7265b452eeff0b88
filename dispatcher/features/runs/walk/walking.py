"""Walks in the database: lock runs that are due or woken, read the facts that they wait for, write their progress."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple, TypeAlias

import asyncpg
import msgspec
from msgspec import Struct

from dispatcher.base.loop_yielder import yielding
from dispatcher.base.values.idempotency import delivery_key
from dispatcher.db.database import Database
from dispatcher.db.literals import array
from dispatcher.db.statements import statements
from dispatcher.plans.plan import Plan
from dispatcher.plans.plan import decode as decode_plan
from dispatcher.plans.walk.run import (
    Advance,
    Contact,
    DeliveryResult,
    DigestItems,
    DigestLeader,
    DigestMember,
    DigestRequest,
    Order,
    Run,
    Signal,
    decode_state,
    encode_state,
)

_SQL = statements(__name__)
# Deliveries that one statement writes: a batch of runs can order hundreds of thousands, and a statement has its time.
ROWS_MAX = 5_000
# Which columns are documents: what a delivery's parts and variables are, and a run's state, and the context of its log.
_ORDER_DOCUMENTS, _ADVANCE_DOCUMENTS = (7, 10), (5, 12, 13)
# A batch with other runs has this part of the bulk lane's: a run that somebody waits for is not written after a wave.
BULK_SHARE = 8
# Faults of the data of a single run, which fails alone: the rest of its batch is walked without it.
DATA_FAULTS: tuple[type[Exception], ...] = (
    asyncpg.DataError,
    asyncpg.IntegrityConstraintViolationError,
    asyncpg.ProgramLimitExceededError,
    msgspec.MsgspecError,
    UnicodeError,
    OverflowError,
    RecursionError,
)
_object = msgspec.json.Decoder(dict[str, Any]).decode
_objects = msgspec.json.Decoder(list[dict[str, Any]]).decode
_json = msgspec.json.Encoder().encode


class Hand(NamedTuple):
    """What walks one batch at a time: a process has two."""

    epoch: int
    number: int


class Taken(Struct, frozen=True):
    """A run that is locked for its walk, with its workflow and workspace."""

    run: Run
    version_id: int
    workflow_id: int
    tenant_id: str
    workspace_id: str
    lane: int = 1
    traceparent: str | None = None


class Template(Struct, frozen=True):
    """The published version of a stored template, and the paths that it reads."""

    version_id: int
    reads: Sequence[str]


class Frozen(Struct, frozen=True):
    """An order with the variables that it reads, and with the version of its template if that is a stored template."""

    taken: Taken
    order: Order
    version_id: int | None
    variables: Mapping[str, Any]


# Of a stored template: tenant, workspace, name, channel.
TemplateKey: TypeAlias = tuple[str, str, str, str]
# asyncpg's connection, or a Database: neither carries types of ours.
Connection: TypeAlias = Any
Row: TypeAlias = Any


def _ids(rows: Iterable[Row]) -> list[int]:
    return [row["id"] for row in rows]


class Buried(Struct, frozen=True):
    """A run that was made a dead letter."""

    id: int
    is_enrolment: bool


class Left(Struct, frozen=True):
    """Whether runs are due that a batch leaves out: some that have crashed their walker, and slow ones."""

    crashed: bool
    slow: bool


async def take(connection: Connection, argument: object, statement: str) -> Sequence[Row]:
    """Lock a single run, as a statement says, for as long as the transaction lasts."""
    rows: Sequence[Row] = await connection.fetch(_SQL[statement], argument)
    return rows


async def take_batch(connection: Connection, most: int, youngest: int) -> Sequence[Row]:
    """Lock due and woken runs, a share of each lane, for as long as the transaction lasts.

    Of the bulk lane only wakes up to the `youngest` count.
    """
    rows: Sequence[Row] = await connection.fetch(_SQL["take"], most, -(-most // BULK_SHARE), youngest)
    return rows


async def left_alone(database: Database, crashes_max: int) -> Left:
    """Look for runs that are walked alone."""
    return Left(*(await database.fetch(_SQL["left_alone"], crashes_max))[0])


async def mark_slow(connection: Connection, ids: Sequence[int]) -> None:
    """Leave these runs to the worker process."""
    await connection.execute(_SQL["mark_slow"], ids)


def read_run(row: Row, contact: Contact | None = None) -> Taken:
    """Return a locked run. Its walk is recorded before: data that cannot be read raise an error."""
    run = Run(
        id=row["id"],
        created_at=row["created_at"],
        status=row["status"],
        input=_object(row["input"]) if contact is None else {"contact": contact.fields},
        state=decode_state(row["state"]),
        contact_id=row["contact_id"],
        anchor=row["anchor"],
    )
    place = row["tenant_id"], row["workspace_id"]
    return Taken(run, row["version_id"], row["workflow_id"], *place, row["lane"], row["traceparent"])


async def record_walk(database: Database, hand: Hand, ids: Sequence[int]) -> list[int]:
    """Record which runs are taken up, to notice a crash; return earlier walks that crashed over some of them."""
    return _ids(await database.fetch(_SQL["record_walk"], *hand, ids))


async def abandon_walk(database: Database, hand: Hand) -> None:
    """Delete the record of this hand's walk, which was rolled back without a fault of its runs."""
    await database.fetch(_SQL["abandon_walk"], *hand)


async def count_crashes(connection: Connection, walks: Sequence[int]) -> list[int]:
    """Count a crash for each run of these walks; return the runs, which are walked alone from now on."""
    return _ids(await connection.fetch(_SQL["count_crashes"], walks)) if walks else []


async def count_own_crash(database: Database, hand: Hand) -> None:
    """Count a crash for the runs of this hand's walk."""
    await count_crashes(database, _ids(await database.fetch(_SQL["walks_of_hand"], *hand)))


async def count_crashes_of_gone_instances(database: Database) -> list[int]:
    """Count a crash for the runs of walks whose instance is gone; return them."""
    return await count_crashes(database, _ids(await database.fetch(_SQL["walks_of_gone_instances"])))


async def refuse(database: Database, hand: Hand, error: str) -> list[Buried]:
    """Make a dead letter of the one run that was taken up; return it."""
    return [Buried(*row) for row in await database.fetch(_SQL["refuse"], *hand, error)]


async def fail_poison(database: Database, crashes_max: int) -> list[Buried]:
    """Make dead letters of runs that crashed their walker too often; return them."""
    return [Buried(*row) for row in await database.fetch(_SQL["fail_poison"], crashes_max)]


async def delete_orphaned_wakes(database: Database) -> None:
    """Delete wakes of runs that are gone."""
    await database.fetch(_SQL["delete_orphaned_wakes"])


async def look(database: Database) -> tuple[float | None, bool]:
    """Return the seconds until a run is due (negative: overdue; None: none waits), and whether any run was woken."""
    [(due, woken)] = await database.fetch(_SQL["look"])
    return due, woken


async def soonest(database: Database, *, jointly: bool) -> float | None:
    """Return the seconds until there is a run to walk, 0 or less where there is one, None where none waits."""
    ask = database.look if jointly else database.value
    found: float | None = await ask(_SQL["soonest"])
    return found


async def is_poison_wanted(database: Database) -> bool:
    """Whether the poison worker has something to do."""
    return bool(await database.look(_SQL["poison_wanted"]))


async def plans(connection: Connection, ids: Iterable[int]) -> dict[int, Plan]:
    """Return the plans of versions by id."""
    return {row["id"]: decode_plan(row["plan"]) for row in await connection.fetch(_SQL["plans"], list(ids))}


async def delete_wakes(connection: Connection, ids: Sequence[int]) -> float:
    """Delete the wakes of these runs, before their deliveries are read; return the time."""
    return float(await connection.fetchval(_SQL["delete_wakes"], ids))


async def results(
    connection: Connection, nodes: Sequence[tuple[int, str]]
) -> dict[int, dict[str, list[DeliveryResult]]]:
    """Return the states of deliveries, by run and node."""
    found: dict[int, dict[str, list[DeliveryResult]]] = {}
    rows = await connection.fetch(_SQL["results"], *map(list, zip(*nodes, strict=True))) if nodes else ()
    for row in rows:
        facts = {name: row[name] for name in DeliveryResult.__struct_fields__}
        if facts["data"] is not None:
            facts["data"] = _object(facts["data"])
        found.setdefault(row["run_id"], {}).setdefault(row["node"], []).append(DeliveryResult(**facts))
    return found


async def signals(connection: Connection, ids: Sequence[int]) -> dict[int, list[Signal]]:
    """Return the events that no node has taken yet, by run."""
    found: dict[int, list[Signal]] = {}
    if ids:
        for number, run_id, name, data in await connection.fetch(_SQL["signals"], ids):
            found.setdefault(run_id, []).append(Signal(number, name, _object(data)))
    return found


async def enter_digest(connection: Connection, taken: Taken, wish: DigestRequest) -> DigestLeader | DigestMember:
    """Open a digest, or add an item to one that another run has opened."""
    item = _json(wish.item).decode()
    asked = wish.node, wish.key, taken.run.id, wish.window_seconds, wish.items_max, item
    row = await connection.fetchrow(_SQL["enter_digest"], taken.workflow_id, *asked)
    return DigestLeader(row["until"]) if row["leader"] == taken.run.id else DigestMember(row["leader"])


async def collect_digest(connection: Connection, run_id: int, node: str) -> DigestItems:
    """Close a digest and return its items."""
    return DigestItems(_objects(await connection.fetchval(_SQL["collect_digest"], run_id, node)))


async def published(connection: Connection, keys: Iterable[TemplateKey]) -> dict[TemplateKey, Template]:
    """Return the published versions of stored templates; those without one are left out."""
    rows = await _of_templates(connection, "published", keys)
    return {tuple(row[:4]): Template(row["id"], row["variables"]) for row in rows}


async def unpublished(connection: Connection, keys: Iterable[TemplateKey]) -> dict[TemplateKey, str]:
    """Return why these stored templates have no published version."""
    rows = await _of_templates(connection, "unpublished", keys)
    return {tuple(row[:4]): f"template: {row['words'] or 'was published too late'}" for row in rows}


async def _of_templates(connection: Connection, statement: str, keys: Iterable[TemplateKey]) -> Sequence[Row]:
    columns = [list(column) for column in zip(*keys, strict=True)]
    return await connection.fetch(_SQL[statement], *columns) if columns else ()


async def write_orders(connection: Connection, orders: Sequence[Frozen], now: float) -> None:
    """Write the deliveries of orders, one for each recipient."""
    scheduled_for = datetime.fromtimestamp(now, UTC)
    page: list[tuple[object, ...]] = []
    async for row in yielding(row for frozen in orders for row in _rows(frozen, scheduled_for)):
        page.append(row)
        if len(page) == ROWS_MAX:
            await _order(connection, page, scheduled_for)
            page = []
    if page:
        await _order(connection, page, scheduled_for)


async def _order(connection: Connection, page: Sequence[tuple[object, ...]], scheduled_for: datetime) -> None:
    columns = _sent(map(list, zip(*page, strict=True)), _ORDER_DOCUMENTS)
    await connection.execute(_SQL["order"], *columns[:17], scheduled_for, *columns[17:])


def _sent(columns: Iterable[list[object]], documents: Collection[int]) -> list[object]:
    """Return columns as they are sent: as literals, but for documents, which may be large."""
    return [column if place in documents else array(column) for place, column in enumerate(columns)]


def _rows(frozen: Frozen, scheduled_for: datetime) -> Iterable[tuple[object, ...]]:
    taken, order = frozen.taken, frozen.order
    run_id = taken.run.id
    asset = None if frozen.version_id is None else f"{order.template}@{frozen.version_id}"
    contact_id = taken.run.contact_id
    sequence_id = None if contact_id is None else taken.workflow_id
    parts = _optional_json(order.parts)
    variables, options = _json(frozen.variables).decode(), _json(order.options).decode()
    for recipient in order.recipients:
        yield (
            run_id,
            order.node,
            taken.tenant_id,
            taken.workspace_id,
            delivery_key(order.channel, run_id, recipient, asset, scheduled_for, node=order.node)
            if contact_id is None
            else _step_key(taken.run, order),
            order.channel,
            recipient,
            parts,
            order.template,
            frozen.version_id,
            variables,
            options,
            order.attempts,
            1 if order.lane is None else order.lane,
            order.locale,
            order.topic,
            order.expires_seconds,
            contact_id,
            sequence_id,
            order.ended,
            taken.traceparent,
        )


def _step_key(run: Run, order: Order) -> str:
    """The key of an enrolment's step: it is the same whenever the step is ordered, so that it is sent once."""
    enrolled_at = datetime.fromtimestamp(run.created_at, UTC)
    return delivery_key(order.channel, run.id, str(run.contact_id), None, enrolled_at, node=order.node)


def _status(taken: Taken, advance: Advance) -> str:
    """An enrolment is paused where a run of a workflow fails."""
    return "paused" if advance.status == "failed" and taken.run.contact_id is not None else advance.status


async def write(connection: Connection, hand: Hand, walked: Sequence[tuple[Taken, Advance]]) -> None:
    """Write the new states and logs of runs, mark the events that they took, and end the walk of this hand."""
    taken_signals = [number for _, advance in walked for number in advance.taken]
    if taken_signals:
        await connection.execute(_SQL["take_signals"], taken_signals)
    columns: list[list[object]] = [
        [taken.run.id for taken, _ in walked],
        [_status(taken, advance) for taken, advance in walked],
        [advance.available_at for _, advance in walked],
        [advance.error for _, advance in walked],
        [advance.error_node for _, advance in walked],
        [encode_state(advance.state).decode() async for _, advance in yielding(walked)],
        [advance.anchor for _, advance in walked],
        *await _entries(walked),
    ]
    await connection.execute(_SQL["advance"], *hand, *_sent(columns, _ADVANCE_DOCUMENTS))
    cancelled = [taken.run.id for taken, advance in walked if advance.cancels and _status(taken, advance) != "paused"]
    if cancelled:
        await connection.execute(_SQL["cancel_deliveries"], cancelled)


async def _entries(walked: Sequence[tuple[Taken, Advance]]) -> list[list[object]]:
    """Return the new entries of logs, by columns."""
    columns: list[list[object]] = [[] for _ in range(8)]
    async for taken, advance in yielding(walked):
        first = advance.state.entries - len(advance.entries)
        for number, entry in enumerate(advance.entries, first):
            context, added = _optional_json(entry.context), _optional_json(entry.added)
            row = (taken.run.id, number, entry.step, entry.event, entry.node, context, added, entry.error)
            for column, value in zip(columns, row, strict=True):
                column.append(value)
    return columns


def _optional_json(value: object) -> str | None:
    return None if value is None else _json(value).decode()
