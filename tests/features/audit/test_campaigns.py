"""The audit of campaigns: who saved, deployed, stopped, sped up and replayed them, and for whom it is to be seen."""

from typing import Any

from dispatcher.base.workspace import Workspace
from dispatcher.db import tenants
from dispatcher.engine.rules.life import Failed
from dispatcher.features.audit import store
from dispatcher.features.audit.models import AuditQuery
from tests.support.deployed import Campaigns, close, expand, marked
from tests.support.scene import Connection, Scene

HERE = Workspace()
ACME = Workspace("acme", "default")


async def _listed(scene: Scene, place: Workspace = HERE, **fields: Any) -> list[dict[str, Any]]:
    """What there is to be seen, the newest first, page by page."""
    found: list[dict[str, Any]] = []
    behind = None
    while True:
        async with tenants.transaction(scene.database, place) as inside:
            page = await store.listed(inside, place, AuditQuery(**fields), behind, 2)
        found += [row for row in page if row["kind"].startswith("campaign")]
        if not page:
            return found
        behind = store.Place(*(page[-1][name] for name in ("at", "rank", "id", "number")))


async def test_what_operators_do_to_campaigns_is_listed(scene: Scene, connection: Connection) -> None:
    campaigns = Campaigns(connection)
    await campaigns.make()
    await connection.execute("UPDATE dispatcher.campaigns SET version = 2, rate = 1, updated_by = 'bob'")
    tested = await campaigns.test("+4917099999")
    run = await campaigns.deploy(actor="ann")
    for done in (
        "pause_campaign_run($1, 'too early', p_actor => 'bob')",
        "resume_campaign_run($1, p_actor => 'ann')",
        "set_campaign_rate($1, 50, p_actor => 'ann')",
    ):
        assert await scene.value(f"SELECT dispatcher.{done}", run) == "done"
    await expand(scene)
    items = await marked(scene)
    await scene.flush(*((item, Failed("550")) for item in items))
    await close(scene)
    await scene.value("SELECT replayed FROM dispatcher.replay_campaign_run($1, 0, 9, 'again', p_actor => 'ann')", run)
    await close(scene)
    assert await scene.value("SELECT dispatcher.cancel_campaign_run($1, 'wrong', p_actor => 'ann')", run) == "done"
    async with connection.transaction():
        await connection.execute("SELECT set_config('dispatcher.actor', 'bob', true)")
        await connection.execute("DELETE FROM dispatcher.campaigns")
    found = [(one["kind"], one["subject"], one["action"], one["actor"], one["reason"]) for one in await _listed(scene)]
    assert found == [
        ("campaign", "spring", "delete", "bob", None),
        ("campaign_run", str(run), "cancel", "ann", "wrong"),
        ("campaign_run", str(run), "replay", "ann", "again"),
        ("campaign_run", str(run), "rate", "ann", None),
        ("campaign_run", str(run), "resume", "ann", None),
        ("campaign_run", str(run), "pause", "bob", "too early"),
        ("campaign_run", str(run), "deploy", "ann", None),
        ("campaign_run", str(tested), "test", "ann", None),
        ("campaign", "spring", "change", "bob", None),
        ("campaign", "spring", "create", "ann", None),
    ]
    assert [one["action"] for one in await _listed(scene, kind="campaign_run", actor="bob")] == ["pause"]
    assert await _listed(scene, ACME) == []
    (rated,) = [one for one in await _listed(scene) if one["action"] == "rate"]
    assert rated["details"] == {"campaign": "spring", "job_id": None, "from": "1", "to": "50"}
