"""The cost of a hung channel for another one: its throughput beside the hung one, against its throughput alone."""

import time

from bench import outbox
from bench.measure import Measure, beside, median
from bench.process import Dispatcher, dispatching
from bench.server import Connection, Server

DELIVERIES = 100_000
ROUNDS = 5

# In each lane of the hung channel: more than a lane has room for, so that some always wait.
HUNG_PER_LANE = 10_000
LANES = (0, 1, 2)
HANG_SECONDS_MAX = 60.0
# The first deliveries of a process open connections, prepare statements and compile the template.
WARM_UP = 2_000
SETTINGS = {
    "CHANNELS__SMS__PROVIDER": "blackhole",
    "CHANNELS__SMS__MARKED_MAX": "2000",
    "CHANNELS__EMAIL__PROVIDER": "blackhole",
    "CHANNELS__EMAIL__FAULTS__HANG": "1",
    # Longer than any round: it hangs, and does not time out.
    "CHANNELS__EMAIL__CALL_SECONDS_MAX": "3600",
    # What hangs is given up at once when the round is over.
    "INSTANCE__GRACE_SECONDS": "0.2",
}

METHOD = (
    "{deliveries} deliveries of channel A inserted at once into a running process, from the commit to the last flush; "
    "{rounds} rounds in turn, medians. Beside it channel B hangs in every call, all its slots marked and its lanes "
    "full, of {hung} due. Reference: the same process without B's deliveries. More is better; limit 0.9."
)


async def run(server: Server, deliveries: int, rounds: int) -> list[Measure]:
    """Measure with and without, alternately."""
    hung = min(HUNG_PER_LANE, deliveries)
    pairs = [(await _rate(server, deliveries, hung), await _rate(server, deliveries, 0)) for _ in range(rounds)]
    beside_hung, alone = (median(side) for side in zip(*pairs, strict=True))
    method = METHOD.format(deliveries=deliveries, rounds=rounds, hung=hung * len(LANES))
    return [beside("isolation", "deliveries/s", beside_hung, "alone", alone, method)]


async def _rate(server: Server, deliveries: int, hung: int) -> float:
    async with outbox.outbox(server) as (url, connection):
        await outbox.fill(connection, "sms", WARM_UP)
        for lane in LANES if hung else ():
            await outbox.fill(connection, "email", hung, lane=lane)
        await outbox.settle(connection)
        async with dispatching(url, **SETTINGS) as process:
            await process.drained(connection, "sms")
            if hung:
                await _hanging(process, connection)
            await outbox.fill(connection, "sms", deliveries, due_seconds=-1)
            began = time.time()
            await process.drained(connection, "sms")
        await outbox.require_sent(connection, "sms", deliveries + WARM_UP)
        ended = await connection.fetchval(
            "SELECT max(finished_at) FROM dispatcher.delivery_state WHERE channel = 'sms'"
        )
    return deliveries / float(ended.timestamp() - began)


async def _hanging(process: Dispatcher, connection: Connection) -> None:
    """B has marked all that it may and claimed all that it can: two looks half a second apart find the same."""
    seen: list[int] = []

    async def holds() -> bool:
        [(claimed, marked)] = await connection.fetch(
            "SELECT count(*) FILTER (WHERE token IS NOT NULL), count(*) FILTER (WHERE marked) "
            "FROM dispatcher.delivery_state WHERE channel = 'email'"
        )
        seen.append(claimed)
        return marked > 0 and seen[-2:] == [claimed, claimed]

    await process.until(holds, "channel B hangs", HANG_SECONDS_MAX, step_seconds=0.5)
