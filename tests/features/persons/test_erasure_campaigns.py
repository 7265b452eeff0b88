"""Erasures beside campaigns: nobody who was erased is written to, and the counters of the run stay right."""

import asyncio
import json
from typing import Any

import pytest

from dispatcher.base.values.addresses import Address
from dispatcher.db.health import checks
from dispatcher.engine.rules.life import Failed, Succeeded
from dispatcher.features.deliveries import store as deliveries
from dispatcher.features.persons import erasure, rules
from dispatcher.features.persons import store as person_store
from dispatcher.features.persons.erasure import Erasure
from tests.features.contacts.test_store import HERE
from tests.support import flows
from tests.support.deployed import Campaigns, close, expand, items, lock, marked, phone_of, run_row
from tests.support.scene import Connection, Scene
from tests.support.traces import traces
from tests.support.waits import until_blocked

FIRST = Address("phone", phone_of(0))
WHO = rules.person_of([FIRST])


@pytest.fixture
def campaigns(connection: Connection) -> Campaigns:
    """Campaigns of the default workspace."""
    return Campaigns(connection)


async def _erase(scene: Scene, who: rules.Person = WHO) -> Erasure:
    number = await erasure.request(scene.database, HERE, who, "bob", "asked by letter")
    looked = await erasure.advance(scene.database, number)
    assert looked is not None
    return looked


async def _sound(scene: Scene) -> None:
    assert [found for name in checks.invariants() if (found := await checks.check(scene.database, name))] == []


async def test_an_erasure_waits_for_an_expansion_and_takes_what_it_has_written(
    scene: Scene, campaigns: Campaigns, connection: Connection, rival: Connection
) -> None:
    """The expansion has read the contact before it is deleted, and commits behind the look for deliveries."""
    run = await campaigns.deployed()
    job = await lock(scene)
    await connection.execute("SELECT dispatcher.keep_erased_keys()")
    number = await erasure.request(scene.database, HERE, WHO, "bob", "asked by letter")
    # It begins after the request, so that its deliveries look new.
    await rival.execute("BEGIN")
    assert await rival.fetchval("SELECT dispatcher.expand_job($1, $2)", job, scene.epoch) == 3
    erasing = asyncio.create_task(erasure.advance(scene.database, number))
    await until_blocked(connection)
    assert not erasing.done()
    await rival.execute("COMMIT")
    looked = await erasing
    assert looked is not None
    assert (looked.finished, looked.deliveries) == (True, 1)
    gone, *others = await items(scene, run)
    assert (gone["recipient"], gone["variables"]) == ("erased", "{}")
    assert (gone["status"], gone["error"]) == ("skipped", "erased")
    assert [row["status"] for row in others] == ["queued"] * 2
    await close(scene)
    assert (await run_row(scene, run))["skipped"] == 1
    assert await traces(connection, FIRST.text, "contact 0") == []
    await _sound(scene)


async def test_who_was_erased_before_the_expansion_is_not_written_to(
    scene: Scene, campaigns: Campaigns, connection: Connection
) -> None:
    run = await campaigns.deployed()
    assert (await _erase(scene)).finished
    await expand(scene)
    await close(scene)
    gone, *others = await items(scene, run)
    assert (gone["recipient"], gone["status"], gone["error"]) == ("", "skipped", "contact is gone")
    assert [row["status"] for row in others] == ["queued"] * 2
    assert await traces(connection, FIRST.text, "contact 0") == []


async def test_a_run_of_a_workflow_with_the_number_of_a_campaigns_run_goes_on(
    scene: Scene, campaigns: Campaigns, connection: Connection
) -> None:
    run = await campaigns.deployed()
    await flows.put(connection)
    flow = (await flows.trigger(connection, {"to": "nobody"}))["execution_id"]
    assert flow == run
    await expand(scene)
    looked = await _erase(scene)
    assert (looked.finished, looked.runs, looked.deliveries) == (True, 0, 1)
    assert await flows.status(connection, flow) not in ("cancelled", "paused")
    assert [row["status"] for row in await items(scene, run)] == ["skipped", "queued", "queued"]
    other = rules.person_of([Address("phone", phone_of(1))])
    found, _ = await person_store.deliveries(scene.database, HERE, other, 0, 9)
    assert [row["run_id"] for row in found] == [run]
    runs, _ = await person_store.runs(scene.database, HERE, other, 0)
    assert runs == []


@pytest.mark.parametrize("ended", [False, True])
async def test_counters_stay_right_when_items_are_erased(scene: Scene, campaigns: Campaigns, ended: bool) -> None:
    run = await campaigns.deployed()
    await expand(scene)
    first, second, third = await marked(scene)
    await scene.flush((first, Failed("550 gone")), (second, Failed("550 gone, too")))
    if ended:
        await scene.flush((third, Succeeded("m")))
    await close(scene)
    before = await run_row(scene, run)
    assert (await _erase(scene)).deliveries == 1
    await close(scene)
    assert await deliveries.reopen(scene.database, first.id, "bob", "x") == "erased"
    assert await scene.value("SELECT replayed FROM dispatcher.replay_campaign_run($1, 0, 100)", run) == 1
    await close(scene)
    after = await run_row(scene, run)
    assert (before["failed"], after["failed"], after["sent"]) == (2, 1, int(ended))
    assert (before["status"], after["status"]) == ("partial" if ended else "running", "running")
    (again,) = await marked(scene)
    await scene.flush((again, Succeeded("m")), *([] if ended else [(third, Succeeded("m"))]))
    await close(scene)
    assert (await run_row(scene, run))["status"] == "partial"
    await scene.database.fetch("UPDATE dispatcher.campaign_runs SET finished_at = finished_at - interval '1 minute'")
    assert await scene.value("SELECT dispatcher.check_campaign_counters()") == 0
    await _sound(scene)


