"""Quiet hours, caps and failover together: what they cost deliveries that they touch, and others."""

from bench import outbox
from bench.cases.policies.caps import add_cap, cost
from bench.cases.policies.quiet_hours import QUIET
from bench.cases.throughput import SETTINGS, Drain, drain_of
from bench.measure import Measure, beside, median
from bench.server import Server

DELIVERIES = 100_000
ROUNDS = 3

_ONE, _OTHER = "CHANNELS__SMS__PROVIDERS__ONE", "CHANNELS__SMS__PROVIDERS__OTHER"
FAILOVER = {
    "CHANNELS__SMS__MARKED_MAX": SETTINGS["CHANNELS__SMS__MARKED_MAX"],
    f"{_ONE}__PROVIDER": "blackhole",
    f"{_OTHER}__PROVIDER": "blackhole",
}
WEIGHTS = {f"{_ONE}__WEIGHT": "1", f"{_OTHER}__WEIGHT": "1"}
# Of each: the settings, and the workspaces with quiet hours and a cap. The deliveries are in `default`.
PLACES = {
    "none": (SETTINGS, ()),
    "untouched": (FAILOVER, ("other",)),
    "looked_up": (FAILOVER, ("default",)),
    "weights": (FAILOVER | WEIGHTS, ()),
}
METHOD = (
    "{deliveries} deliveries as in `throughput`, {rounds} rounds in turn, medians. {what} Reference: one provider and "
    "no policy. More is better; limit {limit}."
)
METHOD_CPU = (
    "CPU of the worker and of Postgres for each of {deliveries} deliveries as in `throughput`, {rounds} rounds in "
    "turn, minima. {what} Reference: one provider and no policy. Less is better; limit {limit}."
)
WORDS = {
    "untouched": ("Two providers in order; quiet hours and a cap in another workspace.", "1.1", "0.9"),
    "looked_up": ("Two providers in order; quiet hours, not now, and a cap in the workspace.", "1.33", "0.75"),
    "weights": ("Two providers, half of the deliveries to each.", "1.1", "0.9"),
}


async def run(server: Server, deliveries: int, rounds: int) -> list[Measure]:
    """Measure all alternately."""
    drains: dict[str, list[Drain]] = {place: [] for place in PLACES}
    for _ in range(rounds):
        for place, found in drains.items():
            found.append(await _drain(server, deliveries, place))
    costs = {place: min(map(cost, found)) for place, found in drains.items()}
    rates = {place: median(one.rate for one in found) for place, found in drains.items()}
    measures: list[Measure] = []
    for place, (what, most, least) in WORDS.items():
        said = {"deliveries": deliveries, "rounds": rounds, "what": what}
        method, method_cpu = METHOD.format(limit=least, **said), METHOD_CPU.format(limit=most, **said)
        measures += [
            beside(f"policies.{place}", "deliveries/s", rates[place], "none", rates["none"], method),
            beside(f"policies.{place}.cpu", "us/delivery", costs[place], "none", costs["none"], method_cpu),
        ]
    return measures


async def _drain(server: Server, deliveries: int, place: str) -> Drain:
    settings, workspaces = PLACES[place]
    async with outbox.outbox(server) as (url, connection):
        for workspace in workspaces:
            await connection.execute(QUIET, workspace)
            await add_cap(connection, workspace, "sms")
        await outbox.fill(connection, "sms", deliveries)
        return await drain_of(server, url, connection, deliveries, settings)
