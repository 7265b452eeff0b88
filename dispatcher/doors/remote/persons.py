"""Persons of a server, which erases by itself."""

import asyncio
from collections.abc import Sequence
from datetime import datetime
from typing import Any

import msgspec
from msgspec import Raw, Struct

from dispatcher.api import person_models as models
from dispatcher.client.errors import NotFound
from dispatcher.domain.addresses import Address
from dispatcher.domain.contacts import KEY
from dispatcher.domain.persons import Person
from dispatcher.doors.nouns import Row, Whose
from dispatcher.doors.persons import Mark, Part, Progress
from dispatcher.doors.remote.calls import PAGE_MAX, Calls, rows
from dispatcher.errors import NoRemoteForm
from dispatcher.store.templates import Workspace

_PATH = "/persons"
_ERASURES = "/erasures"
# Each record takes the server some questions; a page has to be there before its patience ends.
EXPORT_PAGE = 100
# Between two looks at an erasure.
LOOK_SECONDS = 0.5


class _Export(Struct, frozen=True):
    """As `models.Export`, with its records as they were written: reading them would round their numbers."""

    records: list[Raw]
    next_cursor: str | None


class RemotePersons:
    """Puts addresses into bodies, and never into URLs, which others keep."""

    def __init__(self, calls: Calls) -> None:
        self._calls = calls

    async def find(self, whose: Whose, addresses: Sequence[Address], contact: str | None) -> Person | None:
        """Whoever is meant."""
        await self._require(whose)
        if contact is not None and not KEY.match(contact):
            # What cannot be a key is the key of nobody.
            return None
        try:
            found = await self._calls.look(f"{_PATH}/find", _said(addresses, contact), models.Person)
        except NotFound:
            return None
        return Person([Address(one.kind, one.address) for one in found.addresses])

    async def timeline(self, whose: Whose, meant: Address, behind: Mark | None, count: int) -> Part:
        """What was sent to an address."""
        await self._require(whose)
        body = {"address": meant.text, "kind": meant.kind, "cursor": behind, "limit": min(count, PAGE_MAX)}
        page = await self._calls.look(f"{_PATH}/timeline", body, models.Timeline)
        return Part([one | {"at": msgspec.convert(one["at"], datetime)} for one in page.entries], page.next_cursor)

    async def export(self, whose: Whose, who: Person, behind: Mark | None) -> Part:
        """Everything there is about somebody, of whom a contact without an address says nothing."""
        await self._require(whose)
        if not who.addresses:
            return Part([], None)
        body = _said(who.addresses, None) | {"cursor": behind, "limit": EXPORT_PAGE}
        page = await self._calls.look(f"{_PATH}/export", body, _Export)
        return Part(page.records, page.next_cursor)

    async def places(self, whose: Whose, *, everywhere: bool) -> list[Workspace]:
        """Where somebody would be erased: what the key opens."""
        if everywhere:
            raise NoRemoteForm("a key opens one workspace: erase from each by a key of its own, or on the database")
        return [await self._calls.workspace(whose)]

    async def erase(self, _place: Workspace, who: Person, contact: str | None, _actor: str, reason: str) -> int:
        """Ask for an erasure."""
        body = _said(who.addresses, contact) | {"reason": reason}
        return (await self._calls.post(_ERASURES, body, models.Erasure)).id

    async def go_on(self, _place: Workspace, number: int) -> Progress:
        """Look at an erasure after a while."""
        await asyncio.sleep(LOOK_SECONDS)
        row = await self._calls.get(f"{_ERASURES}/{number}", models.Erasure)
        return Progress(row.deliveries, row.runs, row.waits_for, row.finished_at is not None)

    async def erasures(self, whose: Whose, count: int) -> list[Row]:
        """The newest."""
        await self._require(whose)
        return rows(await self._calls.pages(_ERASURES, models.Erasures, lambda page: page.erasures, count))

    async def _require(self, whose: Whose) -> None:
        await self._calls.require(whose.tenant_id, whose.workspace_id)


def _said(addresses: Sequence[Address], contact: str | None) -> dict[str, Any]:
    return {"addresses": [{"address": one.text, "kind": one.kind} for one in addresses], "contact": contact}
