"""A tenant moves under load, and the mover and a dispatcher are killed: nothing is sent twice, lost or held.

Three cells on a server each, of which one is dead; the others have a dispatcher each, and send to one ledger. An
application writes all the time and follows the refusals; a campaign is being expanded and sent, runs and an enrolment
wait.
"""

import asyncio
import json
import os
import random
import signal
import subprocess
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack
from pathlib import Path

import asyncpg
import pytest
from msgspec import Struct

from dispatcher.base import fault_points
from dispatcher.db.cells import TenantElsewhere, TenantMoving
from dispatcher.plans.plan import Delay, Edge, Plan, Send
from tests.faults.provider import Provider
from tests.features.cells.moving.conftest import TENANT, Cells
from tests.features.cells.moving.test_mover import rows_of_tenant, violations
from tests.support import flows
from tests.support.deployed import Campaigns
from tests.support.program import Program
from tests.support.waits import until

POINTS = tuple(point for point in fault_points.POINTS if point.startswith("move."))
QUICK = {
    "DISPATCHER_INSTANCE__HEARTBEAT_SECONDS": "0.1",
    "DISPATCHER_INSTANCE__LEASE_SECONDS": "0.6",
    "DISPATCHER_INSTANCE__LICENCE_SECONDS": "0.4",
    "DISPATCHER_CHANNELS__SMS__PROVIDER": "ledger",
    # A kill leaves marked ones, which the provider knows by their keys.
    "DISPATCHER_CHANNELS__SMS__OPTIONS__KEYED": "true",
}
MOVE = ("tenants", "move", TENANT, "--to", "2", "--yes", "--json")
CONTACTS = 150
RUNS = 20
BATCH = 10
STEP_SECONDS = 0.02
SEND = """INSERT INTO dispatcher.deliveries (idempotency_key, channel, recipient, template)
          SELECT $1 || '-' || n, 'sms', '+4917012345', '{"body": "hello"}' FROM generate_series(1, $2) AS n"""
UNKNOWN = """SELECT d.idempotency_key AS key FROM dispatcher.deliveries d
               JOIN dispatcher.delivery_attempts a ON a.delivery_id = d.id WHERE a.outcome = 'unknown'"""
HELD = "SELECT count(*) FROM dispatcher.delivery_state WHERE held"
OPEN = "SELECT count(*) FROM dispatcher.delivery_state WHERE status = 'queued'"


class Application:
    """Writes to the cell that takes it, and repeats what was refused."""

    def __init__(self, cells: Cells) -> None:
        self._urls = cells.urls
        self.at = 0
        self.written = 0
        self.refused = 0
        self.enough = False

    async def run(self) -> None:
        """Write batches until it is enough."""
        connections = [await asyncpg.connect(url) for url in self._urls]
        while not self.enough:
            try:
                await connections[self.at].execute(SEND, f"load-{self.written}", BATCH)
                self.written += 1
            except TenantMoving:
                self.refused += 1
            except TenantElsewhere:
                self.at = 1 - self.at
            await asyncio.sleep(STEP_SECONDS)
        for connection in connections:
            await connection.close()


class Stage(Struct):
    """Both cells at work."""

    cells: Cells
    programs: Sequence[Program]
    provider: Provider
    application: Application

    async def move(self, *faults: str) -> None:
        """Move the tenant; the mover is killed at each of these points."""
        for fault in faults:
            killed = await self._run(FAULT=fault)
            assert killed.returncode == -signal.SIGKILL, (fault, killed.stdout, killed.stderr)
        moved = await self._run()
        assert moved.returncode == 0, moved.stderr
        assert json.loads(moved.stdout)["phase"] == "done"

    async def _run(self, **environment: str) -> "subprocess.CompletedProcess[bytes]":
        return await asyncio.to_thread(lambda: self.programs[0].run(*MOVE, stdin=b"", **environment))

    async def wait_for(self, batches: int) -> None:
        """Wait until so many more batches are written."""
        wanted = self.application.written + batches
        await until(lambda: self.application.written >= wanted, f"{wanted} batches")

    async def sent(self) -> None:
        """Wait until everything that was written is sent, and check that it went out once."""
        await until(self._is_over, "everything is sent", 60)
        entries = self.provider.entries()
        assert {key: one.accepted for key, one in entries.items() if one.accepted != 1} == {}
        keys = {
            row["key"]
            for row in await self.cells.second.fetch("SELECT idempotency_key AS key FROM dispatcher.deliveries")
        }
        assert entries.keys() == keys
        # Only a dispatcher that was killed leaves attempts of which nobody knows, and those it repeats by their keys.
        again = {key for key, one in entries.items() if one.again}
        assert again <= {row["key"] for row in await self.cells.second.fetch(UNKNOWN)}
        assert len([key for key in keys if key.startswith("load-")]) == self.application.written * BATCH
        for connection in (self.cells.first, self.cells.second):
            assert await connection.fetchval(HELD) == 0

    async def _is_over(self) -> bool:
        return not await self.cells.second.fetchval(OPEN)


