"""Triggers over the API of a cell in which tenants were placed, beside a database that is in no cell."""

import msgspec
from msgspec import Struct

from bench.cases.http.api import listening, warm
from bench.load import apply
from bench.measure import Measure, beside, median
from bench.server import Connection, Server

# Triggers a round.
DELIVERIES = 20_000
ROUNDS = 5

NUMBER = 1
PLACED = 10_000

METHOD = (
    "{requests} triggers, as in `api`, in a cell where {placed} tenants were placed, the caller's among them: each row "
    "and each key is looked up; {rounds} rounds in turn. Reference: the same where there are no cells. "
)
LEAST = "CPU of the dispatcher and of Postgres, the least of all rounds. Less is better; limit 1.02."


class Round(Struct, frozen=True):
    """A round: its rate, and the CPU of a trigger."""

    rate: float
    microseconds: float


async def run(server: Server, deliveries: int, rounds: int) -> list[Measure]:
    """Measure both alternately."""
    placed, plain = [], []
    for _ in range(rounds):
        placed.append(await _round(server, deliveries, is_cell=True))
        plain.append(await _round(server, deliveries, is_cell=False))
    method = METHOD.format(requests=deliveries, placed=PLACED, rounds=rounds)
    least = [min(one.microseconds for one in side) for side in (placed, plain)]
    rates = [median([one.rate for one in side]) for side in (placed, plain)]
    return [
        beside("cells.routing", "us/trigger", least[0], "no cells", least[1], method + LEAST),
        beside("cells.routing.rate", "triggers/s", rates[0], "no cells", rates[1], f"{method}Medians. More is better."),
    ]


async def _round(server: Server, requests: int, *, is_cell: bool) -> Round:
    settings = {"CELL__NUMBER": str(NUMBER)} if is_cell else {}
    async with listening(server, **settings) as (load, process, connection):
        if is_cell:
            await _place(connection)
        await warm(load)
        before = process.cpu_seconds() + server.cpu_seconds()
        answered = await apply(msgspec.structs.replace(load, name="again", requests=requests))
        after = process.cpu_seconds() + server.cpu_seconds()
    return Round(requests / answered.seconds, (after - before) / requests * 1e6)


async def _place(connection: Connection) -> None:
    await connection.execute(
        """INSERT INTO dispatcher.tenant_placements (tenant_id, cell, state, version)
           SELECT 'tenant-' || i, $1 + i % 2, CASE i % 2 WHEN 0 THEN 'here' ELSE 'elsewhere' END, 1
             FROM generate_series(1, $2::int) AS i
            UNION ALL SELECT 'default', $1, 'here', 1""",
        NUMBER,
        PLACED,
    )
    await connection.execute("VACUUM (ANALYZE) dispatcher.tenant_placements")
