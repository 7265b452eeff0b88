"""Dashboards and alerts on a real Prometheus that scrapes the real program while it works."""

import re
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from dispatcher.plans.plan import Plan, Send
from tests.monitoring import prometheus
from tests.monitoring.prometheus import Prometheus
from tests.monitoring.reading import alerts, dashboards, queries, selectors
from tests.support import flows
from tests.support.caller import Caller
from tests.support.deployed import Campaigns
from tests.support.program import Program
from tests.support.scene import Connection
from tests.support.waits import until

pytestmark = pytest.mark.skipif(bool(prometheus.why_not()), reason=prometheus.why_not())

# The panels that may be empty, since nothing here comes to that.
MAY_BE_EMPTY = {
    "Results that came too late": "no replica is fenced",
}
# Alerts that depend on the machine.
OF_THE_MACHINE = {"DispatcherMarksSlow"}
SECONDS_MAX = 60.0
CHANNELS = "DISPATCHER_CHANNELS__"
SETTINGS = {
    "DISPATCHER_JANITOR__INTERVAL_SECONDS": "0.2",
    "DISPATCHER_WALK__POLL_SECONDS": "0.1",
    "DISPATCHER_RETRY__BASE_SECONDS": "0.1",
    "DISPATCHER_RECEIPTS__RESEND_SECRETS": "whsec_" + "a" * 32,
    f"{CHANNELS}EMAIL__PROVIDERS__ONE__PROVIDER": "capture",
    f"{CHANNELS}EMAIL__PROVIDERS__OTHER__PROVIDER": "capture",
    f"{CHANNELS}PUSH__FAULTS__REFUSE": "1",
    f"{CHANNELS}CHAT__FAULTS__UNKNOWN": "1",
    f"{CHANNELS}WEBHOOK__PROVIDER": "blackhole",
}
_WRITE = """
INSERT INTO dispatcher.deliveries (tenant_id, idempotency_key, channel, lane, recipient, template)
SELECT 'tenant-' || n % 3, concat_ws('-', $1::text, channel, n), channel, n % 3,
       CASE channel WHEN 'email' THEN 'ann@example.org' ELSE '+4917012345' END, '{"body": "hello"}'
  FROM unnest($2::text[]) AS channel, generate_series(1, 6) AS n
"""
_PREPARE = """
INSERT INTO dispatcher.suppressions (tenant_id, kind, address, actor, reason)
VALUES ('tenant-0', 'phone', '+4917012345', 'ann', 'a test');
SELECT dispatcher.create_webhook('default', 'default', 'crm', 'https://crm.example.org', '{run.completed}', true,
                                 'whsec_' || repeat('a', 32), 9, 'ann', 'a test')
"""


class Load:
    """Applications that write something of everything, again and again."""

    def __init__(self, program: Program, connection: Connection) -> None:
        self._caller = Caller(program, None)
        self._connection = connection
        self._rounds = 0

    async def prepare(self) -> None:
        """What there is before the first round: a workflow, a campaign that goes on for long, a suppressed address."""
        nodes = {"hello": Send(step=0, channel="sms", to=("+4917012346",), parts={"body": "hello"})}
        await flows.put(self._connection, Plan(name="welcome", entry="hello", nodes=nodes, edges={}))
        await self._connection.execute(_PREPARE)
        await Campaigns(self._connection).deployed(contacts=30, rate=2.0)

    async def healthy(self) -> None:
        """Deliveries that are sent, a run that ends, and a request."""
        self._rounds += 1
        await self._connection.execute(_WRITE, f"well-{self._rounds}", ["sms", "email"])
        await flows.trigger(self._connection)
        self._caller.get("/v1/deliveries")

    async def faulty(self) -> None:
        """Deliveries that fail and that are held, and a receipt that is forged."""
        await self._connection.execute(_WRITE, f"badly-{self._rounds}", ["push", "chat"])
        self._caller.post("/receipts/resend", {})


@pytest.fixture
async def load(program: Program, connection: Connection) -> Load:
    """A program that is at work."""
    await program.start(**SETTINGS)
    made = Load(program, connection)
    await made.prepare()
    return made


@pytest.fixture
async def watching(load: Load, program: Program, tmp_path: Path) -> AsyncIterator[Prometheus]:
    """A Prometheus that scrapes it."""
    async with Prometheus(tmp_path, program.address) as server:
        yield server


def _filled_in(query: str) -> str:
    """A query as Grafana asks it, with all instances, channels and tenants chosen."""
    return re.sub(r"\$(instance|channel|tenant)\b", ".*", query.replace("$__rate_interval", "1m"))


# One test: a second one could run in another process, with a Prometheus of its own.
async def test_every_panel_shows_what_happens_and_no_alert_fires_while_all_is_well(
    load: Load, watching: Prometheus, program: Program
) -> None:
    panels = {(name, title, query) for name, board in dashboards().items() for title, query in queries(board)}

    async def sent() -> object:
        await load.healthy()
        return watching.query('sum(rate(dispatcher_outcomes_total{outcome="succeeded"}[1m])) > 0')

    await until(sent, "two scrapes have seen deliveries", SECONDS_MAX)
    firing = [rule["alert"] for rule in alerts() if watching.query(rule["expr"])]
    assert set(firing) <= OF_THE_MACHINE
    assert watching.unhealthy_rules() == {}

    empty = {panel for panel in panels if panel[1] not in MAY_BE_EMPTY}

    async def shown() -> bool:
        await load.healthy()
        await load.faulty()
        empty.difference_update({panel for panel in empty if watching.query(_filled_in(panel[2]))})
        return not empty

    try:
        await until(shown, "every panel has data", SECONDS_MAX)
    except AssertionError:
        assert not empty, sorted(empty)
    for name, title, query in panels:
        assert watching.query(_filled_in(query)) or title in MAY_BE_EMPTY, (name, title)
    _variables_have_values(watching)
    exported = set(re.findall(r"^# TYPE (\w+)", program.get("/metrics")[1], re.MULTILINE))
    read = {one.metric for rule in alerts() for one in selectors(rule["expr"])}
    assert {re.sub(r"_(total|bucket)$", "", metric) for metric in read} <= exported


def _variables_have_values(watching: Prometheus) -> None:
    for name, board in dashboards().items():
        for variable in board["templating"]["list"]:
            if variable["type"] == "query":
                asked = re.fullmatch(r"label_values\((.+), (\w+)\)", variable["query"]["query"])
                assert asked, (name, variable)
                assert watching.labels(_filled_in(asked[1]), asked[2]), (name, variable["name"])
