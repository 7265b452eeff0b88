"""Order mails end to end by one process to smtp-sink, beside smtp-source and beside aiosmtplib with EmailMessage."""

from bench import order, outbox
from bench.measure import Measure, beside, median
from bench.peers import aiosmtplib_plain
from bench.process import dispatching
from bench.server import Server
from bench.sink import sink, source

DELIVERIES = 60_000
ROUNDS = 3

CONNECTIONS = 20
# The plain way takes a millisecond a message: a tenth of them shows its rate.
PLAIN_SHARE = 10
SETTINGS = {
    "CHANNELS__EMAIL__PROVIDER": "smtp",
    "CHANNELS__EMAIL__MARKED_MAX": "2000",
    "CHANNELS__EMAIL__OPTIONS__HOST": "127.0.0.1",
    "CHANNELS__EMAIL__OPTIONS__FROM": order.SENDER,
}

METHOD = (
    "{deliveries} order mails of a stored template (text and html, {length} bytes as sent), {rounds} rounds in turn, "
    "medians. Ours: claim, render, compose, mark, SMTP to smtp-sink on {connections} connections, flush, in one "
    "process, from the start of the instance to the last flush. More is better. "
)
SOURCE = "Reference: smtp-source with {connections} kept sessions and bodies of that size to an equal sink; limit 0.6."
PLAIN = (
    "Reference: rendering by python-liquid, EmailMessage and aiosmtplib on {connections} kept connections, without a "
    "queue or a database; limit 15."
)


async def run(server: Server, deliveries: int, rounds: int) -> list[Measure]:
    """Measure the three sides alternately."""
    length = len(aiosmtplib_plain.message(1).as_bytes())
    plain_messages = max(CONNECTIONS, deliveries // PLAIN_SHARE)
    ours: list[float] = []
    sources: list[float] = []
    plain: list[float] = []
    for _ in range(rounds):
        with sink() as port:
            ours.append(await dispatcher(server, port, deliveries, CONNECTIONS))
        with sink() as port:
            sources.append(await source(port, deliveries, length, CONNECTIONS))
        with sink() as port:
            plain.append(await aiosmtplib_plain.send(port, plain_messages, CONNECTIONS))
    rate = median(ours)
    known = {"deliveries": deliveries, "rounds": rounds, "length": length, "connections": CONNECTIONS}
    return [
        beside("email", "messages/s", rate, "smtp-source", median(sources), (METHOD + SOURCE).format(**known)),
        beside("email.plain", "messages/s", rate, "aiosmtplib", median(plain), (METHOD + PLAIN).format(**known)),
    ]


async def dispatcher(server: Server, port: int, deliveries: int, connections: int) -> float:
    """Messages a second of one process."""
    settings = SETTINGS | {
        "CHANNELS__EMAIL__OPTIONS__PORT": str(port),
        "CHANNELS__EMAIL__OPTIONS__CONNECTIONS": str(connections),
    }
    async with outbox.outbox(server) as (url, connection):
        await order.fill(connection, deliveries)
        await outbox.settle(connection)
        async with dispatching(url, **settings) as process:
            await process.started(connection)
            began = await connection.fetchval("SELECT min(started_at) FROM dispatcher.instances")
            await process.drained(connection, "email")
        await outbox.require_sent(connection, "email", deliveries)
        ended = await connection.fetchval("SELECT max(finished_at) FROM dispatcher.delivery_state")
    return float(deliveries / (ended - began).total_seconds())
