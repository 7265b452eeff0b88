"""SMS end to end by one process to a server that answers as Twilio does, beside the SDK's own asynchronous client."""

from bench.cases import throughput
from bench.measure import Measure, beside, median
from bench.peers import twilio_sdk
from bench.server import Server
from bench.twilio_server import ACCOUNT, twilio_server

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

METHOD = (
    "{deliveries} SMS of some 90 characters to a server of its own process that answers as Twilio does, {connections} "
    "connections, {rounds} rounds in turn, medians. Ours: claim, render, mark, create, flush in one process, from the "
    "start of the instance to the last flush. Reference: the SDK with AsyncTwilioHttpClient, without a queue or a "
    "database. "
)


async def run(server: Server, deliveries: int, rounds: int) -> list[Measure]:
    """Measure both sides alternately."""
    ours: list[throughput.Drain] = []
    theirs: list[tuple[float, float]] = []
    for _ in range(rounds):
        with twilio_server() as url:
            settings = SETTINGS | {"CHANNELS__SMS__OPTIONS__URL": url}
            ours.append(await throughput.dispatcher(server, deliveries, settings))
        with twilio_server() as url:
            theirs.append(await twilio_sdk.send(url, deliveries, CONNECTIONS))
    known = METHOD.format(deliveries=deliveries, connections=CONNECTIONS, rounds=rounds)
    rate, cpu = median(one.rate for one in ours), median(one.worker_microseconds for one in ours)
    sdk_rate, sdk_cpu = (median(values) for values in zip(*theirs, strict=True))
    return [
        beside("sms", "messages/s", rate, "twilio", sdk_rate, f"{known}More is better; limit 1."),
        beside("sms.cpu_worker", "us/message", cpu, "twilio", sdk_cpu, f"{known}Less is better."),
    ]
