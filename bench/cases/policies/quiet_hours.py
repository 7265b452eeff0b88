"""Quiet hours: what they cost deliveries that they are not about, and those whose hours are looked up."""

from bench import outbox
from bench.cases.throughput import SETTINGS
from bench.measure import Measure, beside, median
from bench.process import dispatching
from bench.server import Server

DELIVERIES = 100_000
ROUNDS = 3

# Five hours from now on, so that nothing is moved.
QUIET = """
    SELECT dispatcher.put_quiet_hours('default', $1, '', jsonb_build_array(jsonb_build_object(
        'from', to_char(now() AT TIME ZONE 'UTC' + interval '5 h', 'HH24:MI'),
        'to', to_char(now() AT TIME ZONE 'UTC' + interval '6 h', 'HH24:MI'))), '[]', 'bench')
"""
# In which workspace they are; the deliveries are in `default`.
PLACES = {"none": None, "elsewhere": "other", "looked_up": "default"}
METHOD = (
    "CPU of the worker and of Postgres for each of {deliveries} deliveries as in `throughput`, {rounds} rounds in "
    "turn, medians. {what} Reference: the same without quiet hours. Less is better; limit {limit}."
)
WORDS = {
    "elsewhere": ("Quiet hours of another workspace.", "1.1"),
    "looked_up": ("Quiet hours of the workspace, which are not now; the recipients are no contacts.", "1.33"),
}


async def run(server: Server, deliveries: int, rounds: int) -> list[Measure]:
    """Measure all alternately."""
    found: dict[str, list[float]] = {place: [] for place in PLACES}
    for _ in range(rounds):
        for place, workspace in PLACES.items():
            found[place].append(await _microseconds(server, deliveries, workspace))
    costs = {place: median(every) for place, every in found.items()}
    return [
        beside(
            f"quiet_hours.{place}",
            "us/delivery",
            costs[place],
            "none",
            costs["none"],
            METHOD.format(deliveries=deliveries, rounds=rounds, what=what, limit=limit),
        )
        for place, (what, limit) in WORDS.items()
    ]


async def _microseconds(server: Server, deliveries: int, workspace: str | None) -> float:
    """Return what a delivery costs."""
    async with outbox.outbox(server) as (url, connection):
        if workspace is not None:
            await connection.execute(QUIET, workspace)
        await outbox.fill(connection, "sms", deliveries)
        await outbox.settle(connection)
        async with dispatching(url, **SETTINGS) as process:
            await process.started(connection)
            before = process.cpu_seconds() + server.cpu_seconds()
            await process.drained(connection, "sms")
            seconds = process.cpu_seconds() + server.cpu_seconds() - before
        await outbox.require_sent(connection, "sms", deliveries)
    return seconds / deliveries * 1e6
