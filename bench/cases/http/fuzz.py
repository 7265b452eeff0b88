"""Fuzzed requests over HTTP: what is answered, how fast, and how much of it the server's memory keeps."""

import asyncio
import json
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from http import HTTPStatus
from pathlib import Path

from msgspec import Struct, field
from rich.console import Console
from rich.table import Table

from bench import outbox, runs
from bench.fuzzing.client import Answered, Client
from bench.fuzzing.corpus import Asked, corpus
from bench.fuzzing.mutations import Mutator
from bench.fuzzing.sound import SOUND
from bench.measure import BenchError, Measure, beside, median
from bench.process import Dispatcher, dispatching
from bench.server import Connection, Server
from dispatcher.base.workspace import Workspace
from dispatcher.config.settings import Database as Settings
from dispatcher.db.database import Database
from dispatcher.features.keys import store as keys
from dispatcher.http.roles import Role

# Requests.
DELIVERIES = 200_000
ROUNDS = 1

GROWTH_MEGABYTES_MAX = 50.0
CLIENTS = 8
# Until pools and caches have their size.
WARM_UP_SHARE = 0.1
WARM_UP_MAX = 10_000
EXAMPLES = 40
EXAMPLES_SHORT = 4
SHORT = 10_000
SEED = 6
SECONDS_MAX = 7_200.0
LOOKS = 5
LOOK_SECONDS = 0.2
CRASHES_KEPT_MAX = 20
# Of each role, of elsewhere, and such as open nothing; most requests show one that opens everything.
ADMIN_SHARE = 0.7
HOME = Workspace("default", "default")
FOREIGN = (Workspace("acme", "default"), Workspace("default", "other"))
# What says that there is too much to do is meant.
DELIBERATE = (b"urn:dispatcher:problem:overloaded", b"urn:dispatcher:problem:crowded", b"have been waiting for")
SETTINGS = {
    **{f"CHANNELS__{name}__PROVIDER": "blackhole" for name in ("EMAIL", "SMS", "PUSH", "VOICE")},
    # So that something is held, and something dead.
    "CHANNELS__PUSH__FAULTS__UNKNOWN": "0.5",
    "CHANNELS__VOICE__FAULTS__REFUSE": "0.5",
    "API__KEY_RATE_PER_SECOND": "0",
    "HTTP__PORT": "0",
}
METHOD = (
    "RSS of the server after {requests} requests over {clients} kept connections, less RSS after the first {warm}. "
    "Sound and unsound requests for each operation, made by Schemathesis of the document, most of them with more done "
    "to them, with keys of every role, of elsewhere and bad ones. Less is better; limit 50 MB. An answer of 500 or "
    "over, but for 503 where too much waits, fails the case."
)


class Tally(Struct):
    """The answers of a run, and those that are forbidden."""

    statuses: Counter[tuple[str, int]] = field(default_factory=Counter)
    crashes: list[tuple[bytes, Answered]] = field(default_factory=list)
    failed: int = 0


async def run(server: Server, deliveries: int, rounds: int) -> list[Measure]:
    """Growth, speed and failures, of all rounds."""
    grown: list[float] = []
    rates: list[float] = []
    plain: list[float] = []
    tally = Tally()
    async with asyncio.timeout(SECONDS_MAX):
        for number in range(rounds):
            growth, rate, simple = await _round(server, deliveries, SEED + number, tally)
            grown.append(growth)
            rates.append(rate)
            plain.append(simple)
    _show(tally)
    if tally.failed or max(grown) > GROWTH_MEGABYTES_MAX:
        raise BenchError(f"{tally.failed} answers were failures, and memory grew by {max(grown):.1f} MB{_kept(tally)}")
    warm = _warm_up(deliveries)
    method = METHOD.format(requests=deliveries, clients=CLIENTS, warm=warm)
    return [
        beside("fuzz", "MB growth", max(grown), "limit", GROWTH_MEGABYTES_MAX, method),
        beside(
            "fuzz.rate", "requests/s", median(rates), "of a probe", median(plain), "As many clients, nothing fuzzed."
        ),
        beside(
            "fuzz.failed",
            "answers",
            tally.failed,
            "limit, and less",
            1.0,
            "Answers of 500 or over, 503 aside.",
        ),
    ]


