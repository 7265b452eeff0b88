"""Held deliveries and dead letters of a server: a request for each of them, so that what was listed is meant."""

from collections.abc import Sequence

from msgspec import structs

from dispatcher.api import models
from dispatcher.doors.nouns import HeldFilter, Row, Settlement
from dispatcher.doors.remote.calls import UNKNOWN, Calls, rows
from dispatcher.store.dead import Filter, Kind, Letter, Verb
from dispatcher.store.settling import Standing

# What an id can be at most.
ID_MAX = 2**63 - 1
_MANY = {"run": "runs", "delivery": "deliveries"}


class RemoteHeld:
    """Asks about held deliveries by their ids."""

    def __init__(self, calls: Calls) -> None:
        self._calls = calls

    async def listed(self, which: HeldFilter, count: int) -> list[Row]:
        """The longest held first."""
        await self._calls.require(which.tenant_id)
        query = {"channel": which.channel}
        return rows(await self._calls.pages("/held", models.HeldDeliveries, lambda page: page.held, count, query))

    async def count(self, _which: HeldFilter) -> int | None:
        """Nobody counts them for a list."""
        return None

    async def standing(self, ids: Sequence[int]) -> dict[int, Standing]:
        """Where these stand now."""
        found: dict[int, Standing] = {}
        for one in ids:
            now = await self._calls.find(f"/held/{one}", models.Standing)
            if now is not None:
                found[one] = Standing(**{name: value for name, value in structs.asdict(now).items() if name != "id"})
        return found

    async def settle(self, ids: Sequence[int], settlement: Settlement) -> dict[int, str]:
        """Settle them."""
        said = {
            "settle_as": settlement.settle_as,
            "reason": settlement.reason,
            "provider_message_id": settlement.message_id,
        }
        return await self._calls.each(ids, lambda one: self._calls.act(f"/held/{one}/resolve", said))


class RemoteDeadLetters:
    """Asks about dead letters by their ids."""

    def __init__(self, calls: Calls) -> None:
        self._calls = calls

    async def listed(self, meant: Filter, kind: Kind, below: int, count: int) -> list[Row]:
        """The newest of a kind below an id."""
        await self._calls.require(meant.tenant_id, meant.workspace_id)
        query = {
            "name": meant.name,
            "channel": meant.channel,
            "error": meant.error,
            "since": meant.since,
            "until": meant.until,
            "before": below,
        }
        path = f"/dead-letters/{_MANY[kind]}"
        return rows(await self._calls.pages(path, models.Letters, lambda page: page.dead_letters, count, query))

    async def is_dead(self, letter: Letter) -> bool:
        """Whether it is one: the first that is listed below the id behind its own."""
        below = min(letter.id + 1, ID_MAX)
        found = await self.listed(Filter(), letter.kind, below, 1)
        return [row["id"] for row in found] == [letter.id]

    async def act(self, verb: Verb, kind: Kind, ids: Sequence[int], reason: str, _actor: str) -> dict[int, str]:
        """Replay or discard them."""
        path = f"/dead-letters/{_MANY[kind]}"
        answers = await self._calls.each(ids, lambda one: self._calls.act(f"{path}/{one}/{verb}", {"reason": reason}))
        return {one: answer for one, answer in answers.items() if answer != UNKNOWN}
