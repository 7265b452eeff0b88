"""Push messages end to end by one process to a server that answers as FCM does, beside a plain loop of aiohttp."""

from bench.cases import throughput
from bench.fcm_server import account, fcm_server
from bench.measure import Measure, beside, median
from bench.peers import aiohttp_fcm
from bench.server import Server

DELIVERIES = 20_000
ROUNDS = 3

CONNECTIONS = 20
SETTINGS = {
    "CHANNELS__SMS__PROVIDER": "fcm",
    "CHANNELS__SMS__OPTIONS__CONNECTIONS": str(CONNECTIONS),
}

METHOD = (
    "{deliveries} messages of some 90 characters to a server of its own process that answers as FCM does, "
    "{connections} connections, {rounds} rounds in turn, medians. Ours: token, claim, render, mark, call, flush in one "
    "process, from the start of the instance to the last flush. Reference: one session of aiohttp and as many loops of "
    "post and json, without a queue or a database. "
)


async def run(server: Server, deliveries: int, rounds: int) -> list[Measure]:
    """Measure both sides alternately."""
    ours: list[throughput.Drain] = []
    theirs: list[tuple[float, float]] = []
    for _ in range(rounds):
        with fcm_server() as url:
            where = {"CHANNELS__SMS__OPTIONS__URL": url, "CHANNELS__SMS__OPTIONS__SERVICE_ACCOUNT": account(url)}
            ours.append(await throughput.dispatcher(server, deliveries, SETTINGS | where))
        with fcm_server() as url:
            theirs.append(await aiohttp_fcm.send(url, deliveries, CONNECTIONS))
    rate, cpu = median(one.rate for one in ours), median(one.worker_microseconds for one in ours)
    plain_rate, plain_cpu = (median(side) for side in zip(*theirs, strict=True))
    method = METHOD.format(deliveries=deliveries, connections=CONNECTIONS, rounds=rounds)
    return [
        beside("push", "messages/s", rate, "aiohttp", plain_rate, f"{method}More is better; limit 0.8."),
        beside("push.cpu_worker", "us/message", cpu, "aiohttp", plain_cpu, f"{method}Less is better."),
    ]
