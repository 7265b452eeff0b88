"""Suppressions and topics of a server, whose dispatchers skip what is queued."""

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import msgspec
from msgspec import Raw, Struct, structs

from dispatcher.api import suppression_models as models
from dispatcher.api.cursors import cursor_after_texts
from dispatcher.client.errors import Refused
from dispatcher.domain.addresses import Address
from dispatcher.doors.nouns import Checked, Meant, Preference, Released, Row
from dispatcher.doors.remote.calls import Calls, batches, rows
from dispatcher.errors import Fault
from dispatcher.store.suppressions import Behind, Entry

_PATH = "/suppressions"
# A line of a body, and which of its fields.
_PLACE = re.compile(r"\$\.suppressions\[(\d+)\]\.?(.*)")


class RemoteSuppressions:
    """Puts addresses into bodies, and never into URLs, which others keep: where a list begins is said as a cursor."""

    def __init__(self, calls: Calls) -> None:
        self._calls = calls

    async def listed(
        self, tenant_id: str | None, behind: Behind, count: int, *, source: str | None, kind: str | None
    ) -> list[Row]:
        """What stands on the list."""
        await self._calls.require(tenant_id)
        query = {"source": source, "kind": kind, "cursor": _cursor("suppressions", behind)}
        found = await self._calls.pages(_PATH, models.Suppressions, lambda page: page.suppressions, count, query)
        return await self._of_tenant(found)

    async def add(self, tenant_id: str | None, _actor: str, entries: Sequence[Entry]) -> None:
        """Put addresses on the list."""
        await self._calls.require(tenant_id)
        for body in _bodies(entries):
            await self._calls.post(_PATH, body, models.AddedSuppressions)

    async def faults(self, tenant_id: str | None, entries: Sequence[Entry]) -> list[tuple[int, str]]:
        """What would be refused: the server is asked to look at them, and to write nothing."""
        await self._calls.require(tenant_id)
        found: list[tuple[int, str]] = []
        first = 0
        for body in _bodies(entries):
            count = len(body["suppressions"])
            try:
                await self._calls.post(_PATH, body | {"check": True}, models.AddedSuppressions)
            except Refused as refused:
                placed = [_placed(fault, first) for fault in refused.faults]
                if not placed or None in placed:
                    raise
                found += [one for one in placed if one is not None]
                if refused.more_faults:
                    found.append((first + count - 1, f"and {refused.more_faults:,} more up to this line"))
            first += count
        return found

    async def add_all(self, tenant_id: str | None, actor: str, pages: Iterable[Sequence[Entry]]) -> None:
        """Put many on the list: who adds an entry again changes nothing."""
        for page in pages:
            await self.add(tenant_id, actor, page)

    async def catch_up(self, _count: int) -> int:
        """It is done there."""
        return 0

    async def release(
        self, tenant_id: str | None, addresses: Sequence[Address], _actor: str, reason: str, which: Released
    ) -> dict[Address, list[str]]:
        """Take addresses off the list, those of a kind at once."""
        await self._calls.require(tenant_id)
        gone: dict[Address, list[str]] = {}
        for kind, texts in _by_kind(addresses).items():
            said = {"addresses": texts, "kind": kind, "reason": reason, **structs.asdict(which)}
            done = await self._calls.post(f"{_PATH}/remove", said, models.RemovedSuppressions)
            gone |= {Address(kind, one.address): one.removed for one in done.suppressions}
        return gone

    async def check(self, tenant_id: str | None, meant: Meant) -> Checked:
        """Whether it would be sent."""
        await self._calls.require(tenant_id)
        said = structs.asdict(meant) | {"address": meant.address.text, "kind": meant.address.kind}
        found = await self._calls.look(f"{_PATH}/check", said, models.CheckedAddress)
        return Checked(found.reason, rows(found.entries), rows(found.topics), rows(found.log))

    async def preferences(
        self, tenant_id: str | None, behind: Behind, count: int, *, topic: str | None, of: Address | None
    ) -> list[Row]:
        """What addresses said about topics."""
        await self._calls.require(tenant_id)
        # What one address said stands together, in the order of addresses.
        start = behind if of is None else max(behind, (of.kind, of.text, ""))
        query = {"topic": topic, "cursor": _cursor("topics", start)}
        found = await self._calls.pages("/topics", models.Preferences, lambda page: page.preferences, count, query)
        return await self._of_tenant(
            [one for one in found if of is None or (of.kind, of.text) == (one.kind, one.address)]
        )

    async def _of_tenant(self, found: Sequence[Struct]) -> list[Row]:
        own = (await self._calls.own()).tenant_id
        return [{"tenant_id": own, **row} for row in rows(found)]

    async def prefer(
        self, tenant_id: str | None, addresses: Sequence[Address], _actor: str, reason: str, preference: Preference
    ) -> None:
        """Say whether addresses want a topic."""
        await self._calls.require(tenant_id)
        verb = "subscribe" if preference.subscribed else "unsubscribe"
        for kind, texts in _by_kind(addresses).items():
            said = {"topic": preference.topic, "addresses": texts, "kind": kind, "reason": reason}
            await self._calls.post(f"/topics/{verb}", said, models.PreferredTopics)


def _cursor(noun: str, behind: Behind) -> str | None:
    return cursor_after_texts(noun, *behind) if any(behind) else None


def _bodies(entries: Sequence[Entry]) -> Iterator[dict[str, Any]]:
    """What is posted of entries, in their order."""
    common = {"source": entries[0].source, "reason": entries[0].reason}
    for batch in batches([_said(one, common) for one in entries], models.ADDRESSES_MAX):
        yield {"suppressions": [Raw(one) for one in batch], **common}


def _said(entry: Entry, common: dict[str, str]) -> bytes:
    said = {
        "address": entry.address.text,
        "kind": entry.address.kind,
        "channel": entry.channel or None,
        "expires_at": entry.expires_at,
        "source": entry.source,
        "reason": entry.reason,
    }
    return msgspec.json.encode({name: value for name, value in said.items() if value not in (None, common.get(name))})


def _placed(fault: Fault, first: int) -> tuple[int, str] | None:
    """A fault of a body by its place among all entries; None where it is about no entry."""
    match = _PLACE.fullmatch(fault.path)
    if match is None:
        return None
    return first + int(match[1]), f"{match[2]}: {fault.message}" if match[2] else fault.message


def _by_kind(addresses: Sequence[Address]) -> dict[Any, list[str]]:
    kinds: dict[Any, list[str]] = {}
    for one in addresses:
        kinds.setdefault(one.kind, []).append(one.text)
    return kinds
