"""Home: a workspace in which there is something of everything that the API shows or changes, and a request to it."""

import json
import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlencode

from litestar import Litestar
from msgspec import Struct

from dispatcher.base.workspace import Workspace
from dispatcher.http.endpoints import Endpoint
from tests.support import flows
from tests.support.scene import Connection

HOME = Workspace()
FOREIGN = (Workspace("acme", "default"), Workspace("default", "other"))
# What only the workspace at home knows, and what only its tenant.
SECRETS = (b"+4917012345", b"of-home")
OF_TENANT = b"of-tenant"
# Tables of what all workspaces of a tenant share.
SHARED = {
    f"dispatcher.{name}" for name in ("suppressions", "suppression_log", "topic_preferences", "erased_suppressions")
}
ONCE = "once"
_NAMES = {
    "rules": "lead_welcome%2Fsms%2Flead",
    "triggers": "invoice_due",
    "sequences": "drip",
    "webhooks": "crm",
    "schedules": "nightly",
    "objects": "contract.pdf",
    "keys": "shop",
    "quiet-hours": "sms",
    "caps": "weekly",
}
_ABOUT = {"getTimeline": "+4917012345", "exportPerson": "+4917012345"}
# It would tell what it was told.
_OF_HOME = {"findPerson": {"addresses": [], "contact": "customer-17"}}
_FURNITURE = """
    SELECT dispatcher.create_webhook('default', 'default', 'crm', 'https://of-home.example', '{run.failed}', true,
                                        'whsec_' || repeat('a', 32), 9, 'of-home', 'of-home');
    SELECT dispatcher.put_templates('[{"tenant_id": "default", "workspace_id": "default", "name": "welcome",
        "channel": "email", "default_locale": "en", "rights": [], "variables": [],
        "sources": {"en": {"parts": {"subject": "of-home", "text": "of-home"}, "partials": {}}}}]', true, 'of-home');
    SELECT dispatcher.put_contact('default', 'default', 'customer-17', '{"name": "of-home", "addresses": [
        {"kind": "phone", "address": "+4917012345", "written": "+4917012345"}]}', 'put', NULL, 'of-home');
    SELECT dispatcher.put_schedule('default', 'default', name, 'welcome', '0 8 * * *', 'UTC', '{"of": "of-home"}',
                                      '2040-01-01', 'of-home')
      FROM unnest('{nightly,of-home}'::text[]) AS name;
    SELECT dispatcher.put_event_trigger('default', 'default', 'invoice_due', '{"description": "of-home"}', 'of-home');
    SELECT dispatcher.put_rules('default', 'default', jsonb_build_array(jsonb_build_object(
        'trigger', 'lead_welcome', 'channel', 'sms', 'audience', audience)), 'of-home')
      FROM unnest('{lead,of_home}'::text[]) AS audience;
    SELECT dispatcher.put_workspace_settings('default', 'default', NULL, 'UTC', NULL, 'of-home');
    SELECT dispatcher.put_quiet_hours('default', 'default', channel, '[]', '[{"from": "09:00", "to": "18:00"}]',
                                      'of-home')
      FROM unnest('{sms,email}'::text[]) AS channel;
    SELECT dispatcher.put_cap('default', 'default', name, 3::smallint, interval '168 h', '{sms}', '{}', 'of-home')
      FROM unnest('{weekly,of-home}'::text[]) AS name;
    SELECT dispatcher.put_campaign('default', 'default', name, '{"channel": "email", "template_name": "welcome",
        "variables": {"of": "of-home"}, "audience": {"all": true}, "lane": 2}', 'of-home')
      FROM unnest('{welcome,spring}'::text[]) AS name;
    SELECT dispatcher.put_object('contract.pdf', 'of-home', 'text/of-home');
    SELECT dispatcher.create_api_key('default', 'default', name, 'triggerOperator', NULL,
                                        'dsp_0123456789A' || number, sha256('of-home'), 'of-home', 'of-home')
      FROM unnest('{shop,of-home}'::text[]) WITH ORDINALITY AS made (name, number);
    INSERT INTO dispatcher.suppressions (kind, address, actor, reason)
    VALUES ('email', 'bob@example.org', 'of-tenant', 'of-tenant');
    INSERT INTO dispatcher.topic_preferences (kind, address, topic, subscribed, actor, reason)
    VALUES ('email', 'bob@example.org', 'news', true, 'of-tenant', 'of-tenant');
    INSERT INTO dispatcher.erased_suppressions (tenant_id, kind, hash, channel, source, topic, added_at)
    VALUES ('default', 'email', sha256('bob@example.org'), '', 'complaint', '', now()),
           ('default', 'email', sha256('bob@example.org'), '', '', 'news', now());
    INSERT INTO dispatcher.api_answers (tenant_id, workspace_id, key, asked, status, answer)
    VALUES ('default', 'default', 'once', '', 200, 'of-home');
    SELECT dispatcher.pause('tenant', 'default', NULL, NULL, 'of-tenant', 'of-tenant');
    SELECT dispatcher.pause('provider', 'unused', NULL, NULL, 'operators', 'of all');
"""


