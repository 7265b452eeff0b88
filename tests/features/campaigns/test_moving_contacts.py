"""Contacts that change beside an expansion: one mailbox gets one message, and nobody vanishes."""

import pytest

from tests.features.campaigns.stage import Stage, open_transaction
from tests.support.scene import Connection


async def test_an_address_that_moves_to_another_contact_gets_one_message(
    campaigns: Stage, connection: Connection
) -> None:
    status, (first, second) = await campaigns.people(2)
    run_id = await campaigns.deploy(status, 1)
    job_id = await campaigns.lock()
    assert job_id is not None
    assert await campaigns.expand(job_id) == 1
    address = await campaigns.value("SELECT written FROM dispatcher.contact_addresses WHERE contact_id = $1", first)
    key = f"{status}-2"
    await campaigns.database.fetch("DELETE FROM dispatcher.contact_addresses WHERE contact_id = $1", first)
    said = f'{{"addresses": [{{"kind": "phone", "address": "{address}", "written": "{address}"}}]}}'
    put = "SELECT answer FROM dispatcher.put_contact('default', 'default', $1, $2, 'upsert', NULL, 'ann')"
    assert await campaigns.value(put, key, said) == "changed"
    assert await campaigns.expand_all() == 1
    assert second is not None
    assert await campaigns.send() == 1
    await campaigns.close()
    assert await campaigns.items(run_id) == {
        "sent": 1,
        "skipped: duplicate: the run has already written to this address": 1,
    }
    assert await campaigns.statuses(run_id) == ("completed", ["completed", "completed"])


async def test_an_address_that_moves_beside_an_expansion_gets_one_message(
    campaigns: Stage, connection: Connection
) -> None:
    """The second expansion waits for the first one, and sees to whom it has written."""
    status, (first, _) = await campaigns.people(2)
    run_id = await campaigns.deploy(status, 1)
    job_id = await campaigns.lock()
    other = Stage(campaigns.scene)
    other.scene = await type(campaigns.scene).open(campaigns.database)
    next_id = await other.lock()
    assert job_id is not None
    assert next_id not in (None, job_id)
    address = await campaigns.value("SELECT written FROM dispatcher.contact_addresses WHERE contact_id = $1", first)
    async with open_transaction(connection, "SELECT dispatcher.expand_job($1, $2)", job_id, campaigns.scene.epoch):
        await campaigns.database.fetch("DELETE FROM dispatcher.contact_addresses WHERE contact_id = $1", first)
        said = f'{{"addresses": [{{"kind": "phone", "address": "{address}", "written": "{address}"}}]}}'
        put = "SELECT answer FROM dispatcher.put_contact('default', 'default', $1, $2, 'upsert', NULL, 'ann')"
        assert await campaigns.value(put, f"{status}-2", said) == "changed"
        assert await other.expand(int(next_id or 0)) is None
    assert await other.lock() == next_id
    assert await other.expand(int(next_id or 0)) == 1
    assert await campaigns.send() == 1
    await campaigns.sound()
    assert (await campaigns.run(run_id))["status"] == "completed"


@pytest.mark.parametrize("written", ["Ann@Example.org", "ann@example.org"])
async def test_an_address_that_is_written_in_another_way_is_the_same(campaigns: Stage, written: str) -> None:
    status, (first, second) = await campaigns.people(2)
    change = "UPDATE dispatcher.contact_addresses SET address = 'ann@example.org', written = $2 WHERE contact_id = $1"
    await campaigns.database.fetch(change, first, written)
    run_id = await campaigns.deploy(status, 1)
    job_id = await campaigns.lock()
    assert job_id is not None
    await campaigns.expand(job_id)
    await campaigns.database.fetch("DELETE FROM dispatcher.contact_addresses WHERE contact_id = $1", first)
    await campaigns.database.fetch(change, second, "ann@example.org")
    await campaigns.database.fetch("UPDATE dispatcher.contacts SET version = 2 WHERE id = $1", second)
    await campaigns.expand_all()
    assert await campaigns.send() == 1
    await campaigns.sound()
    assert (await campaigns.run(run_id))["skipped"] == 1


async def test_a_contact_that_is_deleted_beside_an_expansion_has_its_row(
    campaigns: Stage, connection: Connection
) -> None:
    status, ids = await campaigns.people(3)
    run_id = await campaigns.deploy(status)
    job_id = await campaigns.lock()
    assert job_id is not None
    async with open_transaction(connection, "DELETE FROM dispatcher.contacts WHERE id = $1", ids[0]):
        assert await campaigns.expand(job_id) == 3
    assert await campaigns.items(run_id) == {"queued": 3}
    gone = await campaigns.deploy(status)
    await campaigns.database.fetch("DELETE FROM dispatcher.contacts WHERE id = $1", ids[1])
    await campaigns.expand_all()
    assert await campaigns.items(gone) == {"queued": 1, "skipped: contact is gone": 1}
    assert await campaigns.value("SELECT count(*) FROM dispatcher.deliveries WHERE contact_id = $1", ids[1]) == 2
