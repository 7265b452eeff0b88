"""The outbox as an application sees it: rows that it inserts, and what it can read of them later."""

from collections.abc import Sequence
from itertools import count
from typing import Any

from tests.support.scene import Connection
from tests.support.waits import until

_numbers = count(1)

# What makes a program quick in a test: it takes over from the dead within a second.
QUICK = {
    "DISPATCHER_INSTANCE__HEARTBEAT_SECONDS": "0.2",
    "DISPATCHER_INSTANCE__LEASE_SECONDS": "1.0",
    "DISPATCHER_INSTANCE__LICENCE_SECONDS": "0.8",
}
PATIENT = {"DISPATCHER_CLAIM__POLL_SECONDS": "600", "DISPATCHER_CLAIM__POLL_JITTER": "0"}


PHONES = frozenset({"sms", "whatsapp", "voice"})


def recipient_of(channel: str) -> str:
    """A recipient that the channel's provider takes."""
    return "+4917012345" if channel in PHONES else "ann@example.org"


class Outbox:
    """Writes through the contract's view, and reads what became of it."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection

    async def put(self, channel: str = "sms", body: str = "hello", **columns: object) -> int:
        """One delivery, with a key of its own unless one is given."""
        row: dict[str, object] = {
            "idempotency_key": f"key-{next(_numbers)}",
            "channel": channel,
            "recipient": recipient_of(channel),
            "template": f'{{"body": "{body}"}}',
        } | columns
        places = ", ".join(f"${number}" for number in range(1, len(row) + 1))
        insert = f"INSERT INTO dispatcher.channel_outbox ({', '.join(row)}) VALUES ({places}) RETURNING id"
        return int(await self.connection.fetchval(insert, *row.values()))

    async def fill(self, number: int, channel: str = "sms") -> list[int]:
        """Many deliveries in one statement."""
        rows = await self.connection.fetch(
            """INSERT INTO dispatcher.deliveries (idempotency_key, channel, recipient, template)
               SELECT $2 || '-' || $3 || '-' || n, $2, $4, '{"body": "x"}'
                 FROM generate_series(1, $1::int) AS n RETURNING id""",
            number,
            channel,
            str(next(_numbers)),
            recipient_of(channel),
        )
        return [row["id"] for row in rows]

    async def row(self, delivery_id: int) -> Any:
        """The delivery as the contract shows it."""
        (row,) = await self.connection.fetch("SELECT * FROM dispatcher.channel_outbox WHERE id = $1", delivery_id)
        return row

    async def life(self, delivery_id: int) -> str:
        """Where it stands, by name."""
        return str(
            await self.connection.fetchval("SELECT life FROM dispatcher.delivery_life WHERE id = $1", delivery_id)
        )

    async def count(self, life: str, channel: str | None = None) -> int:
        """How many stand there."""
        counted = "SELECT count(*) FROM dispatcher.delivery_life WHERE life = $1 AND ($2::text IS NULL OR channel = $2)"
        return int(await self.connection.fetchval(counted, life, channel))

    async def captured(self, *ids: int) -> list[int]:
        """The deliveries that the capture provider was given, in order; of these where some are named."""
        rows = await self.connection.fetch("SELECT delivery_id FROM dispatcher.captured_messages ORDER BY id")
        return [row["delivery_id"] for row in rows if not ids or row["delivery_id"] in ids]

    async def attempts(self, delivery_id: int) -> list[Any]:
        """The earlier attempts of a delivery."""
        return await self.connection.fetch(
            "SELECT * FROM dispatcher.delivery_attempts WHERE delivery_id = $1 ORDER BY attempt", delivery_id
        )

    async def until_life(self, delivery_id: int, *lives: str) -> str:
        """Wait until it stands there."""

        async def there() -> str | None:
            life = await self.life(delivery_id)
            return life if life in lives else None

        return str(await until(there, f"delivery {delivery_id} is {' or '.join(lives)}"))

    async def until_count(self, number: int, life: str, channel: str | None = None) -> None:
        """Wait until at least so many stand there."""

        async def enough() -> bool:
            return await self.count(life, channel) >= number

        await until(enough, f"{number} are {life}")

    async def nothing_in_flight(self) -> bool:
        """Whether nothing is claimed or being sent, and no claim is noted but those of held ones."""
        return await self.count("claimed") == await self.count("sending") == 0

    async def instances(self) -> int:
        """How many are registered."""
        return int(await self.connection.fetchval("SELECT count(*) FROM dispatcher.instances"))


def hanging(*channels: str) -> dict[str, str]:
    """These channels never answer."""
    return {f"DISPATCHER_CHANNELS__{channel.upper()}__FAULTS__HANG": "1" for channel in channels}


def faults(channel: str, **shares: object) -> dict[str, str]:
    """How one channel misbehaves."""
    return {
        f"DISPATCHER_CHANNELS__{channel.upper()}__FAULTS__{name.upper()}": str(share) for name, share in shares.items()
    }


def once(ids: Sequence[int]) -> bool:
    """Whether none is there twice."""
    return len(ids) == len(set(ids))
