"""A scene: one epoch on a test's database, deliveries for it, and the store's verbs in short."""

import random
from collections.abc import Sequence
from itertools import count
from typing import TYPE_CHECKING, Any

import asyncpg

from channels.contract import Licence
from dispatcher.base.clock import boottime
from dispatcher.db.database import Database
from dispatcher.engine.rules.life import POISON_STEPS, Claimed, Lane, Outcome, PoisonStep, Resend, Result
from dispatcher.engine.store import claims, flushes, instances, marks
from dispatcher.engine.streams import Tokens
from dispatcher.features.deliveries import store as deliveries
from dispatcher.features.deliveries.store import New

if TYPE_CHECKING:
    Connection = asyncpg.Connection[asyncpg.Record]
else:
    Connection = asyncpg.Connection

# What becomes of an unknown attempt: it is held, or sent again because the channel may send twice.
HOLD = Resend()
RESEND = Resend(by="at_least_once")

_numbers = count(1)
HOLD = Resend()
RESEND = Resend("at_least_once")


class Scene:
    """An epoch that claims, marks and flushes by hand."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self.epoch = random.SystemRandom().randrange(1, 1 << Tokens.EPOCH_BITS)
        self.tokens = Tokens(self.epoch)
        self.licence_seconds = 60.0
        # For which it marks: as that of a pipeline of the tests.
        self.provider = "capture"

    @classmethod
    async def open(cls, database: Database) -> "Scene":
        """A scene whose epoch is durable."""
        scene = cls(database)
        await instances.join(database, instances.Beat(scene.epoch, 0, 10.0, "scene", ""), "0")
        return scene

    async def write(
        self, deliveries_count: int = 1, channel: str = "sms", body: str = "hello", **fields: Any
    ) -> list[int]:
        """Deliveries that are due, each with a key of its own."""
        batch = [
            New(
                idempotency_key=f"key-{next(_numbers)}",
                channel=channel,
                recipient="+4917012345",
                template=f'{{"body": "{body}"}}',
                **fields,
            )
            for _ in range(deliveries_count)
        ]
        return [written.id for written in await deliveries.insert(self.database, batch)]

    async def claim(
        self, wanted: int = 100, channel: str = "sms", lane: Lane = Lane.NORMAL, resend: Resend = HOLD
    ) -> list[Claimed]:
        """Claim under a token of its own."""
        return await self.claim_as(self.tokens.issue(), wanted, channel, lane, resend)

    async def claim_as(
        self,
        token: int,
        wanted: int = 100,
        channel: str = "sms",
        lane: Lane = Lane.NORMAL,
        resend: Resend = HOLD,
    ) -> list[Claimed]:
        """Claim under this token."""
        return await claims.claim(self.database, self.epoch, claims.Wanted(channel, lane, wanted, token, resend, 60.0))

    async def claim_recovered(self, step: PoisonStep = POISON_STEPS[0], channel: str = "sms") -> list[Claimed]:
        """Claim those whose owners have died."""
        wanted = claims.Wanted(channel, Lane.NORMAL, 100, self.tokens.issue(), HOLD, 0.0)
        return await claims.claim_recovered(self.database, self.epoch, wanted, step)

    async def mark(self, items: Sequence[Claimed]) -> dict[int, int]:
        """Mark; answers the attempt of each that was marked."""
        return (await self.licensed(items))[1]

    async def licensed(self, items: Sequence[Claimed]) -> tuple[Licence, dict[int, int]]:
        """Mark; answers the licence as well."""
        return await marks.mark(self.database, self.epoch, items, boottime, self.licence_seconds, self.provider)

    async def marked(self, deliveries_count: int = 1, resend: Resend = HOLD, **fields: Any) -> list[Claimed]:
        """Deliveries that were written, claimed and marked."""
        await self.write(deliveries_count, **fields)
        items = await self.claim(resend=resend)
        assert len(await self.mark(items)) == deliveries_count
        return items

    async def flush(self, *results: Result, spent: Sequence[int] = ()) -> list[Result]:
        """Flush; answers what was fenced."""
        return await flushes.flush(self.database, results, spent)

    async def late(self, item: Claimed, outcome: Outcome) -> str:
        """Hand in a result whose claim is not ours any more."""
        return await flushes.keep_evidence(self.database, item, outcome)

    async def fence(self) -> bool:
        """Take this epoch away."""
        return await instances.fence(self.database, self.epoch, 2_000)

    async def die(self) -> instances.Recovered:
        """Fence and recover, as another replica does with one that fell silent."""
        assert await self.fence()
        return await instances.recover(self.database, 100)

    async def row(self, delivery_id: int) -> Any:
        """The state row."""
        rows = await self.database.fetch("SELECT * FROM dispatcher.delivery_state WHERE id = $1", delivery_id)
        return rows[0]

    async def life(self, delivery_id: int) -> str:
        """Where it stands, by name."""
        return str(await self.value("SELECT life FROM dispatcher.delivery_life WHERE id = $1", delivery_id))

    async def lives(self, ids: Sequence[int]) -> list[str]:
        """Where they stand, in the order of the ids."""
        return [await self.life(one) for one in ids]

    async def value(self, query: str, *arguments: object) -> Any:
        """The first column of the first row."""
        return await self.database.value(query, *arguments)

    async def due_now(self) -> None:
        """Let whatever waits for its time be due, as if that had passed."""
        await self.database.fetch("UPDATE dispatcher.delivery_state SET run_at = now() - interval '1 s' WHERE ready")