_SEQUENCE = "".join(
    f"""
    SELECT dispatcher.put_sequence('default', 'default', 'drip', '{{"timeZone": "UTC", "topic": "of-home"}}',
        '[{{"dayOffset": {revision}, "stepOrder": 1, "channel": "sms", "content": "of-home", "name": "of-home"}}]',
        NULL, 'of-home');
    SELECT dispatcher.publish_sequence('default', 'default', 'drip', {revision}, '{{}}', '{{"name": "drip",
        "entry": "day-1", "nodes": {{"day-1": {{"kind": "day", "step": 0, "days": 3}}}}}}',
        '{{"node": "day-1", "days": 3, "hour": null, "zone": "UTC", "contact_zone": false}}', 2::smallint, 'of-home');
    """
    for revision in (1, 3)
)


class Asked(Struct, frozen=True):
    """A request."""

    method: str
    path: str
    body: Mapping[str, Any] | None = None
    query: Mapping[str, str] = {}

    def __str__(self) -> str:
        return " ".join((self.method, self.path, *map(str, (self.body or {}).values())))


class Home(Struct):
    """What there is at home, by the operations that are about it."""

    deliveries: dict[str, int]
    runs: dict[str, int]
    pause: int
    erasure: int
    event: int
    enrolment: int
    step: int
    job: int
    captured: int
    campaign_runs: dict[str, int]

    def ask(self, one: Endpoint) -> Asked:
        """A request for what is here."""
        names = {
            "delivery_id": str(self.deliveries.get(one.operation, self.deliveries[""])),
            "run_id": str(self.runs.get(one.operation, self.runs[""])),
            "campaign_run_id": str(self.campaign_runs.get(one.operation, self.campaign_runs[""])),
            "pause_id": str(self.pause),
            "job_id": str(self.job),
            "captured_id": str(self.captured),
            "erasure_id": str(self.erasure),
            "event_id": str(self.event),
            "enrolment_id": str(self.enrolment),
            "step": str(self.step),
            "key": "customer-17",
            "name": _NAMES.get(one.tag, "welcome"),
        }
        own = {"idempotency_key": "of-home"} if one.operation.endswith("ByKey") else {}
        own |= {"error": "of-home"} if one.example and "error" in one.example else {}
        return Asked(
            one.method,
            re.sub(r"\{(\w+)\}", lambda match: names[match[1]], one.path),
            None if one.example is None else dict(one.example) | own | _OF_HOME.get(one.operation, {}),
            {"address": _ABOUT[one.operation]} if one.operation in _ABOUT else {},
        )


class Answer(Struct):
    """An answer."""

    status: int = 0
    body: bytes = b""


async def _delivery(connection: Connection, key: str, state: str = "ready") -> int:
    number: int = await connection.fetchval(
        """INSERT INTO dispatcher.deliveries (idempotency_key, channel, recipient, template, scheduled_for)
           VALUES ($1, 'sms', '+4917012345', '{"body": "x"}', '2040-01-01') RETURNING id""",
        key,
    )
    await connection.execute(f"UPDATE dispatcher.delivery_state SET {state} WHERE id = $1", number)
    return number


