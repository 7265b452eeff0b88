"""A scene with caps: deliveries to named people, marked under the caps of their workspace."""

from collections.abc import Sequence
from itertools import count
from typing import Any

from dispatcher.base.clock import boottime
from dispatcher.base.metrics import Metrics
from dispatcher.base.workspace import Workspace
from dispatcher.db.database import Database
from dispatcher.engine.rules.life import Claimed, Lane, Resend
from dispatcher.engine.store import marks
from dispatcher.features.caps import store
from dispatcher.features.caps.worker import CapReader
from dispatcher.features.deliveries import store as deliveries
from dispatcher.features.deliveries.store import New
from tests.support.scene import HOLD, Scene

HERE = Workspace()
_numbers = count(1)


class Capped:
    """A replica's scene, and the caps as that replica knows them."""

    def __init__(self, scene: Scene) -> None:
        self.scene = scene
        self.metrics = Metrics()
        self.reader = CapReader(scene.database, self.metrics)

    @classmethod
    async def open(cls, database: Database) -> "Capped":
        """Another replica."""
        return cls(await Scene.open(database))

    async def cap(
        self, messages: int = 2, seconds: float = 86_400.0, name: str = "daily", here: Workspace = HERE, **fields: Any
    ) -> str:
        """Save a cap, and know it."""
        sets = fields.get("channels", ["sms"]), fields.get("topics", [])
        answer = await store.put(self.scene.database, here, store.Definition(name, messages, seconds, *sets), "ann")
        await self.reader.run_once()
        return answer

    async def write(self, *people: str, **fields: Any) -> list[int]:
        """Deliveries that are due, one to each of these."""
        asked = {"channel": "sms", "template": '{"body": "x"}'} | fields
        batch = [New(idempotency_key=f"capped-{next(_numbers)}", recipient=one, **asked) for one in people]
        return [one.id for one in await deliveries.insert(self.scene.database, batch)]

    async def claim(
        self, lane: Lane = Lane.NORMAL, resend: Resend = HOLD, channel: str = "sms", wanted: int = 1_000
    ) -> list[Claimed]:
        """Claim what is due, in the order of ids."""
        await self.scene.due_now()
        return sorted(await self.scene.claim(wanted, channel, lane, resend), key=lambda item: item.id)

    async def mark(self, items: Sequence[Claimed]) -> list[int]:
        """Mark; answers the ids of those that were marked, in their order."""
        if not items:
            return []
        scene = self.scene
        given = scene.database, scene.epoch, items, boottime, scene.licence_seconds, scene.provider
        _, attempts = await marks.mark(*given, limited=self.reader.limited(items))
        return sorted(attempts)

    async def send(self, *people: str, lane: Lane = Lane.NORMAL, **fields: Any) -> list[int]:
        """Write, claim and mark; answers the numbers, from 0, of those that were marked."""
        ids = await self.write(*people, lane=lane, **fields)
        items = await self.claim(lane=lane, channel=fields.get("channel", "sms"))
        marked = await self.mark(items)
        return [ids.index(one) for one in marked if one in ids]

    async def age(self, seconds: float) -> None:
        """Let so much time pass for what was counted."""
        await self.scene.database.fetch(
            """UPDATE dispatcher.cap_counters SET marked_at =
                   ARRAY(SELECT at - make_interval(secs => $1) FROM unnest(marked_at) AS at)""",
            seconds,
        )

    async def counters(self) -> list[list[int]]:
        """The deliveries of each counter."""
        rows = await self.scene.database.fetch("SELECT deliveries FROM dispatcher.cap_counters ORDER BY cap_id, person")
        return [list(row[0]) for row in rows]
