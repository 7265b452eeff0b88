"""Functions that run with their owner's rights: from another workspace nothing is seen or changed by them."""

import re
from collections.abc import AsyncIterator

import asyncpg
import pytest

from tests.support.home import Home, furnish
from tests.support.scene import Connection

# A call of each, for a row of the workspace at home. {place} is the workspace that it names.
CALLS = {
    "claim_of": "({place}, {waits})",
    "count_dead_deliveries": "({place}, 10)",
    "count_enrollments": "({place}, (SELECT id FROM dispatcher.sequences WHERE name = 'drip'), 10)",
    "find_contacts": "({place}, '', NULL, NULL, NULL, NULL, 10, 10)",
    "held_by_channel": "({place}, 10)",
    "newest_dead_deliveries": "(9223372036854775807, 10, NULL, NULL, {place}, NULL, NULL, NULL, 10)",
    "sequence_funnel": "({place}, (SELECT id FROM dispatcher.sequences WHERE name = 'drip'), 10)",
    "audience": """({place}, '{{"all": true}}')""",
    "audience_count": """({place}, '{{"all": true}}')""",
    "audience_faults": """({place}, '$', '{{"contacts": ["nobody"]}}')""",
    "campaign_faults": """({place}, '{{"template_name": "welcome", "channel": "email"}}')""",
    "cancel_campaign_run": "({campaign_run}, '', {place})",
    "check_campaign_run": "({campaign_run}, {place})",
    "deploy_campaign": "('welcome', NULL, NULL, {place})",
    "pause_campaign_run": "({campaign_run}, '', {place})",
    "plan_campaign": "({place}, 'welcome', '{{}}', '[]', 10, 10)",
    "replay_campaign_run": "(p_after => 0, p_page => 10, p_run_id => {campaign_run}, {named})",
    "resume_campaign_run": "({paused}, {place})",
    "set_campaign_rate": "({campaign_run}, 5, {place})",
    "test_campaign": "('welcome', '{{+4917012345}}', {place})",
    "cancel_delivery": "({waits}, NULL, '', {place})",
    "cancel_run": "({goes}, '', {place})",
    "change_enrollments": "({place}, 'drip', 'cancel', NULL, '', 'ann', 10)",
    "contact_event": "('bought', 'customer-17', NULL, {place})",
    "delete_sequence": "({place}, 'drip', NULL, 'ann')",
    "delivery_status": "({waits}, NULL, {place})",
    "discard_dead_job": "({job}, '', {place})",
    "discard_delivery": "({dead}, '', {place})",
    "discard_run": "({buried}, '', {place})",
    "enqueue_delivery": """('sms', '+49', 'key', '{{"body": "x"}}', NULL, '{{}}', '{{}}', 'bulk', NULL, NULL, 5, NULL,
                            NULL, {place})""",
    "note_fallback": "({event}, 'email', 'lead', 'done', NULL, {place})",
    "notify": "('lead_welcome', '{{}}', NULL, NULL, NULL, NULL, NULL, NULL, {place})",
    "notify_events": """({place}, '[{{"trigger": "lead_welcome"}}]')""",
    "enrol": "('drip', 'customer-17', NULL, {place})",
    "enrol_audience": """('drip', '{{"all": true}}', {place})""",
    "move_enrollments": "({place}, 'drip', 2, 1, 0, 10, 'ann')",
    "pause_sequence": "('drip', '', {place})",
    "preview_move": "({place}, 'drip', 2, 1, 10)",
    "publish_sequence": "({place}, 'drip', 5, '{{}}', '{{}}', '{{}}', 2::smallint, 'ann')",
    "put_sequence": "({place}, 'drip', '{{}}', '[]', NULL, 'ann')",
    "resume_sequence": "('drip', '', {place})",
    "pause_run": "({goes}, '', {place})",
    "replay_dead_job": "({job}, '', {place})",
    "replay_run": "({buried}, '', {place})",
    "resume_run": "({rests}, '', {place})",
    "run_status": "({goes}, {place})",
    "standstill": "({place}, 'sms')",
    "sent_to": "({place}, '{{+4917012345}}')",
    "signal_run": "({goes}, 'paid', '{{}}', {place})",
    "template_fault": "({place}, 'welcome', 'email')",
    "trigger_workflow": "('welcome', '{{}}', 'key', {place})",
    "trigger_workflows": "({place}, 'welcome', ARRAY['{{}}'], ARRAY['key'], ARRAY['x'])",
}
# Called by triggers and by the owner, and by nobody else; each with what it does.
NOBODYS = {
    "announce": "writes events for the endpoints of a row's own workspace",
    "require_here": "refuses a tenant that is in another cell",
    "keep_erased_keys": "switches a trigger on, once in a database",
    "wake_run": "tells the walker to look at a run",
}
# Null means the default workspace to whom it is handed on.
HOME = ("'default', 'default'", "NULL, NULL", "NULL, 'default'", "'', ''")
ELSEWHERE = (("acme", "default"), ("default", "other"), ("", ""), ("", "default"))
OF_THE_OWNER = """
    SELECT p.proname, a.grantee::regrole::text AS grantee
      FROM pg_proc p, aclexplode(coalesce(p.proacl, acldefault('f', p.proowner))) AS a
     WHERE p.pronamespace = 'dispatcher'::regnamespace AND p.prosecdef AND p.prorettype {} 'trigger'::regtype
"""


