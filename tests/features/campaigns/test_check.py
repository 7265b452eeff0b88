"""The check of a run: a sound one has no breach, and each breach is found and named."""

from typing import Any

import pytest

from tests.features.campaigns.surface import deploy, ended, prepare
from tests.support.caller import Caller
from tests.support.scene import Connection


def check(admin: Caller, run: int) -> dict[str, Any]:
    """What the check says."""
    answer = admin.get(f"/campaign-runs/{run}/check")
    assert answer.status == 200, answer.body
    found: dict[str, Any] = answer.json
    return found


_ONE = "(SELECT min(id) FROM dispatcher.deliveries WHERE run_id = $1)"
BREAKS = {
    "run is open": (
        "UPDATE dispatcher.campaign_runs SET status = 'running', finished_at = NULL WHERE id = $1",
        [1, 0, 0],
        "the run is running",
    ),
    "row is missing": (f"DELETE FROM dispatcher.deliveries WHERE id = {_ONE}", [0, 1, 0], "has no row"),
    "row is not terminal": (
        f"UPDATE dispatcher.delivery_state SET status = 'queued', finished_at = NULL WHERE id = {_ONE}",
        [0, 1, 0],
        "its row is not terminal",
    ),
    "row is held": (
        f"""UPDATE dispatcher.delivery_state SET status = 'queued', finished_at = NULL, held = true, held_at = now(),
                   marked = true, token = 1 WHERE id = {_ONE}""",
        [0, 1, 0],
        "is held: nobody knows whether it was sent",
    ),
    "address twice": (
        """UPDATE dispatcher.deliveries SET recipient = '+4917077777' WHERE run_id = $1""",
        [0, 0, 1],
        "its address was written to by 3 deliveries",
    ),
    "message id twice": (
        "UPDATE dispatcher.delivery_state s SET provider_message_id = 'x' FROM dispatcher.deliveries d"
        " WHERE d.id = s.id AND d.run_id = $1",
        [0, 0, 1],
        "3 deliveries have its provider's message id",
    ),
    "item twice": (
        """UPDATE dispatcher.job_queue SET contact_ids = contact_ids || contact_ids[1], intended = intended + 1
            WHERE run_id = $1""",
        [0, 0, 1],
        "is in its job 2 times",
    ),
    "row of another run": (
        f"UPDATE dispatcher.deliveries SET run_id = run_id + 1000 WHERE id = {_ONE}",
        [0, 0, 1],
        "its row belongs to job",
    ),
    "row of no item": (
        "UPDATE dispatcher.job_queue SET contact_ids = contact_ids[2:], intended = intended - 1 WHERE run_id = $1",
        [0, 0, 1],
        "a row of no item of its job",
    ),
}


@pytest.mark.parametrize("broken", BREAKS)
async def test_each_breach_is_found_and_named(admin: Caller, inside: Connection, broken: str) -> None:
    name = broken.replace(" ", "-")
    prepare(admin, name)
    run = (await ended(admin, deploy(admin, name)))["id"]
    sound = check(admin, run)
    assert (sound["broken"], sound["breaches"], sound["items"], sound["jobs"]) == ([0, 0, 0], [], 3, 1)
    change, expected, words = BREAKS[broken]
    async with inside.transaction():
        # What the schema itself does not allow, a hand that owns the tables does.
        await inside.execute("SET LOCAL session_replication_role = replica")
        await inside.execute(change, run)
    found = check(admin, run)
    assert found["broken"] == expected
    (breach,) = found["breaches"]
    assert breach["fault"].startswith(words)
    assert (breach["item"] is None) == (expected[0] == 1)


async def test_what_was_skipped_is_terminal_and_a_test_is_checked_by_its_addresses(admin: Caller) -> None:
    prepare(admin, "of-test", 1)
    run = admin.post("/campaigns/of-test/test", {"recipients": ["+4917088888", "nobody"]}).json["run_id"]
    await ended(admin, run)
    assert check(admin, run)["broken"] == [0, 0, 0]


async def test_a_check_goes_on_from_job_to_job(admin: Caller, inside: Connection) -> None:
    prepare(admin, "several", 1)
    run = (await ended(admin, deploy(admin, "several")))["id"]
    await inside.execute(
        """INSERT INTO dispatcher.job_queue (run_id, tenant_id, workspace_id, job_type, intended, contact_ids, status)
           SELECT $1, 'default', 'default', 'x', 1, ARRAY[n], 'completed' FROM generate_series(900001, 900004) AS n""",
        run,
    )
    broken, jobs, cursor = [0, 0, 0], 0, ""
    while True:
        page = admin.get(f"/campaign-runs/{run}/check?limit=2{cursor}").json
        broken = [one + more for one, more in zip(broken, page["broken"], strict=True)]
        jobs += page["jobs"]
        if page["next_cursor"] is None:
            break
        cursor = f"&cursor={page['next_cursor']}"
    assert (broken, jobs) == ([0, 4, 0], 5)
