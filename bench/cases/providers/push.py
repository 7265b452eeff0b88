"""Push messages through the FCM channel to a server that answers as FCM does, beside a plain loop of aiohttp."""

import time

from bench.cases import throughput
from bench.fcm_server import account, fcm_server
from bench.measure import BenchError, Measure, beside, median
from bench.peers import aiohttp_fcm
from bench.server import Server
from channels.contract import Accepted, Envelope, Verdict
from channels.fcm.channel import Fcm
from channels.fcm.options import FcmOptions
from dispatcher.engine.store import marks

DELIVERIES = 20_000
ROUNDS = 3

CONNECTIONS = 20
# As many as a sender gives a channel at once by default.
BATCH = 500
SETTINGS = {
    "CHANNELS__SMS__PROVIDER": "fcm",
    "CHANNELS__SMS__OPTIONS__CONNECTIONS": str(CONNECTIONS),
}

METHOD = (
    "{deliveries} messages of some 90 characters to a server of its own process that answers as FCM does, "
    "{connections} connections, {rounds} rounds in turn, medians. Reference: one session of aiohttp and as many loops "
    "of post and json, without a queue or a database. "
)
CHANNEL = "Ours: the channel alone, from envelopes in batches of {batch} to verdicts. More is better; limit 0.8."
WHOLE = (
    "Ours: token, claim, render, mark, call, flush in one process, from the start of the instance to the last flush. "
    "{more}; no limit."
)


async def run(server: Server, deliveries: int, rounds: int) -> list[Measure]:
    """Measure the three sides alternately."""
    alone: list[float] = []
    whole: list[throughput.Drain] = []
    plain: list[tuple[float, float]] = []
    for _ in range(rounds):
        with fcm_server() as url:
            alone.append(await channel(url, deliveries))
        with fcm_server() as url:
            plain.append(await aiohttp_fcm.send(url, deliveries, CONNECTIONS))
        with fcm_server() as url:
            where = {"CHANNELS__SMS__OPTIONS__URL": url, "CHANNELS__SMS__OPTIONS__SERVICE_ACCOUNT": account(url)}
            whole.append(await throughput.dispatcher(server, deliveries, SETTINGS | where))
    rate, cpu = median(one.rate for one in whole), median(one.worker_microseconds for one in whole)
    plain_rate, plain_cpu = (median(side) for side in zip(*plain, strict=True))
    method = METHOD.format(deliveries=deliveries, connections=CONNECTIONS, rounds=rounds)
    faster, cheaper = WHOLE.format(more="More is better"), WHOLE.format(more="Less is better")
    return [
        beside("push", "messages/s", median(alone), "aiohttp", plain_rate, method + CHANNEL.format(batch=BATCH)),
        beside("push.whole", "messages/s", rate, "aiohttp", plain_rate, method + faster),
        beside("push.cpu_worker", "us/message", cpu, "aiohttp", plain_cpu, method + cheaper),
    ]


async def channel(url: str, messages: int) -> float:
    """Messages a second of the channel, whose envelopes lie ready."""
    taken = 0

    def report(_envelope: Envelope, verdict: Verdict) -> None:
        nonlocal taken
        taken += type(verdict) is Accepted

    opened = Fcm(FcmOptions(service_account=account(url), url=url, connections=CONNECTIONS))
    envelopes = [_envelope(number) for number in range(messages)]
    await opened.prepare(BATCH)
    began = time.perf_counter()
    for first in range(0, messages, BATCH):
        await opened.deliver(envelopes[first : first + BATCH], report)
    took = time.perf_counter() - began
    await opened.close()
    if taken != messages:
        raise BenchError(f"{taken} of {messages} messages were taken")
    return messages / took


def _envelope(number: int) -> Envelope:
    licence = marks._mint(time.monotonic() + 3_600, time.monotonic)
    parts = {"body": aiohttp_fcm.text(number)}
    return Envelope(licence, number, "default", "default", f"k-{number}", "push", aiohttp_fcm.to(number), parts, {}, 1)
