"""The time of each page of the console with a million deliveries, 100,000 runs and 10,000 dead letters."""

import asyncio
import re
from collections.abc import Iterator, Sequence

from bench import outbox, runs
from bench.cases.console.browsing import Browsing
from bench.cases.http.api import make_key
from bench.measure import BenchError, Measure, beside, percentile
from bench.process import dispatching
from bench.server import Connection, Server
from dispatcher.console.page import discovered

DELIVERIES = 1_000_000
# Visits of each page.
ROUNDS = 25

# Of the deliveries.
RUNS_SHARE, DEAD_SHARE, HELD_SHARE = 0.1, 0.01, 0.002
LIMIT_MILLISECONDS = 100.0
PAGE_BYTES_MAX = 150_000
SETTINGS = {"CHANNELS__SMS__PROVIDER": "blackhole"}
# Searches, beside the pages themselves: what nobody can find, and what most deliveries are.
SEARCHES = (
    "/console/deliveries?life=failed",
    "/console/deliveries?life=held",
    "/console/deliveries?q=no-such-words",
    "/console/deliveries?q=%2B4915110000007",
    "/console/deliveries?channel=sms&life=sent",
)

METHOD = (
    "p95 of {rounds} visits of the slowest of {pages} pages and searches ({slowest}), one visitor on a kept connection,"
    " with {deliveries} deliveries, {runs} runs and {dead} dead letters in one workspace. No page is over "
    "150 KB. Less is better; limit 1."
)


async def run(server: Server, deliveries: int, rounds: int) -> list[Measure]:
    """Visit every page that can be reached from another."""
    async with outbox.outbox(server) as (url, connection):
        dead = await _load(connection, deliveries)
        async with dispatching(url, **SETTINGS) as process:
            await process.started(connection)
            key, address = make_key(url), await process.address()
            found = await asyncio.to_thread(_visit, address, key, rounds)
    slowest = max(found, key=lambda path: found[path])
    method = METHOD.format(
        rounds=rounds,
        pages=len(found),
        slowest=slowest,
        deliveries=deliveries,
        runs=int(deliveries * RUNS_SHARE),
        dead=dead,
    )
    return [beside("console.pages", "ms", found[slowest] * 1e3, "limit", LIMIT_MILLISECONDS, method)]


def _visit(address: str, key: str, rounds: int) -> dict[str, float]:
    """Return the p95 of each page, by its path."""
    with Browsing(address, key) as browsing:
        found = {}
        for path in [*_paths(browsing), *SEARCHES]:
            times = []
            for _ in range(rounds):
                seconds, page = browsing.page(path)
                times.append(seconds)
                if len(page.encode()) > PAGE_BYTES_MAX:
                    raise BenchError(f"{path} has {len(page.encode())} bytes")
            found[path] = percentile(times, 0.95)
        return found


def _paths(browsing: Browsing) -> Sequence[str]:
    """Return a path of each declared page: names in paths are taken from links."""
    patterns = {
        page.path: re.compile(_pattern(page.path)) for page in discovered() if page.act is None and not page.raw
    }
    waiting, seen, found = ["/console"], {"/console"}, dict[str, str]()
    while waiting:
        path = waiting.pop(0)
        name = next((name for name, one in patterns.items() if one.fullmatch(path)), None)
        if name is None or name in found:
            continue
        found[name] = path
        for link in _links(browsing.page(path)[1]):
            if link not in seen:
                seen.add(link)
                waiting.append(link)
    return list(found.values())


def _pattern(path: str) -> str:
    return "/console" + "".join(
        "/[^/]+" if part.startswith("{") else f"/{re.escape(part)}" for part in path.split("/")[1:] if part
    )


def _links(page: str) -> Iterator[str]:
    for match in re.finditer(r'href="(/console[^"?#]*)"', page):
        yield match[1]


async def _load(connection: Connection, deliveries: int) -> int:
    """Deliveries that were sent, some dead and held; runs that wait. Return the number of dead letters."""
    await outbox.fill(connection, "sms", deliveries, due_seconds=-60)
    dead, held = int(deliveries * DEAD_SHARE), int(deliveries * HELD_SHARE)
    await connection.execute(
        "UPDATE dispatcher.delivery_state SET ready = false, token = 1, marked = true, attempt = 1, status = 'sent',"
        " finished_at = now() WHERE id % $1::int <> 0",
        max(deliveries // max(dead + held, 1), 1),
    )
    await connection.execute(
        "UPDATE dispatcher.delivery_state SET ready = false, token = 1, marked = true, attempt = 1, held = true,"
        " held_at = now(), error = 'no answer'"
        " WHERE id IN (SELECT id FROM dispatcher.delivery_state WHERE ready ORDER BY id LIMIT $1)",
        held,
    )
    failed = await connection.execute(
        "UPDATE dispatcher.delivery_state SET ready = false, token = 1, marked = true, attempt = 1, status = 'failed',"
        " finished_at = now(), error = format('550 5.1.%s unknown user', id % 7) WHERE ready"
    )
    await runs.put(connection, runs.plan(86_400.0))
    await runs.trigger(connection, int(deliveries * RUNS_SHARE))
    await outbox.settle(connection)
    await connection.execute("VACUUM (ANALYZE) dispatcher.runs, dispatcher.dead_deliveries")
    return int(str(failed).split()[-1])