async def captured(connection: Connection, delivery: int) -> int:
    """A message that was captured of a delivery."""
    number: int = await connection.fetchval(
        """INSERT INTO dispatcher.captured_messages
                  (delivery_id, attempt, tenant_id, workspace_id, channel, recipient, idempotency_key, parts, options)
           VALUES ($1, 1, 'default', 'default', 'sms', '+4917012345', 'of-home', '{"body": "of-home"}', '{}')
           RETURNING id""",
        delivery,
    )
    return number


async def _run(connection: Connection, key: str, done: str = "") -> int:
    run: int = (await flows.trigger(connection, key=key))["execution_id"]
    if done:
        await connection.execute(f"SELECT dispatcher.{done}", run)
    return run


async def _enrolment(connection: Connection) -> tuple[int, int]:
    """A sequence with an enrolment; answers that and the id of its step."""
    await connection.execute(_SEQUENCE)
    await connection.execute(
        """SELECT dispatcher.put_sequence('default', 'default', 'drip', '{"topic": "of-home"}',
               '[{"dayOffset": 5, "stepOrder": 1, "channel": "sms", "content": "of-home", "name": "of-home"}]',
               NULL, 'of-home')"""
    )
    enrolment = "SELECT enrollment_id FROM dispatcher.enrol('drip', 'customer-17', actor => 'of-home')"
    found: int = await connection.fetchval(enrolment)
    step: int = await connection.fetchval("SELECT id FROM dispatcher.sequence_steps")
    return found, step


async def dead_job(connection: Connection) -> int:
    """A job of a campaign's run with an item that has failed."""
    job: int = await connection.fetchval(
        """WITH run AS (
               INSERT INTO dispatcher.campaign_runs
                      (campaign_id, tenant_id, workspace_id, campaign, channel, template_name, template_version,
                       variables, reads, scheduled_for, frozen_at, lane, created_by, paused_at)
               VALUES ('of-home', 'default', 'default', 'of-home', 'sms', 'welcome', 1, '{}', '{}', now(), '0', 2,
                       'of-home', now()) RETURNING id)
           INSERT INTO dispatcher.job_queue
                  (run_id, tenant_id, workspace_id, job_type, intended, contact_ids, failed, error, expanded_at,
                   finished_at, status)
           SELECT id, 'default', 'default', 'sms_send_batch', 1, '{0}', 1, 'of-home', now(), now(), 'failed' FROM run
           RETURNING id"""
    )
    item = await connection.fetchval(
        """INSERT INTO dispatcher.deliveries
                  (run_id, job_id, contact_id, idempotency_key, channel, recipient, template, scheduled_for)
           SELECT run_id, id, 0, 'of-home-item-of-' || id, 'sms', '+4917012345', '{"body": "x"}', '2040-01-01'
             FROM dispatcher.job_queue WHERE id = $1 RETURNING id""",
        job,
    )
    await connection.execute(
        """UPDATE dispatcher.delivery_state SET ready = false, status = 'failed', finished_at = now(), error = 'of-home'
            WHERE id = $1""",
        item,
    )
    await connection.execute("UPDATE dispatcher.job_queue SET first_id = $2, last_id = $2 WHERE id = $1", job, item)
    return job


async def _campaign_run(connection: Connection) -> int:
    """A test of the campaign at home: its job has an item that has failed, and none that is its own."""
    run: int = await connection.fetchval(
        "SELECT dispatcher.test_campaign('spring', '{+4917012345}', 'default', 'default', 'of-home')"
    )
    await connection.execute(
        """WITH job AS (UPDATE dispatcher.job_queue SET error = 'of-home', failed = 1 WHERE run_id = $1 RETURNING id),
                item AS (INSERT INTO dispatcher.deliveries
                                     (run_id, job_id, contact_id, idempotency_key, channel, recipient, template)
                         SELECT $1, id, 0, 'of-home-item-' || $1, 'email', '+4917012345', '{"body": "x"}' FROM job
                         RETURNING id)
           SELECT id FROM item""",
        run,
    )
    await connection.execute(
        """UPDATE dispatcher.delivery_state s
              SET ready = false, status = 'failed', finished_at = now(), error = 'of-home'
             FROM dispatcher.deliveries d WHERE d.id = s.id AND d.run_id = $1 AND d.contact_id = 0""",
        run,
    )
    await connection.execute(
        """UPDATE dispatcher.job_queue q SET first_id = d.id, last_id = d.id
             FROM dispatcher.deliveries d WHERE d.job_id = q.id AND q.run_id = $1""",
        run,
    )
    return run


