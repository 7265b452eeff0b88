"""Persons of a database."""

from collections.abc import Sequence

from dispatcher.domain.addresses import Address
from dispatcher.domain.persons import Person
from dispatcher.doors.nouns import Row, Whose
from dispatcher.doors.persons import Mark, Part, Progress
from dispatcher.store import erasures
from dispatcher.store import persons as store
from dispatcher.store.database import Database
from dispatcher.store.templates import Workspace

EXPORT_PAGE = 500
# Of an erasure, between two looks at whether somebody wants to stop.
PAGES = 20
NUMBER_MAX = 2**62


class StoredPersons:
    """Erases by itself: no dispatcher need be running."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def find(self, whose: Whose, addresses: Sequence[Address], contact: str | None) -> Person | None:
        """Whoever is meant."""
        return await store.find(self._database, whose.workspace, addresses, contact)

    async def timeline(self, whose: Whose, meant: Address, behind: Mark | None, count: int) -> Part:
        """What was sent to an address."""
        page = await store.timeline(self._database, whose.workspace, meant, behind or store.END, count)
        return Part(page.entries, page.behind)

    async def export(self, whose: Whose, who: Person, behind: Mark | None) -> Part:
        """Everything there is about somebody."""
        return Part(*await store.export(self._database, whose.workspace, who, behind or store.BEGIN, EXPORT_PAGE))

    async def places(self, whose: Whose, *, everywhere: bool) -> list[Workspace]:
        """Where somebody would be erased."""
        here = whose.workspace
        others = await erasures.workspaces(self._database, here.tenant_id) if everywhere else []
        return list(dict.fromkeys([here, *others]))

    async def erase(self, place: Workspace, who: Person, contact: str | None, actor: str, reason: str) -> int:
        """Ask for an erasure."""
        return await erasures.ask(self._database, place, who, actor, reason, contact)

    async def go_on(self, place: Workspace, number: int) -> Progress:
        """Do a part of an erasure. Somebody who serves may be at it as well."""
        await erasures.look(self._database, number, PAGES)
        (row,) = await erasures.listed(self._database, place, NUMBER_MAX, 1, number)
        return Progress(row["deliveries"], row["runs"], row["waits_for"], row["finished_at"] is not None)

    async def erasures(self, whose: Whose, count: int) -> list[Row]:
        """The newest."""
        return await erasures.listed(self._database, whose.workspace, NUMBER_MAX, count)
