"""The store of quiet hours, and of what they have moved."""

from collections.abc import Mapping, Sequence
from datetime import datetime

import msgspec
from msgspec import Struct

from dispatcher.base.values.addresses import Address
from dispatcher.base.workspace import Workspace
from dispatcher.db.database import Database
from dispatcher.db.statements import statements
from dispatcher.engine.rules.life import Claimed
from dispatcher.features.quiet_hours.models import ALL, NewQuietHours, Period, QuietHours
from dispatcher.features.quiet_hours.rules import DAYS, EVERY_DAY, Hours, Move
from dispatcher.features.quiet_hours.rules import Period as Times

_SQL = statements(__name__)
_periods = msgspec.json.Decoder(list[Period]).decode
_encode = msgspec.json.Encoder().encode
# A tenant and a workspace.
Place = tuple[str, str]


class Rule(Struct, frozen=True):
    """The quiet hours of a channel as they hold now; `zone` is that of recipients of whom none is known."""

    version: int
    hours: Hours
    zone: str


class Known(Struct, frozen=True):
    """The facts that decide what becomes of a delivery in quiet hours."""

    zone: str | None
    expires_at: datetime | None
    resend_until: datetime | None


async def listed(database: Database, here: Workspace, channel: str | None = None) -> list[QuietHours]:
    """Return the quiet hours of a workspace, or those of one channel or `all`."""
    rows = await database.fetch(_SQL["list"], *_place(here), None if channel is None else _stored(channel))
    return [
        QuietHours(
            **dict(row) | {"channel": row["channel"] or ALL} | {n: _periods(row[n]) for n in ("quiet", "windows")}
        )
        for row in rows
    ]


async def put(database: Database, here: Workspace, channel: str, given: NewQuietHours, actor: str) -> str:
    """Save quiet hours; return created, changed or same."""
    texts = (_encode(periods).decode() for periods in (given.quiet, given.windows))
    return str(await database.value(_SQL["put"], *_place(here), _stored(channel), *texts, actor))


async def delete(database: Database, here: Workspace, channel: str, actor: str) -> bool:
    """Delete quiet hours; False where there are none."""
    return bool(await database.value(_SQL["delete"], *_place(here), _stored(channel), actor))


def _place(here: Workspace) -> Place:
    return here.tenant_id, here.workspace_id


def _stored(channel: str) -> str:
    return "" if channel == ALL else channel


async def standing(database: Database) -> dict[Place, dict[str, Rule]]:
    """Return all quiet hours by workspace and channel, which is empty for all channels."""
    found: dict[Place, dict[str, Rule]] = {}
    for row in await database.fetch(_SQL["standing"]):
        rule = Rule(row["version"], hours_of(_periods(row["quiet"]), _periods(row["windows"])), row["time_zone"])
        found.setdefault((row["tenant_id"], row["workspace_id"]), {})[row["channel"]] = rule
    return found


def hours_of(quiet: Sequence[Period], windows: Sequence[Period]) -> Hours:
    """Return quiet hours as they are decided by."""
    return Hours(tuple(map(_times, quiet)), tuple(map(_times, windows)))


def _times(period: Period) -> Times:
    days = EVERY_DAY if period.days is None else frozenset(map(DAYS.index, period.days))
    return Times(_minutes(period.opens), _minutes(period.closes), days)


def _minutes(hour: str) -> int:
    hours, minutes = hour.split(":")
    return 60 * int(hours) + int(minutes)


async def look_up(
    database: Database, items: Sequence[Claimed], addresses: Sequence[Address], kinds: Sequence[str]
) -> tuple[dict[int, Known], datetime | None]:
    """Return what is known of claimed deliveries and their recipients, and the time by the database's clock."""
    rows = await database.fetch(
        _SQL["looked_up"],
        [item.id for item in items],
        [item.tenant_id for item in items],
        [item.workspace_id for item in items],
        kinds,
        [one.text for one in addresses],
    )
    known = {row["id"]: Known(row["time_zone"], row["expires_at"], row["resend_until"]) for row in rows}
    return known, rows[0]["now"] if rows else None


async def move(database: Database, moves: Mapping[int, tuple[Claimed, Rule, Move]]) -> set[int]:
    """Move claimed deliveries; return those that need no other end, since they are moved or were taken from us.

    The others were claimed under quiet hours that have changed since.
    """
    chosen = sorted(moves.values(), key=lambda one: one[0].id)
    rows = await database.fetch(
        _SQL["move"],
        [item.id for item, _, _ in chosen],
        [item.token for item, _, _ in chosen],
        [rule.version for _, rule, _ in chosen],
        [to.run_at for _, _, to in chosen],
        [to.reason for _, _, to in chosen],
    )
    return {row["delivery_id"] for row in rows}


async def free(database: Database, page: int) -> int:
    """Make a page of deliveries due again whose quiet hours hold no more; less than a page: there are no others."""
    return int(await database.value(_SQL["free"], page))