@pytest.fixture
async def stage(far_cells: tuple[Cells, str], tmp_path: Path) -> AsyncIterator[Stage]:
    """Two cells at work, with a campaign, runs and an enrolment in the first."""
    cells, dead = far_cells
    directory = tmp_path / "cells.json"
    entries = [{"number": number, "database": url} for number, url in enumerate((*cells.urls, dead), 1)]
    directory.write_text(json.dumps({"version": 1, "default": 1, "cells": entries}))
    async with AsyncExitStack() as stack:
        provider = await stack.enter_async_context(Provider(tmp_path / "books", "--dedupe", "--delay-ms-max", "50"))
        programs = []
        for number, url in enumerate(cells.urls, 1):
            program = Program(
                url,
                **QUICK,
                DISPATCHER_CELL__NUMBER=str(number),
                DISPATCHER_CELL__DIRECTORY=str(directory),
                DISPATCHER_CHANNELS__SMS__OPTIONS__PORT=str(provider.port),
            )
            stack.callback(program.end)
            programs.append(await program.start())
        await _furnish(cells)
        application = Application(cells)
        writing = asyncio.create_task(application.run())
        try:
            yield Stage(cells, programs, provider, application)
        finally:
            application.enough = True
            await writing


async def _furnish(cells: Cells) -> None:
    """A campaign that takes its time, and runs that wait for a time after the move."""
    await Campaigns(cells.first).deployed(CONTACTS, rate=40.0)
    await flows.put(cells.first, _two_mails())
    for number in range(RUNS):
        await flows.trigger(cells.first, key=f"run-{number}")


def _two_mails() -> Plan:
    first, last = (Send(step=step, channel="sms", to=("+4917012345",), parts={"body": "hello"}) for step in (0, 2))
    wait = Delay(step=1, seconds=4.0)
    return Plan(
        name="welcome",
        entry="first",
        nodes={"first": first, "wait": wait, "last": last},
        edges={"first": (Edge("wait"),), "wait": (Edge("last"),)},
    )


async def _ended(stage: Stage) -> None:
    """The campaign and the runs have come to their ends in the target."""
    second = stage.cells.second
    done = "SELECT count(*) FROM dispatcher.runs WHERE status = 'completed'"

    async def over() -> bool:
        campaign = await second.fetchval("SELECT finished_at FROM dispatcher.campaign_runs")
        return campaign is not None and await second.fetchval(done) == RUNS

    await until(over, "the campaign and the runs have ended", 60)
    run = await second.fetchrow("SELECT status, sent, intended FROM dispatcher.campaign_runs")
    assert run is not None
    assert tuple(run) == ("completed", CONTACTS, CONTACTS)


async def _check(stage: Stage) -> None:
    await stage.wait_for(5)
    stage.application.enough = True
    await _ended(stage)
    await stage.sent()
    assert await stage.cells.states() == ("elsewhere", "here")
    assert await rows_of_tenant(stage.cells.first) == {}
    again = await stage.cells.second.execute(
        """INSERT INTO dispatcher.deliveries (idempotency_key, channel, recipient, template)
           VALUES ('load-0-1', 'sms', '+4917012345', '{"body": "again"}') ON CONFLICT DO NOTHING"""
    )
    assert again == "INSERT 0 0"
    for connection in (stage.cells.first, stage.cells.second):
        assert await violations(connection) == {}


async def test_a_mover_that_is_killed_in_each_phase_and_a_dispatcher_beside_it(stage: Stage) -> None:
    await stage.wait_for(5)
    moving = asyncio.create_task(stage.move(*(f"{point}:1:kill9" for point in POINTS)))
    await until(lambda: stage.application.refused, "the doors are shut")
    process = stage.programs[0].process
    assert process is not None
    os.kill(process.pid, signal.SIGKILL)
    await asyncio.to_thread(process.wait)
    await stage.programs[0].start()
    await moving
    await _check(stage)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(8))
async def test_a_mover_that_is_killed_at_any_point_again_and_again(stage: Stage, seed: int) -> None:
    dice = random.Random(seed)  # noqa: S311 - it chooses where to kill
    # Each once, in their order; whether a page is copied depends on what was sent before.
    points = sorted(dice.sample(POINTS[1:], k=3), key=POINTS.index)
    await stage.wait_for(dice.randint(1, 40))
    await stage.move(*(f"{point}:1:kill9" for point in points))
    await _check(stage)
