"""Every door has the same form of a traceparent: Python, the functions of SQL, and the tables."""

import asyncpg
import pytest

from dispatcher.base.values.traceparent import WORDS, is_traceparent
from tests.support.scene import Connection

TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
GOOD = [f"00-{TRACE}-{SPAN}-01", f"00-{TRACE}-{SPAN}-00", f"00-{'0' * 31}1-{'0' * 15}1-ff"]
BAD = [
    "",
    f"00-{TRACE}-{SPAN}",
    f"00-{TRACE}-{SPAN}-01-more",
    f"01-{TRACE}-{SPAN}-01",
    f"ff-{TRACE}-{SPAN}-01",
    f"00-{'0' * 32}-{SPAN}-01",
    f"00-{TRACE}-{'0' * 16}-01",
    f"00-{TRACE.upper()}-{SPAN}-01",
    f"00-{TRACE}-{SPAN}-01\n",
    f" 00-{TRACE}-{SPAN}-01",
]
INSERT = """INSERT INTO dispatcher.deliveries (idempotency_key, channel, recipient, template, traceparent)
            VALUES ('k', 'sms', '+49', '{"body": "x"}', $1)"""
RUN = """INSERT INTO dispatcher.runs (workflow_id, version_id, tenant_id, workspace_id, workflow, triggered_by, input,
                                      traceparent)
         VALUES (1, 1, 'default', 'default', 'x', 'x', '{}', $1)"""


@pytest.mark.parametrize("given", [*GOOD, *BAD])
async def test_every_door_has_one_form(connection: Connection, given: str) -> None:
    is_good = given in GOOD
    assert is_traceparent(given) is is_good
    words = await connection.fetchval("SELECT dispatcher.traceparent_faults($1) #>> '{0,words}'", given)
    assert words == (None if is_good else WORDS)
    for statement in (INSERT, RUN):
        if is_good:
            await connection.execute(statement, given)
        else:
            with pytest.raises(asyncpg.CheckViolationError, match="traceparent_form"):
                await connection.execute(statement, given)


async def test_functions_refuse_a_malformed_one_by_its_path(connection: Connection) -> None:
    for call in (
        """enqueue_delivery('sms', '+49', 'k', '{"body": "x"}', traceparent => 'x')""",
        "trigger_workflow('x', traceparent => 'x')",
        "notify('lead_welcome', traceparent => 'x')",
    ):
        with pytest.raises(asyncpg.InvalidParameterValueError, match="traceparent: expected a W3C") as refused:
            await connection.fetch(f"SELECT * FROM dispatcher.{call}")
        assert '"$.traceparent"' in str(refused.value.detail)