@pytest.fixture(scope="module")
async def place(shared_url: str) -> AsyncIterator[tuple[Connection, Home]]:
    """Something of everything in the default workspace; each test takes back what it does."""
    connection = await asyncpg.connect(shared_url)
    try:
        yield connection, await furnish(connection)
    finally:
        await connection.close()


@pytest.fixture
async def connection(place: tuple[Connection, Home]) -> AsyncIterator[Connection]:
    """A transaction, in which requests may call whatever there is."""
    connection = place[0]
    transaction = connection.transaction()
    await transaction.start()
    await connection.execute("GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA dispatcher TO dispatcher_tenant")
    yield connection
    await transaction.rollback()


@pytest.fixture
def home(place: tuple[Connection, Home]) -> Home:
    """What there is."""
    return place[1]


def call(name: str, home: Home, place: str) -> str:
    """The call of a function, for rows at home."""
    rows: dict[str, object] = {"event": home.event}
    rows |= {"waits": home.deliveries[""], "dead": home.deliveries["discardDeadDelivery"]}
    rows |= {"goes": home.runs[""], "rests": home.runs["resumeRun"], "buried": home.runs["discardDeadRun"]}
    rows |= {"job": home.job}
    rows |= {"campaign_run": home.campaign_runs[""], "paused": home.campaign_runs["resumeCampaignRun"]}
    tenant, workspace = place.split(", ")
    named = f"p_tenant_id => {tenant}, p_workspace_id => {workspace}"
    return f"SELECT t::text FROM dispatcher.{name}{CALLS[name].format(place=place, named=named, **rows)} AS t"


async def _bind(connection: Connection, tenant: str, workspace: str) -> None:
    await connection.execute(
        f"""SAVEPOINT asked; SET LOCAL ROLE dispatcher_tenant;
            SET LOCAL dispatcher.tenant = '{tenant}'; SET LOCAL dispatcher.workspace = '{workspace}'"""
    )


async def _everything(connection: Connection) -> str:
    """All rows of all tables, in short."""
    tables = await connection.fetch(
        "SELECT oid::regclass::text FROM pg_class WHERE relnamespace = 'dispatcher'::regnamespace AND relkind = 'r'"
    )
    rows = ", ".join(f"(SELECT string_agg(t::text, ' ' ORDER BY t::text) FROM {table} t)" for (table,) in tables)
    return str(await connection.fetchval(f"SELECT md5(concat_ws('|', {rows}))"))


async def test_every_one_of_them_is_called_below_or_is_nobodys(place: tuple[Connection, Home]) -> None:
    grantees: dict[str, set[str]] = {}
    for row in await place[0].fetch(OF_THE_OWNER.format("<>")):
        grantees.setdefault(row["proname"], set()).add(row["grantee"])
    assert set(grantees) == {*CALLS, *NOBODYS}
    # An application's role may call what it was granted, and nothing else.
    assert not {name for name, whose in grantees.items() if "-" in whose}
    owner = await place[0].fetchval("SELECT current_user")
    assert {name: grantees[name] for name in NOBODYS} == {name: {owner} for name in NOBODYS}


async def test_those_of_triggers_are_put_on_no_table_of_anybody_elses(place: tuple[Connection, Home]) -> None:
    """On a table of its own an application would say itself which rows they are about."""
    owner = await place[0].fetchval("SELECT current_user")
    assert {row["grantee"] for row in await place[0].fetch(OF_THE_OWNER.format("="))} == {owner}


@pytest.mark.parametrize("name", CALLS)
async def test_from_another_workspace_nothing_is_seen_or_changed_at_home(
    connection: Connection, home: Home, name: str
) -> None:
    for place in HOME:
        for bound in ELSEWHERE:
            await _bind(connection, *bound)
            with pytest.raises(asyncpg.InsufficientPrivilegeError, match="another workspace"):
                await connection.fetch(call(name, home, place))
            await connection.execute("ROLLBACK TO asked")


@pytest.mark.parametrize("name", [name for name, call in CALLS.items() if re.match(r"\({(?!place)", call)])
async def test_a_row_at_home_is_unknown_in_another_workspace(connection: Connection, home: Home, name: str) -> None:
    before = await _everything(connection)
    for tenant, workspace in ELSEWHERE[:2]:
        await _bind(connection, tenant, workspace)
        answers = await connection.fetch(call(name, home, f"'{tenant}', '{workspace}'"))
        assert [row[0] for row in answers] in ([], ["unknown"])
        await connection.execute("RESET ROLE")
        assert await _everything(connection) == before
        await connection.execute("ROLLBACK TO asked")


@pytest.mark.parametrize("name", CALLS)
async def test_at_home_it_does_what_it_is_there_for(connection: Connection, home: Home, name: str) -> None:
    await _bind(connection, "default", "default")
    answers = await connection.fetch(call(name, home, HOME[0]))
    assert answers
    assert answers[0][0] != "unknown"
