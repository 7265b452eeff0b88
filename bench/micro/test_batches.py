"""The cost of a batch of 1,000 in Python: rows made into deliveries, tokens counted off, results split into arrays."""

# ruff: noqa: S101 - these are tests, and asserting is what tests do
import asyncio
from collections.abc import Sequence
from typing import cast

import uvloop
from pytest_benchmark.fixture import BenchmarkFixture

from bench.outbox import TEMPLATE
from dispatcher.db.database import Database
from dispatcher.engine.rules.life import Claimed, Lane, Result, Succeeded
from dispatcher.engine.store import flushes
from dispatcher.engine.streams import Tokens

BATCH = 1_000
TOKEN = 7
VARIABLES = '{"name": "Ann", "order": "A-1", "day": "Monday"}'


Columns = tuple[
    int,
    str,
    str,
    str,
    str,
    str,
    str,
    str,
    int,
    int,
    None,
    None,
    None,
    None,
    None,
    bool,
    bool,
    int,
    None,
    None,
    float,
    None,
]


def row(number: int) -> Columns:
    """The row of the claim statement for one delivery."""
    return (
        number,
        "default",
        "default",
        f"key-{number}",
        f"+4915{number}",
        TEMPLATE,
        VARIABLES,
        "{}",
        0,
        5,
        None,
        None,
        None,
        None,
        None,
        False,
        False,
        1_767_225_600,
        None,
        None,
        0.0,
        None,
    )


def results() -> list[Result]:
    """A batch that a provider took."""
    return [(Claimed(*row(n), Lane.NORMAL, TOKEN, "sms"), Succeeded(f"blackhole-{n}")) for n in range(BATCH)]


class NoDatabase:
    """Takes arrays and answers that every delivery was ours."""

    async def fetch(self, _query: str, *_arrays: object) -> Sequence[object]:
        return []

    async def write(self, _query: str, *_arrays: object) -> int:
        return BATCH


def test_rows_become_claimed_deliveries(benchmark: BenchmarkFixture) -> None:
    rows = [row(number) for number in range(BATCH)]

    def construct() -> list[Claimed]:
        return [Claimed(*one, Lane.NORMAL, TOKEN, "sms") for one in rows]

    assert len(benchmark(construct)) == BATCH


def test_results_are_split_into_arrays(benchmark: BenchmarkFixture) -> None:
    batch = results()
    database = cast("Database", NoDatabase())

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:

        def flush() -> list[Result]:
            return runner.run(flushes.flush(database, batch, [TOKEN]))

        assert benchmark(flush) == []


def test_tokens_are_counted_off(benchmark: BenchmarkFixture) -> None:
    batch = results()

    def settle() -> list[int]:
        tokens = Tokens(1)
        tokens.claimed(TOKEN, BATCH)
        return tokens.settle(batch)

    assert benchmark(settle) == [TOKEN]
