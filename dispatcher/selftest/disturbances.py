"""Disturbances: faults of the connections to Postgres, and fault points at which a replica dies."""

import asyncio
import random

from dispatcher.base import fault_points
from dispatcher.selftest.proxy import Proxy
from dispatcher.selftest.proxy_connection import Statistics

# Recognised in the SQL that goes by.
SWALLOWED = {
    "swallowed claim": b"INSERT INTO dispatcher.claims",
    "swallowed mark": b"SET marked = true, attempt",
    "swallowed flush": b"SET status = a.status",
}
CUTS = ("cut", "torn request", "torn answer", *SWALLOWED, "blackout", "refusal")
TORN_BYTES_MAX = 20_000
# How long to wait for traffic that the fault needs.
PASSING_SECONDS_MAX = 2.0
# Of the lease, so that lost connections fence no replica.
AWAY_SHARES = (0.05, 0.4)

# Those of replicas: a move is a command.
POINTS = tuple(point for point in fault_points.POINTS if not point.startswith("move."))
ON_TERM = tuple(point for point in POINTS if point.startswith(("drain.", "farewell.")))
# A life between two disturbances sees some claims, and hundreds of results.
COUNT_MAX = {"result.put": 400, "render.done": 12, "recovery.fenced": 1, "recovery.done": 1}
COUNT_MAX_OTHERS = 8


def draw_fault(rng: random.Random) -> str:
    """Return a fault point at which to die, as a replica's environment has it."""
    point = rng.choice(POINTS)
    count = 1 if point in ON_TERM else rng.randint(1, COUNT_MAX.get(point, COUNT_MAX_OTHERS))
    return f"{point}:{count}:kill9"


async def disturb(proxy: Proxy, kind: str, rng: random.Random, lease_seconds: float) -> None:
    """Do one of `CUTS` to every connection through the proxy."""
    before = Statistics(cut=proxy.statistics.cut, swallowed=proxy.statistics.swallowed)
    away = rng.uniform(*AWAY_SHARES) * lease_seconds
    match kind:
        case "cut":
            proxy.cut_all()
        case "torn request" | "torn answer":
            proxy.cut_after(rng.randint(1, TORN_BYTES_MAX), "up" if kind == "torn request" else "down")
            await _passed(proxy, before)
        case "blackout":
            proxy.drop()
            await asyncio.sleep(away)
            proxy.drop(False)
        case "refusal":
            proxy.refuse()
            proxy.cut_all()
            await asyncio.sleep(away)
            proxy.refuse(False)
        case _:
            proxy.swallow_answers(1, SWALLOWED[kind])
            await _passed(proxy, before)


async def _passed(proxy: Proxy, before: Statistics) -> None:
    """Return when it was cut or swallowed, or when nothing passed in time."""
    try:
        async with asyncio.timeout(PASSING_SECONDS_MAX):
            await proxy.until(lambda now: (now.cut, now.swallowed) != (before.cut, before.swallowed))
    except TimeoutError:
        return
