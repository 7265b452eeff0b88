"""Walking: locking the runs that are due or woken, what a walk is told of them, and what it writes."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec
from msgspec import Struct

from dispatcher.base.breaks import with_breaks
from dispatcher.base.values.idempotency import delivery_key
from dispatcher.db.database import Database
from dispatcher.db.statements import statements
from dispatcher.plans.plan import Plan
from dispatcher.plans.plan import decode as decode_plan
from dispatcher.plans.walk.run import (
    Advance,
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
_object = msgspec.json.Decoder(dict[str, Any]).decode
_objects = msgspec.json.Decoder(list[dict[str, Any]]).decode
_json = msgspec.json.Encoder().encode


class Taken(Struct, frozen=True):
    """A run that is locked for its walk, and what it belongs to."""

    run: Run
    version_id: int
    workflow_id: int
    tenant_id: str
    workspace_id: str


class Template(Struct, frozen=True):
    """The version that a stored template stands at, and the paths that it reads."""

    version_id: int
    reads: Sequence[str]


class Frozen(Struct, frozen=True):
    """An order with the version of its template, if that is a stored one, and with the variables that it reads."""

    taken: Taken
    order: Order
    version_id: int | None
    variables: Mapping[str, Any]


Place = tuple[str, str, str, str]


async def take(connection: Any, count: int) -> Sequence[Any]:  # noqa: ANN401 - the pool's connection carries no types of ours
    """Lock runs that are due or woken, for as long as the transaction lasts."""
    rows: Sequence[Any] = await connection.fetch(_SQL["take"], count)
    return rows


async def take_suspect(connection: Any, takes_max: int) -> Sequence[Any]:  # noqa: ANN401 - as above
    """Lock one that has killed its walker, and not too often."""
    rows: Sequence[Any] = await connection.fetch(_SQL["take_suspect"], takes_max)
    return rows


async def take_slow(connection: Any, after: str) -> Sequence[Any]:  # noqa: ANN401 - as above
    """Lock one whose walk is for the worker process, of the first tenant after this one, or of the first of all."""
    rows: Sequence[Any] = await connection.fetch(_SQL["take_slow"], after)
    return rows or (await connection.fetch(_SQL["take_slow"], "") if after else rows)


async def mark_slow(connection: Any, ids: Sequence[int]) -> None:  # noqa: ANN401 - as above
    """Leave these to the worker process."""
    await connection.execute(_SQL["mark_slow"], ids)


def opened(row: Any) -> Taken:  # noqa: ANN401 - as above
    """What was locked, read. What cannot be read raises: it is noted before."""
    run = Run(
        id=row["id"],
        created_at=row["created_at"],
        status=row["status"],
        input=_object(row["input"]),
        state=decode_state(row["state"]),
    )
    return Taken(run, row["version_id"], row["workflow_id"], row["tenant_id"], row["workspace_id"])


async def note(database: Database, epoch: int, ids: Sequence[int]) -> list[int]:
    """Say which runs are taken up, durably enough to outlive us; answers the walks that have died over some of them."""
    return [row["id"] for row in await database.fetch(_SQL["note_walk"], epoch, ids)]


async def put_down(database: Database, epoch: int) -> None:
    """The walk of this epoch has come to nothing, and its runs are as they were."""
    await database.fetch(_SQL["put_down"], epoch)


async def suspect(connection: Any, walks: Sequence[int]) -> list[int]:  # noqa: ANN401 - as above
    """Runs whose walker has died over them are suspects now, which are walked alone; answers them."""
    return [row["id"] for row in await connection.fetch(_SQL["count_deaths"], walks)]


async def suspect_ours(database: Database, epoch: int) -> None:
    """The runs of this epoch's walk are what it died of."""
    walks = [row["id"] for row in await database.fetch(_SQL["walks_of"], epoch)]
    await database.fetch(_SQL["count_deaths"], walks)


async def count_deaths(database: Database) -> list[int]:
    """Runs whose walker is gone are suspects now; answers them."""
    walks = [row["id"] for row in await database.fetch(_SQL["walks_of_the_dead"])]
    return [row["id"] for row in await database.fetch(_SQL["count_deaths"], walks)] if walks else []


async def refuse(database: Database, epoch: int, words: str) -> list[int]:
    """The one run that was taken up is a dead letter, with these words."""
    return [row["id"] for row in await database.fetch(_SQL["refuse"], epoch, words)]


async def bury(database: Database, takes_max: int) -> list[int]:
    """Make dead letters of runs that were taken up too often."""
    return [row["id"] for row in await database.fetch(_SQL["bury"], takes_max)]


async def forget_orphans(database: Database) -> None:
    """Drop wakes that wake nobody."""
    await database.fetch(_SQL["forget_orphans"])


async def next_due(database: Database) -> float | None:
    """Seconds until a run is due, negative where one is; None where none waits for a time."""
    found = await database.value(_SQL["next_due"])
    return None if found is None else float(found)


async def plans(connection: Any, ids: Iterable[int]) -> dict[int, Plan]:  # noqa: ANN401 - as above
    """Versions by id."""
    return {row["id"]: decode_plan(row["plan"]) for row in await connection.fetch(_SQL["plans"], list(ids))}


async def forget_wakes(connection: Any, ids: Sequence[int]) -> float:  # noqa: ANN401 - as above
    """Take back what woke these runs. Whatever is looked at from now on is newer than that. Answers the time."""
    return float(await connection.fetchval(_SQL["forget_wakes"], ids))


