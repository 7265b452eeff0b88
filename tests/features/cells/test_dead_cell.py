"""A dead cell changes nothing for the others. It has two cells of its own, since others share theirs."""

import json
import os
import signal

import psutil

from tests.features.cells.conftest import Cells, sent
from tests.support.caller import delivery


async def test_check_names_what_is_wrong_and_a_dead_cell_changes_nothing_elsewhere(cells: Cells) -> None:
    check = ("cells", "check", "--json")
    agreed = cells.programs[1].run(*check)
    assert (agreed.returncode, json.loads(agreed.stdout)["faults"]) == (0, [])
    told = cells.programs[1].run(*check, DISPATCHER_CELL__DIRECTORY=str(cells.stale))
    (stale,) = json.loads(told.stdout)["faults"]
    assert "tenant acme is in cell 2" in stale
    beta = cells.caller(1, "beta")
    os.kill(cells.postmaster, signal.SIGKILL)
    await cells.programs[1].until(lambda: not psutil.pid_exists(cells.postmaster), "the server is gone")
    for number in range(20):
        assert beta.post("/deliveries", delivery(f"beside-a-dead-cell-{number}")).status == 201
    for number in range(20):
        await sent(cells, f"beside-a-dead-cell-{number}", 1)
    assert cells.programs[1].get("/readyz")[0] == 200
    found = cells.caller(1, "operators").get("/cells").json
    assert [bool(cell["faults"]) for cell in found["cells"]] == [False, True]
    named = cells.programs[1].run(*check)
    assert named.returncode == 1
    assert all(fault.startswith("cell 2: ") for fault in json.loads(named.stdout)["faults"])
