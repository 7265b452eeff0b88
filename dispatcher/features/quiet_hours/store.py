"""The store of quiet hours, and of what they have moved."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from itertools import accumulate, chain

import msgspec
from msgspec import Struct

from dispatcher.base.workspace import Workspace
from dispatcher.db.database import Database
from dispatcher.db.literals import array
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
# A tenant, a workspace, and a kind of addresses among those of contacts.
Group = tuple[str, str, str]
# A tenant, a workspace, and an address by its kind.
Contact = tuple[str, str, str, str]


class _Row(Struct, frozen=True):
    tenant_id: str
    workspace_id: str
    channel: str
    version: int
    quiet: str
    windows: str
    time_zone: str


_standing = msgspec.json.Decoder(list[_Row]).decode


class Rule(Struct, frozen=True):
    """The quiet hours of a channel as they hold now; `zone` is that of recipients of whom none is known."""

    version: int
    hours: Hours
    zone: str


class Limits(Struct, frozen=True):
    """When a delivery expires, and until when its provider knows its key."""

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
    for row in _standing(await database.look(_SQL["standing"])):
        rule = Rule(row.version, hours_of(_periods(row.quiet), _periods(row.windows)), row.time_zone)
        found.setdefault((row.tenant_id, row.workspace_id), {})[row.channel] = rule
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


async def zones(database: Database, addresses: Mapping[Group, Sequence[str]]) -> tuple[datetime, dict[Contact, str]]:
    """Return the time by the database's clock, and the time zones of the contacts behind addresses that have one."""
    ends = list(accumulate(map(len, addresses.values())))
    columns = [[group[place] for group in addresses] for place in range(3)]
    texts = array(list(chain.from_iterable(addresses.values())))
    rows = await database.fetch(_SQL["zones"], *columns, texts, [1, *(end + 1 for end in ends[:-1])], ends)
    found = {(row[0], row[1], row[2], row[3]): row[4] for row in rows if row[0] is not None}
    return rows[0]["now"], found


async def limits(database: Database, ids: Sequence[int]) -> dict[int, Limits]:
    """Return when deliveries expire, and until when their keys are known, by id."""
    return {row[0]: Limits(row[1], row[2]) for row in await database.fetch(_SQL["limits"], ids)}


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