async def results(connection: Any, nodes: Sequence[tuple[int, str]]) -> dict[int, dict[str, list[DeliveryResult]]]:  # noqa: ANN401 - as above
    """How deliveries stand, by run and node."""
    found: dict[int, dict[str, list[DeliveryResult]]] = {}
    if not nodes:
        return found
    rows = await connection.fetch(_SQL["results"], [run for run, _ in nodes], [node for _, node in nodes])
    for run_id, node, recipient, status, held, held_seconds, message_id, finished_at, error, data in rows:
        sent = DeliveryResult(
            recipient=recipient,
            status=status,
            held=held,
            held_seconds=held_seconds,
            message_id=message_id,
            finished_at=finished_at,
            error=error,
            data=None if data is None else _object(data),
        )
        found.setdefault(run_id, {}).setdefault(node, []).append(sent)
    return found


async def signals(connection: Any, ids: Sequence[int]) -> dict[int, list[Signal]]:  # noqa: ANN401 - as above
    """Events that wait for these runs."""
    found: dict[int, list[Signal]] = {}
    if ids:
        for number, run_id, name, data in await connection.fetch(_SQL["signals"], ids):
            found.setdefault(run_id, []).append(Signal(number, name, _object(data)))
    return found


async def enter_digest(connection: Any, taken: Taken, request: DigestRequest) -> DigestLeader | DigestMember:  # noqa: ANN401 - as above
    """Lead a digest, or leave what was brought with who does."""
    item = _json(request.item).decode()
    asked = request.node, request.key, taken.run.id, request.window_seconds, request.items_max, item
    row = await connection.fetchrow(_SQL["enter_digest"], taken.workflow_id, *asked)
    return DigestLeader(row["until"]) if row["leader"] == taken.run.id else DigestMember(row["leader"])


async def collect_digest(connection: Any, run_id: int, node: str) -> DigestItems:  # noqa: ANN401 - as above
    """Close a digest and take what was collected."""
    return DigestItems(_objects(await connection.fetchval(_SQL["collect_digest"], run_id, node)))


async def published(connection: Any, places: Iterable[Place]) -> dict[Place, Template]:  # noqa: ANN401 - as above
    """What these stored templates (tenant, workspace, name, channel) stand at."""
    asked = list(places)
    if not asked:
        return {}
    columns = [list(column) for column in zip(*asked, strict=True)]
    rows = await connection.fetch(_SQL["published"], *columns)
    return {tuple(row[:4]): Template(row["id"], row["variables"]) for row in rows}


async def unpublished(connection: Any, places: Iterable[Place]) -> dict[Place, str]:  # noqa: ANN401 - as above
    """Why there is no version of these stored templates."""
    columns = [list(column) for column in zip(*places, strict=True)]
    rows = await connection.fetch(_SQL["unpublished"], *columns)
    return {tuple(row[:4]): f"template: {row['words'] or 'was published too late'}" for row in rows}


async def write_orders(connection: Any, orders: Sequence[Frozen], now: float) -> None:  # noqa: ANN401 - as above
    """Write the deliveries of orders, one for each recipient."""
    scheduled_for = datetime.fromtimestamp(now, UTC)
    page: list[tuple[object, ...]] = []
    async for row in with_breaks(row for frozen in orders for row in _rows(frozen, scheduled_for)):
        page.append(row)
        if len(page) == ROWS_MAX:
            await _order(connection, page, scheduled_for)
            page = []
    if page:
        await _order(connection, page, scheduled_for)


async def _order(connection: Any, page: Sequence[tuple[object, ...]], scheduled_for: datetime) -> None:  # noqa: ANN401 - as above
    columns = [list(column) for column in zip(*page, strict=True)]
    await connection.execute(_SQL["order"], *columns, scheduled_for)


def _rows(frozen: Frozen, scheduled_for: datetime) -> Iterable[tuple[object, ...]]:
    taken, order = frozen.taken, frozen.order
    run_id = taken.run.id
    asset = None if frozen.version_id is None else f"{order.template}@{frozen.version_id}"
    parts = None if order.parts is None else _json(order.parts).decode()
    variables, options = _json(frozen.variables).decode(), _json(order.options).decode()
    for recipient in order.recipients:
        yield (
            run_id,
            order.node,
            taken.tenant_id,
            taken.workspace_id,
            delivery_key(order.channel, run_id, recipient, asset, scheduled_for, node=order.node),
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
        )


async def write(connection: Any, epoch: int, walked: Sequence[tuple[Taken, Advance]]) -> None:  # noqa: ANN401 - as above
    """Write where runs stand now, their log, and what their walks have used up; the walk of this epoch is over."""
    taken_signals = [number for _, advance in walked for number in advance.taken]
    if taken_signals:
        await connection.execute(_SQL["take_signals"], taken_signals)
    await connection.execute(
        _SQL["advance"],
        epoch,
        [taken.run.id for taken, _ in walked],
        [advance.status for _, advance in walked],
        [advance.available_at for _, advance in walked],
        [advance.error for _, advance in walked],
        [advance.error_node for _, advance in walked],
        [encode_state(advance.state).decode() async for _, advance in with_breaks(walked)],
        *await _entries(walked),
    )
    cancelled = [taken.run.id for taken, advance in walked if advance.cancels]
    if cancelled:
        await connection.execute(_SQL["cancel_deliveries"], cancelled)


async def _entries(walked: Sequence[tuple[Taken, Advance]]) -> list[list[object]]:
    """What is new in the logs, by columns."""
    columns: list[list[object]] = [[] for _ in range(8)]
    async for taken, advance in with_breaks(walked):
        first = advance.state.entries - len(advance.entries)
        for number, entry in enumerate(advance.entries, first):
            context = None if entry.context is None else _json(entry.context).decode()
            added = None if entry.added is None else _json(entry.added).decode()
            row = (taken.run.id, number, entry.step, entry.event, entry.node, context, added, entry.error)
            for column, value in zip(columns, row, strict=True):
                column.append(value)
    return columns