def _warm_up(requests: int) -> int:
    return min(int(requests * WARM_UP_SHARE), WARM_UP_MAX)


async def _round(server: Server, requests: int, seed: int, tally: Tally) -> tuple[float, float, float]:
    async with outbox.outbox(server) as (url, connection):
        await _furnish(connection)
        shown = await _keys(url)
        async with dispatching(url, **SETTINGS) as process:
            await process.started(connection)
            address = await process.address()
            document = json.loads((await _get(address, "/openapi.json")).body)
            examples = EXAMPLES if requests >= SHORT else EXAMPLES_SHORT
            # As many again as one operation has: otherwise hardly anything is there to be done something to.
            made = [*await asyncio.to_thread(corpus, document, examples), *SOUND * (examples // 4)]
            simple = await _probe(address, max(requests // 100, CLIENTS))
            warm = _warm_up(requests)
            await _fuzz(address, made, shown, tally, warm, seed)
            before = await _rss(process)
            begun = time.perf_counter()
            await _fuzz(address, made, shown, tally, requests - warm, ~seed)
            seconds = time.perf_counter() - begun
            return await _rss(process) - before, (requests - warm) / seconds, simple


async def _furnish(connection: Connection) -> None:
    """Something of everything: deliveries that wait, are held, sent and dead, and runs."""
    await runs.put(connection, runs.plan(3_600.0))
    await runs.trigger(connection, 200)
    for channel in ("sms", "push", "voice"):
        await outbox.fill(connection, channel, 300)
    await outbox.fill(connection, "email", 500, due_seconds=86_400)


async def _keys(url: str) -> list[str]:
    """The values of `Authorization`: first that of an administrator."""
    database = Database(Settings(), url)
    await database.open()
    try:
        made = [await _key(database, HOME, Role.SYSTEM_ADMIN), *[await _key(database, HOME, role) for role in Role]]
        made += [await _key(database, place, Role.SYSTEM_ADMIN) for place in FOREIGN]
        bad = [await _key(database, HOME, Role.SYSTEM_ADMIN, name) for name in ("revoked", "expired")]
        await keys.revoke(database, HOME, "revoked", by=("bench", "a test"))
        await database.value("UPDATE dispatcher.api_keys SET expires_at = now() WHERE name = 'expired' RETURNING id")
    finally:
        await database.close()
    mixed = made[0].rpartition("_")[0] + "_" + made[1].rpartition("_")[2]
    return [*(f"Bearer {one}" for one in (*made, *bad, mixed)), "Basic eDp5", "Bearer", "", "Bearer \xff", made[0]]


async def _key(database: Database, place: Workspace, role: Role, name: str = "") -> str:
    named = name or f"{role.value}-{random.randrange(10**9)}"  # noqa: S311 - a name
    later = datetime.now(UTC) + timedelta(days=1)
    made = await keys.create(database, place, named, role, later, by=("bench", "a test"))
    if made is None:
        raise BenchError(f"the key {named} is there already")
    return made.text


async def _get(address: str, path: str) -> Answered:
    client = Client(address)
    answered = await client.ask(f"GET {path} HTTP/1.1\r\nHost: x\r\n\r\n".encode(), "GET")
    await client.close()
    return answered


async def _probe(address: str, requests: int) -> float:
    """The rate of requests that ask for nothing."""

    async def ask() -> None:
        client = Client(address)
        for _ in range(requests // CLIENTS):
            await client.ask(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n", "GET")
        await client.close()

    begun = time.perf_counter()
    await asyncio.gather(*(ask() for _ in range(CLIENTS)))
    return requests // CLIENTS * CLIENTS / (time.perf_counter() - begun)


async def _fuzz(
    address: str, made: Sequence[Asked], shown: Sequence[str], tally: Tally, requests: int, seed: int
) -> None:
    """So many requests, by several clients, each with dice of its own."""
    shares = [requests // CLIENTS + (number < requests % CLIENTS) for number in range(CLIENTS)]
    await asyncio.gather(
        *(_client(address, made, shown, tally, share, f"{seed}-{number}") for number, share in enumerate(shares))
    )


async def _client(
    address: str, made: Sequence[Asked], shown: Sequence[str], tally: Tally, requests: int, seed: str
) -> None:
    dice = random.Random(seed)  # noqa: S311 - the same requests each time
    mutator, client = Mutator(dice), Client(address)
    for _ in range(requests):
        asked = mutator.next(dice.choice(made))
        key = shown[0] if dice.random() < ADMIN_SHARE else dice.choice(shown)
        sent = _bytes(asked, key)
        answered = await client.ask(sent, asked.method)
        tally.statuses[asked.operation, answered.status] += 1
        if _is_failure(answered):
            tally.failed += 1
            if len(tally.crashes) < CRASHES_KEPT_MAX:
                tally.crashes.append((sent, answered))
    await client.close()


def _bytes(asked: Asked, key: str) -> bytes:
    target = asked.path + (f"?{asked.query}" if asked.query else "")
    headers = [("Host", "x"), *asked.headers, *([("Authorization", key)] if key else [])]
    body = asked.body or b""
    if asked.body is not None:
        headers.append(("Content-Length", str(len(body))))
    lines = "".join(f"{name}: {_line(value)}\r\n" for name, value in headers)
    return f"{asked.method} {target} HTTP/1.1\r\n{lines}\r\n".encode("latin-1", "replace") + body


def _line(value: str) -> str:
    """A header may say whatever it likes, and ends where it ends: a client that splits it sends two requests."""
    return value.replace("\r", "").replace("\n", "")


def _is_failure(answered: Answered) -> bool:
    meant = answered.status == HTTPStatus.SERVICE_UNAVAILABLE and any(one in answered.body for one in DELIBERATE)
    return answered.status >= HTTPStatus.INTERNAL_SERVER_ERROR and not meant


def _kept(tally: Tally) -> str:
    """Where the requests are that failed, to be sent again."""
    if not tally.crashes:
        return ""
    folder = Path(tempfile.mkdtemp(prefix="dispatcher-fuzz-"))
    for number, (sent, answered) in enumerate(tally.crashes):
        (folder / f"{number:02}.request").write_bytes(sent)
        (folder / f"{number:02}.answer").write_bytes(f"{answered.status}\n".encode() + answered.body)
    return f"; the requests are in {folder}"


async def _rss(process: Dispatcher) -> float:
    """Its memory, when what was asked for last is done."""
    looks = []
    for _ in range(LOOKS):
        await asyncio.sleep(LOOK_SECONDS)
        looks.append(process.rss_megabytes())
    return median(looks)


def _show(tally: Tally) -> None:
    """Beside the report, which has one number a line."""
    by_operation: dict[str, Counter[int]] = {}
    for (operation, status), count in sorted(tally.statuses.items()):
        by_operation.setdefault(operation, Counter())[status] += count
    table = Table("operation", "answers")
    for operation, counts in by_operation.items():
        table.add_row(operation, _counted(counts))
    total: Counter[int] = sum(by_operation.values(), Counter())
    table.add_row(f"all {total.total():,}", _counted(total))
    Console(file=sys.stderr).print(table)


def _counted(counts: Mapping[int, int]) -> str:
    """0 is a connection that was closed without an answer."""
    return "  ".join(f"{status}: {count:,}" for status, count in sorted(counts.items()))
