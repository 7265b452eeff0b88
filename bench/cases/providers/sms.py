"""SMS end to end by one process to a server that answers as Twilio does, beside the SDK's own asynchronous client."""

import time

from bench.cases import throughput
from bench.measure import BenchError, Measure, beside, median
from bench.peers import twilio_sdk
from bench.server import Server
from bench.twilio_server import ACCOUNT, twilio_server
from channels.contract import Accepted, Envelope, Licence, Verdict
from channels.twilio.channel import Twilio
from channels.twilio.options import TwilioOptions

DELIVERIES = 60_000
ROUNDS = 3

CONNECTIONS = 50
SETTINGS = {
    "CHANNELS__SMS__PROVIDER": "twilio",
    "CHANNELS__SMS__MARKED_MAX": "2000",
    "CHANNELS__SMS__OPTIONS__ACCOUNT_SID": ACCOUNT,
    "CHANNELS__SMS__OPTIONS__SECRET": "secret",
    "CHANNELS__SMS__OPTIONS__FROM": twilio_sdk.FROM,
    "CHANNELS__SMS__OPTIONS__CONNECTIONS": str(CONNECTIONS),
}

# Handed to the channel at a time, as by one mark.
BATCH = 500

METHOD = (
    "{deliveries} SMS of some 90 characters to a server of its own process that answers as Twilio does, {connections} "
    "connections, {rounds} rounds in turn, medians. Ours: claim, render, mark, create, flush in one process, from the "
    "start of the instance to the last flush. Reference: the SDK with AsyncTwilioHttpClient, without a queue or a "
    "database. "
)
CHANNEL = "The same with the channel by itself, in the reference's process: no queue and no database on either side. "


async def run(server: Server, deliveries: int, rounds: int) -> list[Measure]:
    """Measure both sides alternately."""
    ours: list[throughput.Drain] = []
    alone: list[float] = []
    theirs: list[tuple[float, float]] = []
    for _ in range(rounds):
        with twilio_server() as url:
            settings = SETTINGS | {"CHANNELS__SMS__OPTIONS__URL": url}
            ours.append(await throughput.dispatcher(server, deliveries, settings))
        with twilio_server() as url:
            alone.append(await channel(url, deliveries))
        with twilio_server() as url:
            theirs.append(await twilio_sdk.send(url, deliveries, CONNECTIONS))
    known = METHOD.format(deliveries=deliveries, connections=CONNECTIONS, rounds=rounds)
    rate, cpu = median(one.rate for one in ours), median(one.worker_microseconds for one in ours)
    sdk_rate, sdk_cpu = (median(values) for values in zip(*theirs, strict=True))
    return [
        beside("sms", "messages/s", rate, "twilio", sdk_rate, f"{known}More is better; limit 1."),
        beside(
            "sms.channel", "messages/s", median(alone), "twilio", sdk_rate, f"{CHANNEL}{known}More is better; limit 1."
        ),
        beside("sms.cpu_worker", "us/message", cpu, "twilio", sdk_cpu, f"{known}Less is better."),
    ]


async def channel(url: str, messages: int) -> float:
    """Messages a second of the channel by itself."""
    twilio = Twilio(TwilioOptions(ACCOUNT, "secret", sender=twilio_sdk.FROM, url=url, connections=CONNECTIONS))
    # No mark has given this licence: nothing is sent but to the server above.
    licence = object.__new__(Licence)
    licence.deadline, licence._clock = float("inf"), time.monotonic
    accepted = 0

    def report(_envelope: Envelope, verdict: Verdict) -> None:
        nonlocal accepted
        accepted += isinstance(verdict, Accepted)

    await twilio.prepare(1)
    began = time.perf_counter()
    for first in range(0, messages, BATCH):
        numbers = range(first, min(first + BATCH, messages))
        await twilio.deliver([_envelope(licence, number) for number in numbers], report)
    took = time.perf_counter() - began
    await twilio.close()
    if accepted != messages:
        raise BenchError(f"the channel sent {accepted} of {messages} messages")
    return messages / took


def _envelope(licence: Licence, number: int) -> Envelope:
    key, to = f"sms-{number}", f"+49151{10_000_000 + number}"
    body = f"Hi Ann, your order A-{number} ships on Monday. Track it: https://sms.example/A-{number}"
    return Envelope(licence, number, "default", "default", key, "sms", to, {"body": body}, {}, 1)
