"""The cost of the mark on a real channel: order mails by SMTP with it, beside the build without it."""

from typing import NamedTuple

from bench import order, outbox
from bench.cases.email.throughput import CONNECTIONS, SETTINGS
from bench.cases.protocol.build import Marks, building
from bench.measure import Measure, beside, median
from bench.server import Server
from bench.sink import sink

DELIVERIES = 30_000
ROUNDS = 5

# Both gather what the sender gathers.
UNBOUNDED = 10_000

METHOD = (
    "{deliveries} order mails of a stored template, {rounds} rounds in turn; both sides claim, render, "
    "compose, send to smtp-sink on {connections} connections and flush. The reference mints its licences without the "
    "mark's statement and its commit. "
)
RATE = "Medians from the start of the instance to the last flush. More is better; limit 0.90."
# Other work on the machine only ever adds to it.
CPU = "The least CPU of the process and of Postgres together; smtp-sink is not in it. Less is better; no limit."


class Drain(NamedTuple):
    """One drain: its rate, and the CPU of a delivery."""

    rate: float
    microseconds: float


async def run(server: Server, deliveries: int, rounds: int) -> list[Measure]:
    """Measure both sides alternately."""
    marked, unmarked = list[Drain](), list[Drain]()
    for _ in range(rounds):
        marked.append(await _drain(server, deliveries, "mark"))
        unmarked.append(await _drain(server, deliveries, "none"))
    method = METHOD.format(deliveries=deliveries, rounds=rounds, connections=CONNECTIONS)
    rate, bare_rate = (median(one.rate for one in side) for side in (marked, unmarked))
    cpu, bare_cpu = (min(one.microseconds for one in side) for side in (marked, unmarked))
    return [
        beside("protocol_cost.email", "messages/s", rate, "without the mark", bare_rate, method + RATE),
        beside("protocol_cost.email.cpu", "us/message", cpu, "without the mark", bare_cpu, method + CPU),
    ]


async def _drain(server: Server, deliveries: int, marks: Marks) -> Drain:
    with sink() as port:
        settings = SETTINGS | {
            "CHANNELS__EMAIL__OPTIONS__PORT": str(port),
            "CHANNELS__EMAIL__OPTIONS__CONNECTIONS": str(CONNECTIONS),
        }
        async with outbox.outbox(server) as (url, connection):
            await order.fill(connection, deliveries)
            await outbox.settle(connection)
            async with building(url, settings, UNBOUNDED, marks) as build:
                await build.started(connection)
                cpu = build.cpu_seconds() + server.cpu_seconds()
                began = await connection.fetchval("SELECT min(started_at) FROM dispatcher.instances")
                await build.drained(connection, "email")
                cpu = build.cpu_seconds() + server.cpu_seconds() - cpu
            await outbox.require_sent(connection, "email", deliveries)
            ended = await connection.fetchval("SELECT max(finished_at) FROM dispatcher.delivery_state")
    return Drain(deliveries / float((ended - began).total_seconds()), cpu / deliveries * 1e6)
