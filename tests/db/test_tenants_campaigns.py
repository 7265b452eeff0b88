"""Tenants and campaigns: nobody sees or does anything of another workspace's, whatever they are told to be."""

import asyncpg
import pytest

from dispatcher.base.workspace import Workspace
from dispatcher.db import tenants
from dispatcher.db.database import Database
from dispatcher.engine.rules.life import Failed
from dispatcher.features.pauses import store as pauses
from tests.support.deployed import Campaigns, close, expand, marked, run_row
from tests.support.scene import Connection, Scene

HOME = Workspace()
FOREIGN = (Workspace("acme", "default"), Workspace("default", "other"))
# What shows something of campaigns.
RELATIONS = (
    *("campaigns", "campaign_runs", "job_queue", "campaign_run_reasons", "campaign_events", "campaign_actions"),
    *("campaign_audit_log", "campaign_trace", "visible_dead_letters", "deliveries", "delivery_state"),
)
RUN_ACTIONS = {
    "pause_campaign_run($1, 'x', $2, $3, 'thief')": "unknown",
    "resume_campaign_run($1, $2, $3, 'thief')": "unknown",
    "set_campaign_rate($1, 1, $2, $3, 'thief')": "unknown",
    "cancel_campaign_run($1, 'x', $2, $3, 'thief')": "unknown",
}
JOB_ACTIONS = {
    "replay_dead_job($1, 'x', $2, $3, 'thief')": "unknown",
    "discard_dead_job($1, 'x', $2, $3, 'thief')": "unknown",
}
DEPLOYMENTS = (
    "deploy_campaign('spring', tenant_id => $1, workspace_id => $2, actor => 'thief')",
    "test_campaign('spring', '{+4917099999}', $1, $2, 'thief')",
)


@pytest.fixture
async def failed(scene: Scene, connection: Connection) -> tuple[int, int]:
    """A run at home that goes on, and its job, of which one delivery has failed."""
    run = await Campaigns(connection).deployed()
    (job,) = await expand(scene)
    first, *_ = await marked(scene)
    await scene.flush((first, Failed("550 of-home")))
    await close(scene)
    await connection.execute("SELECT dispatcher.pause_campaign_run($1, 'of-home')", run)
    return run, job


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.usefixtures("failed")
async def test_a_workspace_sees_its_own_campaigns_alone(database: Database, relation: str) -> None:
    async with tenants.transaction(database, HOME) as inside:
        assert await inside.value(f"SELECT count(*) FROM dispatcher.{relation}") > 0
    for foreign in FOREIGN:
        async with tenants.transaction(database, foreign) as inside:
            assert await inside.value(f"SELECT count(*) FROM dispatcher.{relation}") == 0


@pytest.mark.parametrize("foreign", FOREIGN, ids=str)
async def test_nobody_acts_on_runs_and_jobs_of_another(
    scene: Scene, failed: tuple[int, int], foreign: Workspace
) -> None:
    run, job = failed
    before = await run_row(scene, run)
    asked = [(action, run, said) for action, said in RUN_ACTIONS.items()]
    asked += [(action, job, said) for action, said in JOB_ACTIONS.items()]
    for action, number, said in asked:
        async with tenants.transaction(scene.database, foreign) as inside:
            answer = await inside.value(f"SELECT dispatcher.{action}", number, foreign.tenant_id, foreign.workspace_id)
        assert answer == said, action
        # Who says to be at home is not believed.
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            async with tenants.transaction(scene.database, foreign) as inside:
                await inside.value(f"SELECT dispatcher.{action}", number, HOME.tenant_id, HOME.workspace_id)
    replay = "SELECT replayed FROM dispatcher.replay_campaign_run($1, 0, 9, 'x', $2, $3, 'thief')"
    async with tenants.transaction(scene.database, foreign) as inside:
        assert await inside.value(replay, run, foreign.tenant_id, foreign.workspace_id) == 0
    for deployment in DEPLOYMENTS:
        with pytest.raises(asyncpg.NoDataFoundError, match="there is no campaign"):
            async with tenants.transaction(scene.database, foreign) as inside:
                await inside.value(f"SELECT dispatcher.{deployment}", foreign.tenant_id, foreign.workspace_id)
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            async with tenants.transaction(scene.database, foreign) as inside:
                await inside.value(f"SELECT dispatcher.{deployment}", HOME.tenant_id, HOME.workspace_id)
    assert await run_row(scene, run) == before
    assert await scene.value("SELECT count(*) FROM dispatcher.campaign_runs") == 1


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE dispatcher.campaign_runs SET cancelled_at = now()",
        "UPDATE dispatcher.job_queue SET failed = 0",
        "DELETE FROM dispatcher.campaign_events",
        "INSERT INTO dispatcher.campaign_actions (version, tenant_id, workspace_id, campaign, actor, action)"
        " VALUES (1, 'default', 'default', 'x', 'x', 'delete')",
        "INSERT INTO dispatcher.job_results (job_id, class, count) VALUES (1, 'sent', 1)",
        "SELECT * FROM dispatcher.job_results",
        "SELECT dispatcher.close_jobs(1)",
        "SELECT dispatcher.expand_job(1, 1)",
        "SELECT dispatcher.erase_from_campaigns('default', 'default', '{x}', 'x')",
        "SELECT dispatcher.quarantine_campaign_runs('infinity', 'x', 'x')",
        # An item of somebody's job: its end would count there.
        "INSERT INTO dispatcher.deliveries (run_id, job_id, contact_id, idempotency_key, channel, recipient, template)"
        """ VALUES (1, 1, 1, 'forged', 'sms', '+49', '{"body": "x"}')""",
        # It would stop a run by its number, whoever's that is.
        "SELECT dispatcher.pause('campaign_run', '1', 'default', 'default', 'thief', 'x')",
    ],
)
@pytest.mark.usefixtures("failed")
async def test_what_is_the_dispatchers_no_request_writes(database: Database, statement: str) -> None:
    with pytest.raises(asyncpg.InsufficientPrivilegeError):
        async with tenants.transaction(database, HOME) as inside:
            await inside.fetch(statement)


async def test_pauses_of_runs_are_shown_to_their_workspace_and_ended_by_the_run(
    database: Database, failed: tuple[int, int]
) -> None:
    run, _ = failed
    async with tenants.transaction(database, HOME) as inside:
        (shown,) = await pauses.listed(inside, HOME, 0, 9, "campaign_run")
        assert (shown["name"], shown["reason"]) == (str(run), "of-home")
        assert not await pauses.resume(inside, shown["id"], "ann", "x")
        ended = "SELECT dispatcher.resume('campaign_run', $1, 'default', 'default', 'ann')"
        assert not await inside.value(ended, str(run))
    for foreign in FOREIGN:
        async with tenants.transaction(database, foreign) as inside:
            assert await pauses.listed(inside, foreign, 0, 9) == []
            assert await pauses.show(inside, shown["id"]) is None
    async with tenants.transaction(database, HOME) as inside:
        assert await inside.value("SELECT dispatcher.resume_campaign_run($1)", run) == "done"
    assert await pauses.show(database, shown["id"]) is None
