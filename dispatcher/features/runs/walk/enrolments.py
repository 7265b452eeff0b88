"""Enrolments in a walk: their contacts, the pauses of their sequences, and those that are parked until one is over."""

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import msgspec
from msgspec import Struct, field
from msgspec.structs import replace

from dispatcher.db.database import Database
from dispatcher.db.statements import statements
from dispatcher.plans.walk.run import Contact, Pause

_SQL = statements(__name__)
_object = msgspec.json.Decoder(dict[str, Any]).decode
# asyncpg's connection and rows carry no types of ours.
Connection: TypeAlias = Any
Row: TypeAlias = Any
# Enrolments that one statement makes due: a sequence of a million is not resumed in one transaction.
PAGE = 5_000


class Enrolments(Struct, frozen=True):
    """What the enrolments of one batch are given."""

    contacts: Mapping[int, Contact] = field(default_factory=dict)
    # By sequence, those that are over.
    pauses: Mapping[int, Sequence[Pause]] = field(default_factory=dict)
    # Runs that are parked.
    parked: frozenset[int] = frozenset()


NONE = Enrolments()


async def load(connection: Connection, rows: Sequence[Row]) -> Enrolments:
    """Park runs of moved tenants and enrolments of paused sequences; return what the others need for their walks."""
    parked = [(row["id"], row["moved_by"]) for row in rows if row["moved_by"] is not None]
    enrolled = [row for row in rows if row["contact_id"] is not None and row["moved_by"] is None]
    if not enrolled:
        return await _parking(connection, parked)
    over: dict[int, list[Pause]] = {}
    still: dict[int, int] = {}
    names = [str(number) for number in {row["workflow_id"] for row in enrolled}]
    for sequence, pause, since, ended in await connection.fetch(_SQL["pauses"], names):
        if ended is None:
            still[sequence] = pause
        else:
            over.setdefault(sequence, []).append(Pause(since, ended))
    parked += [(row["id"], still[row["workflow_id"]]) for row in enrolled if row["workflow_id"] in still]
    walked = [row for row in enrolled if row["workflow_id"] not in still]
    return replace(await _parking(connection, parked), contacts=await _keep(connection, walked), pauses=over)


async def _parking(connection: Connection, parked: Sequence[tuple[int, int]]) -> Enrolments:
    """Park runs, each by a pause."""
    if not parked:
        return NONE
    await connection.execute(_SQL["park"], *map(list, zip(*parked, strict=True)))
    return Enrolments(parked=frozenset(run for run, _ in parked))


async def _keep(connection: Connection, rows: Sequence[Row]) -> dict[int, Contact]:
    """Return the contacts of enrolments, which no erasure passes over before this walk is written."""
    if not rows:
        return {}
    places = {(row["tenant_id"], row["workspace_id"]) for row in rows}
    await connection.execute(_SQL["keep_contacts"], *map(list, zip(*places, strict=True)))
    return await contacts(connection, [row["contact_id"] for row in rows])


async def contacts(connection: Connection, ids: Sequence[int]) -> dict[int, Contact]:
    """Return contacts by id; those that are gone are left out."""
    return {
        row["id"]: Contact(
            id=row["id"],
            fields=_object(row["fields"]),
            addresses=dict(zip(row["kinds"] or (), row["addresses"] or (), strict=True)),
            zone=row["time_zone"],
            locale=row["locale"],
        )
        for row in await connection.fetch(_SQL["contacts"], ids)
    }


async def free(database: Database) -> int:
    """Make enrolments due whose sequence was resumed; return how many."""
    return int(await database.value(_SQL["free"], PAGE))