async def furnish(connection: Connection) -> Home:
    """Of everything that the API shows or changes one."""
    await flows.put(connection, author="of-home")
    await connection.execute(_FURNITURE)
    waits = await _delivery(connection, "of-home", "ready = ready")
    lost = await _delivery(
        connection,
        "of-home-held",
        "ready = false, marked = true, held = true, token = 1, held_at = now(), error = 'of-home'",
    )
    failed = await _delivery(
        connection, "of-home-dead", "ready = false, status = 'failed', finished_at = now(), error = 'of-home'"
    )
    goes = await _run(connection, "of-home")
    await flows.ordered(connection, goes)
    rests = await _run(connection, "of-home-paused", "pause_run($1)")
    buried = await _run(connection, "of-home-dead", "bury_run($1, 'of-home', 'of-home')")
    pause = await connection.fetchval(
        "SELECT pause_id FROM dispatcher.pause('template', 'promotion', 'default', 'default', 'of-home', 'of-home')"
    )
    erasure = await connection.fetchval(
        """INSERT INTO dispatcher.erasures (tenant_id, workspace_id, actor, reason, subjects, finished_at)
           VALUES ('default', 'default', 'of-home', 'of-home', '{of-home}', now()) RETURNING id"""
    )
    event = await connection.fetchval(
        "SELECT event_id FROM dispatcher.notify('lead_welcome', message_id => 'of-home', source => 'of-home')"
    )
    tested, stopped = await _campaign_run(connection), await _campaign_run(connection)
    await connection.execute("SELECT dispatcher.pause_campaign_run($1)", stopped)
    dead = dict.fromkeys(("retryDelivery", "repairDelivery", "replayDeadDelivery", "discardDeadDelivery"), failed)
    return Home(
        {"": waits, "resolveHeld": lost, "getHeld": lost} | dead,
        {"": goes, "resumeRun": rests, "replayRun": buried, "replayDeadRun": buried, "discardDeadRun": buried},
        pause,
        erasure,
        event,
        *await _enrolment(connection),
        await dead_job(connection),
        await captured(connection, waits),
        {"": tested, "resumeCampaignRun": stopped},
    )


async def seen(connection: Connection) -> dict[str, list[str]]:
    """All rows of the workspace at home, by table."""
    async with connection.transaction():
        await connection.execute(
            "SET LOCAL ROLE dispatcher_tenant; SET LOCAL dispatcher.tenant = 'default';"
            " SET LOCAL dispatcher.workspace = 'default'; SET LOCAL jit = off"
        )
        tables = await connection.fetch(
            "SELECT oid::regclass::text AS name FROM pg_class WHERE relnamespace = 'dispatcher'::regnamespace"
            " AND relkind = 'r' AND has_table_privilege('dispatcher_tenant', oid, 'SELECT')"
        )
        # One statement: it is the same each time, and a connection plans it once.
        rows = await connection.fetch(
            " UNION ALL ".join(f"SELECT '{name}' AS name, t::text AS row FROM {name} t" for (name,) in tables)
        )
    found: dict[str, list[str]] = {name: [] for (name,) in tables}
    for name, row in sorted(map(tuple, rows)):
        found[name].append(row)
    return found


async def call(app: Litestar, key: str, asked: Asked) -> Answer:
    """Make a request, as a server hands it over."""
    content = b"" if asked.body is None else json.dumps(asked.body).encode()
    sent = {"authorization": f"Bearer {key}", "content-type": "application/json", "idempotency-key": ONCE}
    answer = Answer()

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": content, "more_body": False}

    async def send(message: Any) -> None:
        answer.status = message.get("status", answer.status)
        answer.body += message.get("body", b"")

    scope: dict[str, Any] = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": asked.method,
        "scheme": "http",
        "path": asked.path,
        "raw_path": asked.path.encode(),
        "query_string": urlencode(asked.query).encode(),
        "root_path": "",
        "headers": [(name.encode(), value.encode()) for name, value in sent.items()],
        "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 80),
    }
    await app(scope, receive, send)  # type: ignore[arg-type]  # as a server has them
    return answer
