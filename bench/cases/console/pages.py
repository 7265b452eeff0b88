"""The time of each page of the console with a million deliveries, 100,000 runs and 10,000 dead letters."""

import asyncio
import re
from collections.abc import Iterator, Sequence

from bench import outbox
from bench.cases.console import loading
from bench.cases.console.browsing import Browsing
from bench.cases.http.api import make_key
from bench.measure import BenchError, Measure, beside, percentile
from bench.process import dispatching
from bench.server import Server
from dispatcher.console.page import discovered

DELIVERIES = 1_000_000
# Visits of each page.
ROUNDS = 25

LIMIT_MILLISECONDS = 100.0
WAIT_SECONDS_MAX = 300.0
PAGE_BYTES_MAX = 150_000
SETTINGS = {"CHANNELS__SMS__PROVIDER": "blackhole"}
# Searches, beside the pages themselves: what nobody can find, and what most deliveries are.
SEARCHES = (
    "/console/deliveries?life=failed",
    "/console/deliveries?life=held",
    "/console/deliveries?q=no-such-words",
    "/console/deliveries?q=%2B4915110000007",
    "/console/deliveries?channel=sms&life=sent",
    "/console/deliveries?campaign=everybody",
    "/console/dead/deliveries?error=no-such-words",
    "/console/held?error=no-such-words",
    "/console/runs?status=failed",
    "/console/contacts?q=no+such+name",
    "/console/contacts?status=no-such-status",
)

METHOD = (
    "p95 of {rounds} visits of the slowest of {pages} pages and searches ({slowest}), one visitor on a kept connection,"
    " with {deliveries} deliveries, {runs} runs and {dead} dead letters in one workspace, none under way. No page is "
    "over 150 KB. Less is better; limit 1."
)


async def run(server: Server, deliveries: int, rounds: int) -> list[Measure]:
    """Visit every page that can be reached from another."""
    async with outbox.outbox(server) as (url, connection):
        dead = await loading.load(connection, deliveries)
        async with dispatching(url, **SETTINGS) as process:
            await process.started(connection)
            # The pages are measured by what is there, and not by the work of a process that has begun with it.
            await process.until(lambda: loading.waits(connection), "its runs wait", WAIT_SECONDS_MAX, 0.5)
            key, address = make_key(url), await process.address()
            found = await asyncio.to_thread(_visit, address, key, rounds)
    slowest = max(found, key=lambda path: found[path])
    method = METHOD.format(
        rounds=rounds,
        pages=len(found),
        slowest=slowest,
        deliveries=deliveries,
        runs=int(deliveries * loading.RUNS_SHARE),
        dead=dead,
    )
    return [beside("console.pages", "ms", found[slowest] * 1e3, "limit", LIMIT_MILLISECONDS, method)]


def _visit(address: str, key: str, rounds: int) -> dict[str, float]:
    """Return the p95 of each page, by its path."""
    with Browsing(address, key) as browsing:
        found = {}
        for path in [*paths(browsing), *SEARCHES]:
            times = []
            for _ in range(rounds):
                seconds, page = browsing.page(path)
                times.append(seconds)
                if len(page.encode()) > PAGE_BYTES_MAX:
                    raise BenchError(f"{path} has {len(page.encode())} bytes")
            found[path] = percentile(times, 0.95)
        return found


def paths(browsing: Browsing) -> Sequence[str]:
    """Return a path of each declared page: names in paths are taken from links."""
    patterns = {
        page.path: re.compile(_pattern(page.path)) for page in discovered() if page.act is None and not page.raw
    }
    forms = [re.compile(_pattern(page.path)) for page in discovered() if page.act is not None]
    waiting, seen, found = ["/console"], {"/console"}, dict[str, str]()
    while waiting:
        path = waiting.pop(0)
        name = next((name for name, one in patterns.items() if one.fullmatch(path)), None)
        if name is None or name in found or any(one.fullmatch(path) for one in forms):
            continue
        found[name] = path
        for link in _links(browsing.page(path)[1]):
            if link not in seen:
                seen.add(link)
                waiting.append(link)
    if missing := patterns.keys() - found.keys():
        raise BenchError(f"no page leads to {', '.join(sorted(missing))}")
    return list(found.values())


def _pattern(path: str) -> str:
    return "/console" + "".join(
        "/[^/]+" if part.startswith("{") else f"/{re.escape(part)}" for part in path.split("/")[1:] if part
    )


def _links(page: str) -> Iterator[str]:
    for match in re.finditer(r'href="(/console[^"?#]*)', page):
        yield match[1]
