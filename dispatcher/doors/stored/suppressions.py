"""Suppressions and topics of a database."""

from collections.abc import Callable, Iterable, Sequence

from dispatcher.config import Config
from dispatcher.domain.addresses import Address
from dispatcher.domain.life import LANES
from dispatcher.domain.suppression import Known, Suppression, barred, unknown_channel
from dispatcher.doors.nouns import Checked, Meant, Preference, Released, Row
from dispatcher.store import barring
from dispatcher.store import suppressions as store
from dispatcher.store.barring import Candidate
from dispatcher.store.database import Database
from dispatcher.store.suppressions import Behind, Entry

DEFAULT = "default"
TOPICS_MAX = 10_000
_FIRST = ("", "", "")


class StoredSuppressions:
    """Skips what is queued by itself: no dispatcher need be running."""

    def __init__(self, database: Database, config: Callable[[], Config]) -> None:
        self._database = database
        self._config = config

    async def listed(
        self, tenant_id: str | None, behind: Behind, count: int, *, source: str | None, kind: str | None
    ) -> list[Row]:
        """What stands on the list."""
        return await store.listed(self._database, tenant_id or DEFAULT, behind, count, source=source, kind=kind)

    async def add(self, tenant_id: str | None, actor: str, entries: Sequence[Entry]) -> None:
        """Put addresses on the list."""
        await store.add(self._database, tenant_id or DEFAULT, actor, entries)

    async def faults(self, _tenant_id: str | None, entries: Sequence[Entry]) -> list[tuple[int, str]]:
        """What would be refused."""
        channels = self._config().channels
        found = ((place, unknown_channel(one.channel, channels)) for place, one in enumerate(entries))
        return [(place, f"channel: {words}") for place, words in found if words is not None]

    async def add_all(self, tenant_id: str | None, actor: str, pages: Iterable[Sequence[Entry]]) -> None:
        """Put many on the list."""
        await store.add_all(self._database, tenant_id or DEFAULT, actor, pages)

    async def catch_up(self, count: int) -> int:
        """Skip what is queued."""
        return await barring.catch_up(self._database, count)

    async def release(
        self, tenant_id: str | None, addresses: Sequence[Address], actor: str, reason: str, which: Released
    ) -> dict[Address, list[str]]:
        """Take addresses off the list."""
        said = addresses, actor, reason
        gone = await store.release(
            self._database, tenant_id or DEFAULT, *said, source=which.source, channel=which.channel
        )
        return {
            one: sorted({row["source"] for row in gone if (row["kind"], row["address"]) == (one.kind, one.text)})
            for one in addresses
        }

    async def check(self, tenant_id: str | None, meant: Meant) -> Checked:
        """Whether it would be sent."""
        tenant, address = tenant_id or DEFAULT, meant.address
        entries = await store.entries(self._database, tenant, address)
        topics = await store.preferences(self._database, tenant, _FIRST, TOPICS_MAX, of=address)
        known = Known(
            [Suppression(row["channel"], row["source"], row["reason"]) for row in entries],
            {row["topic"] for row in topics if not row["subscribed"]},
        )
        would_be = Candidate(0, tenant, meant.channel or "", LANES[meant.lane], address.text, meant.topic)
        said = [{name: row[name] for name in ("topic", "subscribed", "changed_at", "actor")} for row in topics]
        return Checked(barred(would_be, known), entries, said, await store.log(self._database, tenant, address))

    async def preferences(
        self, tenant_id: str | None, behind: Behind, count: int, *, topic: str | None, of: Address | None
    ) -> list[Row]:
        """What addresses said about topics."""
        return await store.preferences(self._database, tenant_id or DEFAULT, behind, count, topic=topic, of=of)

    async def prefer(
        self, tenant_id: str | None, addresses: Sequence[Address], actor: str, reason: str, preference: Preference
    ) -> None:
        """Say whether addresses want a topic."""
        said = preference.topic, preference.subscribed, actor, reason
        await store.prefer(self._database, tenant_id or DEFAULT, addresses, *said)
