"""The cost of the mark: the throughput with it, beside a build that calls providers without having marked anything."""

from bench import outbox
from bench.cases.protocol.build import Marks, building
from bench.measure import Measure, beside, median
from bench.server import Server

DELIVERIES = 100_000
ROUNDS = 5

SIZES = {100: "protocol_cost", 20: "protocol_cost.at_20"}
LIMITS = {100: "limit 0.85", 20: "no limit: reported beside it"}
SETTINGS = {"CHANNELS__SMS__PROVIDER": "blackhole", "CHANNELS__SMS__MARKED_MAX": "2000"}

METHOD = (
    "{deliveries} pre-filled, {rounds} rounds in turn, medians; from the start of the instance to the last flush. Both "
    "sides claim, render, call blackhole and flush in portions of {size} at most; the reference mints its licences "
    "without the mark's statement and its commit. More is better; {limit}."
)


async def run(server: Server, deliveries: int, rounds: int) -> list[Measure]:
    """Measure both sizes, each with and without alternately."""
    measures = []
    for size, case in SIZES.items():
        pairs = [
            (await _rate(server, deliveries, size, "mark"), await _rate(server, deliveries, size, "none"))
            for _ in range(rounds)
        ]
        marked, unmarked = (median(side) for side in zip(*pairs, strict=True))
        method = METHOD.format(deliveries=deliveries, rounds=rounds, size=size, limit=LIMITS[size])
        measures.append(beside(case, "deliveries/s", marked, "without the mark", unmarked, method))
    return measures


async def _rate(server: Server, deliveries: int, size: int, marks: Marks) -> float:
    async with outbox.outbox(server) as (url, connection):
        await outbox.fill(connection, "sms", deliveries)
        await outbox.settle(connection)
        async with building(url, SETTINGS, size, marks) as build:
            await build.started(connection)
            began = await connection.fetchval("SELECT min(started_at) FROM dispatcher.instances")
            await build.drained(connection, "sms")
        await outbox.require_sent(connection, "sms", deliveries)
        ended = await connection.fetchval("SELECT max(finished_at) FROM dispatcher.delivery_state")
    return deliveries / float((ended - began).total_seconds())
