"""The selftest in short: what it promises about a run, and that it leaves nothing behind."""

import asyncio
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from dispatcher.db.database import Database
from dispatcher.selftest.audit import Audit
from dispatcher.selftest.ledger_file import Entry
from dispatcher.selftest.plan import Plan, through, upstream, with_database
from tests.support.examples import examples
from tests.support.forks import ROOT

pytestmark = pytest.mark.anyio

SECONDS_MAX = 240
REPLICAS = "2"
# Each costs a start of the program; death at every point of the protocol is tried by its own tests.
KILLS = examples(3, 6)
CAMPAIGN_KILLS = examples(2, 4)


def start(url: str, *arguments: str) -> "subprocess.Popen[str]":
    kept = {name: text for name, text in os.environ.items() if not name.startswith("DISPATCHER_")}
    return subprocess.Popen(
        [sys.executable, "-m", "dispatcher", "selftest", "--replicas", REPLICAS, *arguments],
        env=kept | {"DISPATCHER_DATABASE_URL": url},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=ROOT,
    )


def selftest(url: str, *arguments: str) -> dict[str, Any]:
    process = start(url, *arguments, "--json")
    try:
        out, errors = process.communicate(timeout=SECONDS_MAX)
    finally:
        process.kill()
    assert out, errors
    report = json.loads(out)
    assert process.returncode == (0 if report["passed"] else 1), errors
    return dict(report)


async def databases(server: str) -> set[str]:
    admin = await asyncpg.connect(server)
    try:
        rows = await admin.fetch("SELECT datname FROM pg_database WHERE datname LIKE 'dispatcher_selftest_%'")
    finally:
        await admin.close()
    return {row["datname"] for row in rows}


async def test_kills_lose_nothing_and_send_nothing_twice(server: str) -> None:
    report = await asyncio.to_thread(selftest, server, "--kill", str(KILLS), "--messages", "3000", "--seed", "11")
    assert report["violations"] == []
    assert report["passed"]
    keyed, keyless = report["providers"]["keyed"], report["providers"]["keyless"]
    assert (keyed["messages"], keyed["sent"], keyed["accepted"]) == (1500, 1500, 1500)
    assert (keyed["duplicates"], keyed["lost"], keyed["held"]) == (0, 0, 0)
    assert (keyless["duplicates"], keyless["lost"]) == (0, 0)
    assert keyless["sent"] + keyless["held"] == 1500
    assert keyless["sent"] + keyless["held_accepted"] == keyless["accepted"]
    done = report["disturbed"]
    assert sum(done["kills"].values()) >= KILLS
    assert sum(done["cuts"].values()) == KILLS
    assert done["in_flight_average"] > 0
    assert done["recovery_seconds"]["missing"] == 0
    assert await databases(server) == set()


async def test_cuts_alone_hold_nothing(server: str) -> None:
    arguments = ("--kill", "0", "--cuts", "15", "--messages", "2000", "--lease", "3", "--seed", "12")
    report = await asyncio.to_thread(selftest, server, *arguments)
    assert report["violations"] == []
    for tally in report["providers"].values():
        assert (tally["sent"], tally["accepted"], tally["held"], tally["duplicates"]) == (1000, 1000, 0, 0)
    assert sum(report["disturbed"]["cuts"].values()) == 15
    assert report["disturbed"]["kills"] == {}


async def test_kills_leave_the_books_of_campaigns_right(server: str) -> None:
    arguments = ("--campaign", "--kill", str(CAMPAIGN_KILLS), "--messages", "4000", "--seed", "13")
    report = await asyncio.to_thread(selftest, server, *arguments)
    assert report["violations"] == []
    assert {run["channel"] for run in report["runs"]} == {"keyed", "keyless"}
    for run in report["runs"]:
        tally = report["providers"][run["channel"]]
        assert (tally["messages"], tally["duplicates"], tally["lost"]) == (2000, 0, 0)
        assert (run["sent"], run["failed"], run["held"]) == (tally["sent"], tally["failed"], tally["held"])
        assert run["intended"] == run["sent"] + run["failed"] + run["held"] == 2000
        assert run["sent"] == tally["accepted"] - tally["held_accepted"]
        assert (run["status"] == "running") == bool(run["held_ids"])
    assert await databases(server) == set()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
async def test_interrupted_it_leaves_nothing_behind(server: str, number: signal.Signals, tmp_path: Path) -> None:
    process = await asyncio.to_thread(_interrupted, server, number, tmp_path)
    assert process.returncode == 130
    assert await databases(server) == set()
    assert await asyncio.to_thread(_left, tmp_path) == []


