"""Traces: what spans of one delivery in a hundred cost, and what a traceparent costs where nothing is exported."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from aiohttp import web

from bench import outbox
from bench.cases.throughput import SETTINGS, Drain, drain_of
from bench.measure import BenchError, Measure, beside, median
from bench.server import Server

DELIVERIES = 100_000
ROUNDS = 5

RATIO = 0.01
# A delivery of whoever does not sample: it is read and carried, and no more.
TRACEPARENT = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00"

METHOD = (
    "{deliveries} deliveries as in `throughput`, {rounds} rounds in turn, medians. {what} Reference: the same without. "
    "More is better; limit 0.95."
)
METHOD_CPU = (
    "CPU of the worker and of Postgres for each of {deliveries} deliveries as in `throughput`, {rounds} rounds in "
    "turn, the least of each. {what} Reference: the same without. Less is better; limit 1.05."
)
WORDS = {
    "on": f"Spans of {RATIO:.0%} are exported to a collector on this machine.",
    "carried": "Nothing is exported, and every delivery has a traceparent.",
}


class _Collector:
    """Takes what is exported, and counts the requests."""

    def __init__(self) -> None:
        self.requests = 0
        self.port = 0

    async def _take(self, http: web.Request) -> web.Response:
        await http.read()
        self.requests += 1
        return web.Response()

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        app = web.Application(client_max_size=64 * 1024 * 1024)
        app.router.add_post("/v1/traces", self._take)
        runner = web.AppRunner(app, access_log=None)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        self.port = runner.addresses[0][1]
        try:
            yield
        finally:
            await runner.cleanup()


async def run(server: Server, deliveries: int, rounds: int) -> list[Measure]:
    """Measure all alternately."""
    drains: dict[str, list[Drain]] = {"off": [], "on": [], "carried": []}
    collector = _Collector()
    async with collector.running():
        url = f"http://127.0.0.1:{collector.port}/v1/traces"
        on = {"TRACING__ENDPOINT": url, "TRACING__SAMPLING_RATIO": str(RATIO)}
        for _ in range(rounds):
            for arm, found in drains.items():
                traceparent = TRACEPARENT if arm == "carried" else None
                found.append(await _drain(server, deliveries, SETTINGS | (on if arm == "on" else {}), traceparent))
    if not collector.requests:
        raise BenchError("the collector was sent nothing")
    measures: list[Measure] = []
    for arm, what in WORDS.items():
        said = {"deliveries": deliveries, "rounds": rounds, "what": what}
        rate, rate_off = (median(one.rate for one in drains[side]) for side in (arm, "off"))
        cpu, cpu_off = (min(map(_cost, drains[side])) for side in (arm, "off"))
        measures += [
            beside(f"tracing.{arm}", "deliveries/s", rate, "no traces", rate_off, METHOD.format(**said)),
            beside(f"tracing.{arm}.cpu", "us/delivery", cpu, "no traces", cpu_off, METHOD_CPU.format(**said)),
        ]
    return measures


def _cost(one: Drain) -> float:
    return one.worker_microseconds + one.postgres_microseconds


async def _drain(server: Server, deliveries: int, settings: dict[str, str], traceparent: str | None) -> Drain:
    async with outbox.outbox(server) as (url, connection):
        await outbox.fill(connection, "sms", deliveries, traceparent=traceparent)
        return await drain_of(server, url, connection, deliveries, settings)