async def test_tests_to_an_erased_address_are_not_sent(
    scene: Scene, campaigns: Campaigns, connection: Connection
) -> None:
    await campaigns.make()
    run = await campaigns.test(FIRST.text, phone_of(77))
    assert (await _erase(scene)).finished
    assert await traces(connection, FIRST.text) == []
    await expand(scene)
    rows = await items(scene, run)
    assert sorted((row["status"], row["error"]) for row in rows) == [("queued", None), ("skipped", "contact is gone")]
    await _sound(scene)


async def test_an_erasure_takes_what_a_test_has_written_beside_it(
    scene: Scene, campaigns: Campaigns, connection: Connection, rival: Connection
) -> None:
    await campaigns.make(contacts=2)
    who = rules.person_of([Address("phone", phone_of(77))])
    await campaigns.test(phone_of(77))
    job = await lock(scene)
    await connection.execute("SELECT dispatcher.keep_erased_keys()")
    number = await erasure.request(scene.database, HERE, who, "bob", "asked by letter")
    await rival.execute("BEGIN")
    assert await rival.fetchval("SELECT dispatcher.expand_job($1, $2)", job, scene.epoch) == 1
    erasing = asyncio.create_task(erasure.advance(scene.database, number))
    await until_blocked(connection)
    await rival.execute("COMMIT")
    looked = await erasing
    assert looked is not None
    assert (looked.finished, looked.deliveries) == (True, 1)
    assert await traces(connection, phone_of(77)) == []


async def test_what_a_test_says_of_an_erased_contact_goes_as_well(
    scene: Scene, campaigns: Campaigns, connection: Connection
) -> None:
    """A test goes to another address, and says what is known of a contact of the audience."""
    await campaigns.make(contacts=1)
    run = await campaigns.test(phone_of(77))
    await expand(scene)
    (item,) = await marked(scene)
    await scene.flush((item, Succeeded("m")))
    assert "deliveries.variables" in await traces(connection, "contact 0")
    assert (await _erase(scene)).finished
    (row,) = await items(scene, run)
    assert (row["recipient"], row["variables"]) == (phone_of(77), "{}")
    assert await traces(connection, FIRST.text, "contact 0") == []


async def test_reasons_that_name_the_person_are_counted_without_them(
    scene: Scene, campaigns: Campaigns, connection: Connection
) -> None:
    """Addresses and numbers are masked when they are counted; the address of a device looks like nothing."""
    token = Address("other", "Device-Xyz")
    run = await campaigns.deployed()
    await expand(scene)
    first, second, _ = await marked(scene)
    await scene.flush((first, Failed("no device Device-Xyz at ann@example.org")), (second, Failed("no route")))
    await close(scene)
    await connection.execute("UPDATE dispatcher.job_queue SET error = 'what Device-Xyz said'")
    await campaigns.connection.execute(
        "SELECT dispatcher.note_campaign($1, NULL, 'bob', 'pause', NULL, NULL, 'Device-Xyz has complained')", run
    )
    assert (await _erase(scene, who=rules.person_of([FIRST, token]))).finished
    reasons = await connection.fetch("SELECT class, reason, count FROM dispatcher.campaign_run_reasons ORDER BY reason")
    assert [tuple(row) for row in reasons] == [("failed", "erased", 1), ("failed", "no route", 1)]
    assert await traces(connection, "device-xyz", "ann@example.org") == []


async def test_a_person_is_shown_what_campaigns_have_sent_them(scene: Scene, campaigns: Campaigns) -> None:
    run = await campaigns.deployed()
    await expand(scene)
    found, _ = await person_store.timeline(scene.database, HERE, FIRST, person_store.END, 9)
    assert found[0]["reason"] == f"run {run} of the campaign spring, deployed by ann"
    assert (found[0]["run_id"], found[0]["campaign"], found[0]["workflow"]) == (run, "spring", None)
    records: list[dict[str, Any]] = []
    place: tuple[int, int] | None = person_store.BEGIN
    while place is not None:
        page, place = await person_store.export(scene.database, HERE, WHO, place, 9)
        records += page
    (delivery,) = [one for one in records if one["record"] == "delivery"]
    assert (delivery["campaign"], delivery["run_id"]) == ("spring", run)
    assert json.loads(bytes(delivery["variables"]))["contact"] == {"name": "Contact 0"}
    assert [one["record"] for one in records if one["record"] == "run"] == []