def _interrupted(server: str, number: signal.Signals, folder: Path) -> "subprocess.Popen[str]":
    """Begin, and interrupt it as soon as its first replica has a log."""
    kept = {name: text for name, text in os.environ.items() if not name.startswith("DISPATCHER_")}
    with subprocess.Popen(
        [sys.executable, "-m", "dispatcher", "selftest", "--json"],
        env=kept | {"DISPATCHER_DATABASE_URL": server, "TMPDIR": str(folder)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=ROOT,
    ) as process:
        for _ in range(600):
            if any(path.stat().st_size for path in folder.glob("*/replica-*.log")):
                break
            try:
                process.wait(0.05)
            except subprocess.TimeoutExpired:
                continue
        process.send_signal(number)
        out, _ = process.communicate(timeout=60)
        assert not out
    return process


def _left(folder: Path) -> list[str]:
    """The remains of a run: files, and processes (replicas, providers) whose command line names the folder."""
    found = [str(path) for path in folder.iterdir()]
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if bytes(folder) in path.read_bytes():
                found.append(str(path))
        except OSError:
            continue
    return found


# What it finds, where there is something to be found


async def test_the_audit_names_what_the_books_contradict(database: Database, connection: Any) -> None:
    await connection.execute(
        """
        INSERT INTO dispatcher.deliveries (idempotency_key, channel, recipient, template)
        SELECT 'k' || n, 'keyless', '+4917012345', '{"body": "x"}' FROM generate_series(1, 7) AS n;
        UPDATE dispatcher.delivery_state
           SET ready = false, marked = true, token = 1, attempt = 1, status = 'sent', finished_at = now(),
               provider_message_id = 'ledger-' || id WHERE id IN (1, 2, 3);
        UPDATE dispatcher.delivery_state
           SET ready = false, marked = true, token = 1, attempt = 1, status = 'failed', finished_at = now(),
               error = 'why' WHERE id = 4;
        UPDATE dispatcher.delivery_state
           SET ready = false, marked = true, token = 1 << 24, attempt = 1, held = true, held_at = now(),
               error = 'unknown'
         WHERE id = 5;
        UPDATE dispatcher.delivery_state
           SET ready = false, marked = true, token = 2 << 24, attempt = 1, held = true, held_at = now(),
               error = 'unknown'
         WHERE id = 6;
        """
    )
    books = {
        "k1": Entry(delivery_id=1, accepted=2, first_sequence=1),
        "k3": Entry(delivery_id=3, accepted=1, first_sequence=8),
        "k4": Entry(delivery_id=4, accepted=1, first_sequence=4),
        "k6": Entry(delivery_id=6, accepted=1, first_sequence=6),
    }
    audit = Audit(database, {2})
    await audit.compare("keyless", books, 8, may_hold=True)
    found = {violation.what: violation.ids for violation in audit.violations}
    assert found == {
        "keyless: accepted more than once": [1],
        "keyless: sent, although the provider does not have it": [2],
        "keyless: sent under the id of another message": [3],
        "keyless: failed, although the provider has it": [4],
        "keyless: held, although nobody had killed or stopped its owner": [5],
        "keyless: neither sent nor held nor failed": [7],
        "keyless: 7 deliveries for 8 messages": [],
    }
    tally = audit.tallies["keyless"]
    assert (tally.sent, tally.failed, tally.held, tally.held_accepted, tally.lost) == (3, 1, 2, 1, 3)


async def test_the_audit_runs_every_invariant(database: Database, connection: Any) -> None:
    await connection.execute(
        """
        INSERT INTO dispatcher.deliveries (idempotency_key, channel, recipient, template)
        VALUES ('k', 'keyless', '+4917012345', '{"body": "x"}');
        UPDATE dispatcher.delivery_state
           SET ready = false, status = 'sent', marked = true, token = 1, attempt = 1, finished_at = now()
        """
    )
    audit = Audit(database, ())
    await audit.check()
    assert [violation.what for violation in audit.violations] == ["invariant terminal_ones_have_an_outcome"]


# The plan


def test_messages_are_held_back_for_what_is_still_to_come() -> None:
    plan = Plan(kills=3, messages=1_000, replicas=1, seed=0, lease_seconds=1.0, cuts=1)
    assert [plan.may_be_written(done) for done in range(5)] == [200, 400, 600, 800, 1_000]


@pytest.mark.parametrize(
    ("url", "listens", "proxied"),
    [
        (
            "postgresql://me:s%40cret@db.example:6432/mine",
            "db.example:6432",
            "postgresql://me:s%40cret@127.0.0.1:7000/mine?sslmode=disable",
        ),
        (
            "postgresql://postgres:@/mine?host=/run/pg",
            "/run/pg/.s.PGSQL.5432",
            "postgresql://postgres:@127.0.0.1:7000/mine?sslmode=disable",
        ),
        ("postgresql://h/mine?sslmode=require", "h:5432", "postgresql://127.0.0.1:7000/mine?sslmode=require"),
    ],
)
def test_a_url_leads_through_the_proxy(url: str, listens: str, proxied: str) -> None:
    assert upstream(url) == listens
    assert through(url, 7_000) == proxied


def test_a_database_of_its_own_is_on_the_same_server() -> None:
    assert with_database("postgresql://u:p@h:1/a?host=/run&dbname=b", "c") == "postgresql://u:p@h:1/c?host=/run"
    assert with_database("postgresql://h", "c") == "postgresql://h/c"
