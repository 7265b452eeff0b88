"""A campaign to a million contacts from its deployment to its end, beside the drain of deliveries that lie there."""

import asyncio

from msgspec import Struct

from bench.cases import throughput
from bench.cases.campaigns import people
from bench.measure import Measure, beside, median
from bench.process import Dispatcher, dispatching
from bench.server import Server

DELIVERIES = people.CONTACTS
ROUNDS = 1

RSS_MEGABYTES_MAX = 30.0
# The reference has its rate with fewer.
DRAINED_MAX = 200_000
# Before the campaign the process sends this many, so that what it needs for its first ones is not counted as growth.
WARM_UP_SHARE = 0.02
STEP_SECONDS = 0.2

METHOD = (
    "A campaign to {contacts} contacts, an SMS with two attributes of each, blackhole (marked_max 2000), one process, "
    "{rounds} rounds in turn with the reference, medians; from the begin of the deployment to `completed`. Reference: "
    "the case `throughput` of {drained} on the same server. More is better; limit 0.4."
)
METHOD_RSS = (
    "RSS at its largest over the campaign, less RSS after the first {share:.0%} of it. Less is better; limit 30 MB."
)
METHOD_CPU = "CPU of {whose}. Less is better. As `campaign`."


class Sent(Struct, frozen=True):
    """One campaign: its rate, what a delivery cost, and how the process grew."""

    rate: float
    worker_microseconds: float
    postgres_microseconds: float
    growth_megabytes: float


async def run(server: Server, deliveries: int, rounds: int) -> list[Measure]:
    """Measure the drain and the campaign alternately, the drain first and last: noise hits both."""
    drained = min(DRAINED_MAX, deliveries)
    sent: list[Sent] = []
    drains = [await throughput.dispatcher(server, drained, throughput.SETTINGS)]
    for _ in range(rounds):
        sent.append(await _campaign(server, deliveries))
        drains.append(await throughput.dispatcher(server, drained, throughput.SETTINGS))
    method = METHOD.format(contacts=deliveries, rounds=rounds, drained=drained)
    lines = (
        ("campaign", "deliveries/s", "rate", method),
        ("campaign.cpu_worker", "us/delivery", "worker_microseconds", METHOD_CPU.format(whose="the worker")),
        ("campaign.cpu_postgres", "us/delivery", "postgres_microseconds", METHOD_CPU.format(whose="Postgres")),
    )
    measures = [
        beside(
            case,
            unit,
            median(getattr(one, field) for one in sent),
            "throughput",
            median(getattr(one, field) for one in drains),
            how,
        )
        for case, unit, field, how in lines
    ]
    growth = max(one.growth_megabytes for one in sent)
    how = METHOD_RSS.format(share=WARM_UP_SHARE)
    return [*measures, beside("campaign.rss", "MB growth", growth, "limit", RSS_MEGABYTES_MAX, how)]


async def _campaign(server: Server, contacts: int) -> Sent:
    async with people.furnished(server, contacts) as (url, connection):
        async with dispatching(url, **people.SETTINGS) as process:
            await process.started(connection)
            worker, postgres = process.cpu_seconds(), server.cpu_seconds()
            run_id = await people.deploy(connection, people.EVERYBODY)
            await people.begun(process, connection, run_id, int(contacts * WARM_UP_SHARE))
            warm = process.rss_megabytes()
            watching = asyncio.create_task(_largest(process))
            seconds = await people.completed(process, connection, run_id)
            watching.cancel()
            growth = max(0.0, await watching - warm)
            worker, postgres = process.cpu_seconds() - worker, server.cpu_seconds() - postgres
        await people.require_sent(connection, contacts)
    return Sent(contacts / seconds, worker / contacts * 1e6, postgres / contacts * 1e6, growth)


async def _largest(process: Dispatcher) -> float:
    """The largest RSS until it is told to stop, in megabytes."""
    largest = process.rss_megabytes()
    try:
        while True:
            await asyncio.sleep(STEP_SECONDS)
            largest = max(largest, process.rss_megabytes())
    except asyncio.CancelledError:
        return max(largest, process.rss_megabytes())
