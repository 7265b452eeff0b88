"""The cases, by name."""

from collections.abc import Callable, Coroutine

from msgspec import Struct

from bench.cases import (
    backlog,
    drain,
    expensive,
    isolation,
    latency,
    notify,
    retries,
    shared_limit,
    sizing,
    soak,
    throughput,
    timers,
    triggers,
    workflows,
)
from bench.cases.campaigns import campaign, counters, deploy, fair, progress
from bench.cases.campaigns import isolation as campaign_isolation
from bench.cases.cells import move as cells_move
from bench.cases.cells import routing as cells_routing
from bench.cases.cells import throughput as cells
from bench.cases.console import live as console_live
from bench.cases.console import pages as console_pages
from bench.cases.email import delay as email_delay
from bench.cases.email import throughput as email
from bench.cases.http import api, fuzz, metrics
from bench.cases.policies import caps, quiet_hours, together
from bench.cases.protocol import cost as protocol_cost
from bench.cases.protocol import email as protocol_cost_email
from bench.cases.providers import push, sms
from bench.cases.sequences import enrol, first, storm, waiting
from bench.cases.tracing import cost as tracing
from bench.measure import Measure
from bench.server import Server


class Case(Struct, frozen=True):
    """A case: what it shows, its default size, and its function."""

    about: str
    deliveries: int
    rounds: int
    run: Callable[[Server, int, int], Coroutine[None, None, list[Measure]]]


CASES = {
    name: Case((module.__doc__ or "").splitlines()[0], module.DELIVERIES, module.ROUNDS, module.run)
    for name, module in (
        ("throughput", throughput),
        ("backlog", backlog),
        ("soak", soak),
        ("sizing", sizing),
        ("isolation", isolation),
        ("latency", latency),
        ("expensive", expensive),
        ("protocol_cost", protocol_cost),
        ("protocol_cost.email", protocol_cost_email),
        ("shared_limit", shared_limit),
        ("quiet_hours", quiet_hours),
        ("caps", caps),
        ("tracing", tracing),
        ("policies", together),
        ("drain", drain),
        ("retries", retries),
        ("email", email),
        ("email_delay", email_delay),
        ("sms", sms),
        ("push", push),
        ("workflows", workflows),
        ("timers", timers),
        ("triggers", triggers),
        ("notify", notify),
        ("sequence.enrol", enrol),
        ("sequence.first", first),
        ("sequence.storm", storm),
        ("sequence.waiting", waiting),
        ("fuzz", fuzz),
        ("api", api),
        ("cells", cells),
        ("cells.routing", cells_routing),
        ("cells.move", cells_move),
        ("metrics", metrics),
        ("console.pages", console_pages),
        ("console.live", console_live),
        ("campaign", campaign),
        ("campaign.deploy", deploy),
        ("campaign.counters", counters),
        ("campaign.progress", progress),
        ("campaign.fair", fair),
        ("campaign.isolation", campaign_isolation),
    )
}
