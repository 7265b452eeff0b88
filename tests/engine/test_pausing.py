"""Pauses that are set between claim and mark: once a pause is known, no mark begins of what it stops."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any

import pytest
from msgspec.structs import replace

from dispatcher.base.values.addresses import Address
from dispatcher.base.workspace import Workspace
from dispatcher.config.settings import Channel
from dispatcher.engine.rules.life import Lane
from dispatcher.features.deliveries.store import New, insert
from dispatcher.features.objects import store as objects
from dispatcher.features.suppressions import store as suppressions
from dispatcher.features.suppressions.store import Entry
from tests.engine.stage import Stage
from tests.features.templates.support import draft, save
from tests.support import flows, pauses
from tests.support.metering import sample
from tests.support.scene import Connection
from tests.support.waits import until

HERE, QUIET, SILENT, ACME = (
    Workspace("default", "default"),
    Workspace("default", "quiet"),
    Workspace("default", "silent"),
    Workspace("acme", "default"),
)
Pause = tuple[pauses.Scope, str, Workspace | None]
# Each stops another delivery of those below, in this order; of a run there is one besides.
PARKING: Sequence[Pause] = (
    ("tenant", "acme", None),
    ("workspace", "quiet", QUIET),
    ("channel", "sms", SILENT),
    ("template", "sale", None),
    ("template", "news", HERE),
)
COLUMNS: Sequence[Mapping[str, str]] = (
    {"tenant_id": "acme"},
    {"workspace_id": "quiet"},
    {"workspace_id": "silent"},
    {"template_name": "sale"},
    {"template_name": "news"},
)
PAUSES: Mapping[str, Sequence[Pause]] = {
    "parts": PARKING,
    "channel": (("channel", "sms", None),),
    "provider": (("provider", "capture", None),),
}
OPTIONS = '{"attachments": [{"object": "logo"}]}'
OF_A_RUN = """INSERT INTO dispatcher.deliveries (run_id, node, idempotency_key, channel, recipient, template, options,
                                                 scheduled_for)
              VALUES ($1, 'mail', 'of a run', 'sms', '+4917012345', '{"body": "hello"}', $2, $3) RETURNING id"""
_keys = count(1)

Reached = Callable[[], bool]
Point = Callable[[Stage, pytest.MonkeyPatch], AbstractAsyncContextManager[Reached]]


# Where a delivery waits on its way: each holds it there, and lets it go on at the end.


def _held(statement: str) -> Point:
    """Until Postgres answers."""

    @asynccontextmanager
    async def point(stage: Stage, _patch: pytest.MonkeyPatch) -> AsyncIterator[Reached]:
        trouble = stage.database.hold_answers(statement)
        yield trouble.met.is_set
        trouble.gate.set()

    return point


@asynccontextmanager
async def _before_the_first_mark_ended(stage: Stage, _patch: pytest.MonkeyPatch) -> AsyncIterator[Reached]:
    trouble = stage.database.hold_answers("marks.mark")
    await stage.write(1, body="first")
    await trouble.met.wait()
    ended = stage.pipeline.senders["sms"]._marked[Lane.NORMAL]
    ended.set()
    yield lambda: not ended.is_set()
    trouble.gate.set()


@asynccontextmanager
async def _without_room_for_results(stage: Stage, patch: pytest.MonkeyPatch) -> AsyncIterator[Reached]:
    trouble = stage.database.hold_answers("flushes.accepted")
    stage.pipeline.inbox.high_water = 1
    room, asked = stage.pipeline.inbox.room, list[None]()

    async def noted() -> None:
        asked.append(None)
        await room()

    await stage.write(1, body="first")
    await trouble.met.wait()
    patch.setattr(stage.pipeline.inbox, "room", noted)
    yield lambda: bool(asked)
    trouble.gate.set()


@asynccontextmanager
async def _without_a_slot(stage: Stage, _patch: pytest.MonkeyPatch) -> AsyncIterator[Reached]:
    slots = stage.pipeline.senders["sms"].slots
    stage.sms.holds = lambda envelope: envelope.parts["body"] == "first"
    slots.resize(3)
    await stage.write(1, body="first")
    await until(lambda: stage.sms.given, "the only slot of the lane is used")
    yield lambda: not slots._freed[Lane.NORMAL].is_set()
    slots.resize(100)
    stage.sms.gate.set()


@asynccontextmanager
async def _without_a_token(stage: Stage, patch: pytest.MonkeyPatch) -> AsyncIterator[Reached]:
    rates = stage.terms["sms"].rates
    with patch.context() as closed:
        closed.setattr(rates, "take", lambda _now, _wanted: 0)
        yield lambda: Lane.NORMAL in stage.pipeline.senders["sms"].turns.queueing


@asynccontextmanager
async def _connecting(stage: Stage, _patch: pytest.MonkeyPatch) -> AsyncIterator[Reached]:
    stage.sms.ready.clear()
    yield lambda: stage.sms.preparing == 1
    stage.sms.ready.set()


@asynccontextmanager
async def _without_a_connection_to_postgres(stage: Stage, _patch: pytest.MonkeyPatch) -> AsyncIterator[Reached]:
    stage.database.lending.clear()
    yield lambda: stage.database.borrowers == 1
    stage.database.lending.set()


EARLY: Mapping[str, Point] = {
    "claimed": _held("claims.claim"),
    "looked up": _held("suppression.known"),
    "rendering": _held("templates.load"),
    "attaching": _held("objects.sizes"),
    "loading": _held("objects.contents"),
    "marks": _before_the_first_mark_ended,
    "results": _without_room_for_results,
    "slot": _without_a_slot,
    "token": _without_a_token,
}
LATE: Mapping[str, Point] = {"connecting": _connecting, "mark": _without_a_connection_to_postgres}
POINTS: Mapping[str, Point] = {**EARLY, **LATE}


async def _stored(stage: Stage) -> None:
    """What the deliveries name, and something that has them looked up."""
    for name in ("sale", "news"):
        await save(stage.database, draft(name))
    for place in (HERE, QUIET, SILENT, ACME):
        await objects.put(stage.database, (place.tenant_id, place.workspace_id, "logo"), b"logo", "image/png")
    gone = Entry(Address("phone", "+49111"), "complaint", "spam")
    for tenant in ("default", "acme"):
        await suppressions.add(stage.database, tenant, "ann", [gone])


async def _written(stage: Stage, columns: Sequence[Mapping[str, str]], run: int) -> list[int]:
    """Deliveries that one claim takes together; the last is of a run."""
    later = datetime.now(UTC) + timedelta(hours=1)
    written = [one.id for one in await insert(stage.database, [_new(given, later) for given in columns])]
    written.append(int(await stage.database.value(OF_A_RUN, run, OPTIONS, later)))
    due = "UPDATE dispatcher.delivery_state SET run_at = statement_timestamp() WHERE id = ANY ($1)"
    await stage.database.fetch(due, written)
    stage.woken.set()
    return written


def _new(columns: Mapping[str, str], later: datetime) -> New:
    said: dict[str, Any] = {"template": '{"body": "hello"}'} if "template_name" not in columns else {}
    said |= columns
    return New(
        idempotency_key=f"pausing-{next(_keys)}",
        channel="sms",
        recipient="+4917012345",
        variables='{"name": "Ann"}',
        options=OPTIONS,
        scheduled_for=later,
        **said,
    )


async def _pause(stage: Stage, chosen: Sequence[Pause], run: int) -> None:
    for scope, name, place in chosen:
        await pauses.pause(stage.database, scope, name, "ann", "test", place)
    if chosen == PARKING:
        await stage.database.fetch("SELECT dispatcher.pause_run($1)", run)
    await stage.controls.run_once()


async def _resume(stage: Stage, chosen: Sequence[Pause], run: int) -> None:
    for scope, name, place in chosen:
        assert await pauses.resume(stage.database, scope, name, "ann", place)
    if chosen == PARKING:
        await stage.database.fetch("SELECT dispatcher.resume_run($1)", run)
    await stage.controls.run_once()
    stage.woken.set()


def _marked(stage: Stage, asked: int) -> set[int]:
    """The marks that were requested after so many."""
    return {one for _, ids, *_ in stage.database.arguments("marks.mark")[asked:] for one in ids}  # type: ignore[attr-defined]  # a list


@pytest.mark.parametrize("chosen", PAUSES.values(), ids=PAUSES)
@pytest.mark.parametrize("point", POINTS)
async def test_no_mark_begins_once_a_pause_is_known(
    stage: Stage, connection: Connection, monkeypatch: pytest.MonkeyPatch, point: str, chosen: Sequence[Pause]
) -> None:
    """Nor is there a connection made for what is paused before that."""
    await _stored(stage)
    await flows.put(connection)
    run = (await flows.trigger(connection))["execution_id"]
    async with stage.playing():
        async with POINTS[point](stage, monkeypatch) as reached:
            free, *rest = ids = await _written(stage, [{}, *COLUMNS], run)
            stopped, others = (rest, {free}) if chosen == PARKING else (ids, set[int]())
            await until(reached, "they wait there")
            await _pause(stage, chosen, run)
            asked, prepared = stage.database.count("marks.mark"), stage.sms.prepared
        await stage.until_all(stopped, "parked" if others else "pending")
        if others:
            await stage.until_all(list(others), "sent")
        await stage.until_empty()
        assert _marked(stage, asked) == others
        if point in EARLY:
            assert stage.sms.prepared - prepared == len(others)
        await _resume(stage, chosen, run)
        await stage.until_all(ids, "sent")
    assert len(stage.sms.ids()) == len(set(stage.sms.ids()))
    await stage.sound()


async def test_a_pause_of_a_replaced_provider_stops_its_deliveries(stage: Stage) -> None:
    stage.sms.ready.clear()
    ids = await stage.write(2)
    async with stage.playing():
        await until(lambda: stage.sms.preparing == 1, "they are about to be marked")
        before = stage.terms["sms"]
        stage.pipeline.adopt(stage.config, {"sms": replace(before, settings=Channel(provider="other"), calls=0)})
        await pauses.pause(stage.database, "provider", "capture", "ann", "test")
        await stage.controls.run_once()
        released, stage.sms.ready = stage.sms.ready, asyncio.Event()
        released.set()
        await until(lambda: stage.sms.preparing == 1 and before.calls == 0, "they come again, by the other")
        assert stage.database.count("marks.mark") == 0
        stage.sms.ready.set()
        await stage.sent_once(ids)


async def test_the_metrics_show_a_paused_channel_until_it_is_resumed(stage: Stage) -> None:
    async def shown() -> float:
        await stage.controls.run_once()
        stage.pipeline.measure()
        return sample(stage.metrics.channel_paused.labels("sms"))

    assert await shown() == 0
    await pauses.pause(stage.database, "channel", "sms", "ann", "test")
    assert await shown() == 1
    await pauses.resume(stage.database, "channel", "sms", "ann")
    assert await shown() == 0
