"""Neighbours of an erasure: the same person elsewhere, a like address, and what is new keep everything."""

import json
from typing import Any

import pytest

from dispatcher.base.values.addresses import Address
from dispatcher.base.workspace import Workspace
from dispatcher.engine.rules.life import Succeeded
from dispatcher.features.contacts import store as contacts
from dispatcher.features.persons import erasure, rules
from dispatcher.features.persons.erasure import Erasure
from dispatcher.features.suppressions import store as suppressions
from dispatcher.features.suppressions.store import Entry
from dispatcher.plans import plan as plans
from tests.features.contacts.test_store import HERE, said
from tests.features.persons.test_store import ANN, write
from tests.support import flows
from tests.support.scene import Connection, Scene
from tests.support.traces import traces

PHONE = Address("phone", "+4917012345")
TABLES = """SELECT DISTINCT table_name FROM information_schema.columns
             WHERE table_schema = 'dispatcher' AND column_name = 'tenant_id' AND table_name <> 'erasures' ORDER BY 1"""
WHOLE = "SELECT t::text FROM dispatcher.{} t WHERE tenant_id = $1 AND coalesce(to_jsonb(t) ->> 'workspace_id', $2) = $2"
TRIGGER = "SELECT dispatcher.trigger_workflow('welcome', '{\"mail\": \"ann@example.org\"}', 'k', $1, $2)"
ANSWER = """INSERT INTO dispatcher.api_answers (status, tenant_id, workspace_id, key, asked, answer)
            VALUES (201, $1, $2, $3, '', convert_to($4, 'UTF8'))"""
RECEIPT = """INSERT INTO dispatcher.waiting_receipts (look_at, keep_until, provider, receipt)
             VALUES (now(), now(), 'x', jsonb_build_object('recipient', $1::text))"""


async def _erase(scene: Scene) -> Erasure:
    number = await erasure.request(scene.database, HERE, rules.person_of([ANN, PHONE]), "bob", "x")
    return await _look(scene, number)


async def _look(scene: Scene, number: int) -> Erasure:
    looked = await erasure.advance(scene.database, number)
    assert looked is not None
    return looked


async def _told(scene: Scene, about: str, **where: str) -> int:
    """An event for another endpoint names an address, and is erased."""
    variables = json.dumps({"about": about})
    number = await write(scene.database, "told", "bob@example.org", variables=variables, **where)
    await scene.database.fetch("SELECT dispatcher.cancel_delivery_by_id($1, 'bob', 'x')", number)
    return number


async def _rows(connection: Connection, *place: str) -> dict[str, list[str]]:
    """All that a workspace and its tenant have, by table."""
    names = [row[0] for row in await connection.fetch(TABLES)]
    return {name: sorted(row[0] for row in await connection.fetch(WHOLE.format(name), *place)) for name in names}


async def _furnish(scene: Scene, connection: Connection, place: Workspace) -> None:
    there: dict[str, Any] = {"tenant_id": place.tenant_id, "workspace_id": place.workspace_id}
    await contacts.put(scene.database, place, [said("ann", addresses=[{"address": ANN.text}])], "put", "bob")
    await write(scene.database, "of ann@example.org", **there)
    await _told(scene, ANN.text, **there)
    text = plans.encode(flows.plan()).decode()
    await connection.execute(flows.PUT, *there.values(), "welcome", text, text, "bob", True)
    await connection.execute(TRIGGER, *there.values())
    await connection.execute(ANSWER, *there.values(), "for ann@example.org", '{"to": "ann@example.org"}')
    if place.tenant_id != HERE.tenant_id:
        await suppressions.add(scene.database, place.tenant_id, "bob", [Entry(ANN, "unsubscribe", "x")])
        await suppressions.prefer(scene.database, place.tenant_id, [ANN], "news", False, "bob", "x")


@pytest.mark.parametrize("place", [Workspace("default", "other"), Workspace("acme", "default")], ids=str)
async def test_the_same_person_elsewhere_keeps_everything(
    scene: Scene, connection: Connection, place: Workspace
) -> None:
    await _furnish(scene, connection, place)
    before = await _rows(connection, place.tenant_id, place.workspace_id)
    assert {"api_answers", "contacts", "deliveries", "runs"} <= {name for name, rows in before.items() if rows}
    looked = await _erase(scene)
    assert (looked.finished, looked.deliveries, looked.runs) == (True, 0, 0)
    assert await _rows(connection, place.tenant_id, place.workspace_id) == before


async def test_rows_of_another_workspace_with_the_address_stay(scene: Scene, connection: Connection) -> None:
    await _told(scene, "joann@example.org")
    await connection.execute(RECEIPT, "joann@example.org")
    looked = await _erase(scene)
    assert (looked.finished, looked.deliveries) == (True, 0)
    assert await traces(connection, "joann@example.org") == ["deliveries.variables", "waiting_receipts.receipt"]


async def test_a_run_that_sends_to_a_like_address_stays(scene: Scene, connection: Connection) -> None:
    await flows.put(connection)
    run = (await flows.trigger(connection, {"name": "Anne"}))["execution_id"]
    await connection.execute(
        """INSERT INTO dispatcher.deliveries (run_id, node, idempotency_key, channel, recipient, template)
           VALUES ($1, 'mail', 'k', 'email', 'an.n@example.org', '{"text": "x"}')""",
        run,
    )
    looked = await _erase(scene)
    assert (looked.finished, looked.runs, looked.deliveries) == (True, 0, 0)
    assert await scene.value("SELECT input ->> 'name' FROM dispatcher.runs WHERE id = $1", run) == "Anne"


async def test_rows_about_the_person_newer_than_the_erasure_stay(scene: Scene, connection: Connection) -> None:
    (sending,) = await scene.marked(1)
    looked = await _erase(scene)
    assert not looked.finished
    told = await _told(scene, ANN.text)
    await flows.put(connection)
    run = (await flows.trigger(connection, {"mail": ANN.text}))["execution_id"]
    await scene.flush((sending, Succeeded("m-1")))
    again = await _look(scene, looked.id)
    assert (again.finished, again.runs) == (True, 0)
    assert await scene.value("SELECT input ->> 'mail' FROM dispatcher.runs WHERE id = $1", run) == ANN.text
    says = await scene.value("SELECT variables::text FROM dispatcher.deliveries WHERE id = $1", told)
    assert json.loads(says) == {"about": ANN.text}
