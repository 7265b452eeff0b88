"""Mails a second on each connection to a server that is 40 ms away in each direction, beside aiosmtplib."""

from bench.cases.email.throughput import dispatcher
from bench.measure import Measure, beside, median
from bench.peers import aiosmtplib_plain
from bench.server import Server
from bench.sink import sink
from dispatcher.selftest.proxy import Proxy

DELIVERIES = 400
ROUNDS = 3

CONNECTIONS = 4
DELAY_SECONDS = 0.04

METHOD = (
    "{deliveries} order mails over {connections} connections to smtp-sink behind the proxy of `dispatcher.selftest`, "
    "which delays each piece by 40 ms in either direction; {rounds} rounds in turn, medians, connecting included. Ours "
    "is the whole dispatcher, the reference aiosmtplib with EmailMessage. More is better; limit 2."
)


async def run(server: Server, deliveries: int, rounds: int) -> list[Measure]:
    """Measure both sides alternately, through one proxy each."""
    ours: list[float] = []
    theirs: list[float] = []
    for _ in range(rounds):
        with sink() as port:
            async with Proxy("127.0.0.1", f"127.0.0.1:{port}", "lines") as proxy:
                proxy.delay(DELAY_SECONDS)
                ours.append(await dispatcher(server, proxy.port, deliveries, CONNECTIONS) / CONNECTIONS)
                theirs.append(await aiosmtplib_plain.send(proxy.port, deliveries, CONNECTIONS) / CONNECTIONS)
    method = METHOD.format(deliveries=deliveries, connections=CONNECTIONS, rounds=rounds)
    return [beside("email_delay", "messages/s a connection", median(ours), "aiosmtplib", median(theirs), method)]
