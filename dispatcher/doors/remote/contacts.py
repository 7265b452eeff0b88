"""Contacts of a server."""

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec
from msgspec import Raw, structs

from dispatcher.api import contact_models as models
from dispatcher.client.errors import NotFound, Refused
from dispatcher.client.transport import segment
from dispatcher.domain.contacts import KEY, TEXT_MAX, Said
from dispatcher.doors.nouns import Refusal, Row, Whose
from dispatcher.doors.people import Kept, Traits
from dispatcher.doors.remote.calls import UNKNOWN, Calls, rows
from dispatcher.errors import Fault
from dispatcher.store.contacts import Mode

_PATH = "/contacts"
# What the server takes at once as it comes. It may be told to take less, and so may what stands before it.
_BYTES_MAX = 4 * 1024 * 1024
# Fewer than it reads of one body.
_VALUES_MAX = 200_000
_TOO_LARGE = 413


class _Contact(models.Contact, frozen=True, kw_only=True):
    """Its documents as they were written: reading and writing them would round their numbers."""

    attributes: Raw
    addresses: Raw


class _Page(models.Contacts, frozen=True):
    contacts: list[_Contact]  # type: ignore[assignment]  # a list that nobody writes to


class RemoteContacts:
    """Writes by importing, which may be asked for twice, and puts addresses into bodies, never into URLs."""

    def __init__(self, calls: Calls) -> None:
        self._calls = calls
        self._bytes_max = _BYTES_MAX

    async def put(self, whose: Whose, contacts: Sequence[Said], mode: Mode, _actor: str) -> list[Kept | Refusal]:
        """Write each for itself, one batch after another: who stands twice among them is written in that order."""
        await self._require(whose)
        told: list[Kept | Refusal] = []
        written = [_written(one) for one in contacts]
        while left := written[len(told) :]:
            batch = left[: _fitting(left, self._bytes_max)]
            try:
                told += await self._import(batch, mode)
            except Refused as refused:
                if refused.status != _TOO_LARGE or len(batch) == 1:
                    raise
                self._bytes_max = sum(map(len, batch)) // 2
        return told

    async def _import(self, batch: Sequence[bytes], mode: Mode) -> Iterator[Kept | Refusal]:
        body = {"contacts": [Raw(one) for one in batch], "mode": mode, "each": True}
        answer = await self._calls.post("/contact-imports", body, models.Imported)
        refused = {one.number: one for one in answer.refused}
        saved = iter(answer.contacts)
        return (
            Refusal(list(_faults(refused[number]))) if number in refused else _kept(next(saved))
            for number in range(len(batch))
        )

    async def show(self, whose: Whose, key: str) -> Row | None:
        """One by its key."""
        await self._require(whose)
        found = await self._calls.find(_of(key), _Contact) if KEY.match(key) else None
        return None if found is None else structs.asdict(found)

    async def listed(self, whose: Whose, which: Traits, after: str, count: int) -> list[Row]:
        """Those after a key."""
        await self._require(whose)
        traits = {"company": which.company, "status": which.status, "tag": which.tag}
        if any(text is not None and not 1 <= len(text) <= TEXT_MAX for text in traits.values()):
            # Nobody has it.
            return []
        asked = {**traits, "after": after or None}
        if which.address is None:
            return rows(await self._calls.pages(_PATH, _Page, lambda page: page.contacts, count, asked))
        said = {**asked, "address": which.address.text, "kind": which.address.kind}
        return rows((await self._calls.look("/contact-search", said, _Page)).contacts)

    async def delete(self, whose: Whose, key: str) -> str:
        """Delete one."""
        await self._require(whose)
        if not KEY.match(key):
            return UNKNOWN
        try:
            return (await self._calls.transport.ask("DELETE", _of(key))).read(models.DeletedContact).answer
        except NotFound:
            return UNKNOWN

    async def _require(self, whose: Whose) -> None:
        await self._calls.require(whose.tenant_id, whose.workspace_id)


def _of(key: str) -> str:
    return f"{_PATH}/{segment(key)}"


def _written(said: Said) -> bytes:
    """A contact as a request says it."""
    fields: dict[str, Any] = dict(said.fields)
    if "addresses" in fields:
        fields["addresses"] = [{"kind": one["kind"], "address": one["written"]} for one in fields["addresses"]]
    return msgspec.json.encode({"key": said.key} | fields)


def _fitting(contacts: Sequence[bytes], bytes_max: int) -> int:
    """How many of them the server takes at once: one at least, of which it says by itself what it thinks of it."""
    size = values = 0
    for number, one in enumerate(contacts[: models.IMPORT_MAX]):
        size += len(one) + 1
        values += sum(map(one.count, (b",", b":", b"["))) + 1
        if number and (size > bytes_max or values > _VALUES_MAX):
            return number
    return min(len(contacts), models.IMPORT_MAX)


def _faults(refused: models.Refused) -> Iterator[Fault]:
    """What is wrong with a contact, from the contact on."""
    for one in msgspec.convert(refused.faults, list[Fault]):
        yield Fault(one.path.replace(f"$.contacts[{refused.number}]", "$", 1), one.message)


def _kept(saved: models.SavedContact) -> Kept:
    return Kept(saved.answer, saved.version)  # type: ignore[arg-type]  # of what was not refused
