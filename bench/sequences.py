"""Sequences as a benchmark fills and watches them: contacts set-based, enrolled by the function of applications."""

from bench.measure import BenchError
from bench.server import Connection
from dispatcher.features.sequences.rules import Settings, Step, compile_sequence
from dispatcher.plans import plan as plans
from dispatcher.plans.definition.definition import Known
from dispatcher.plans.plan import Day, Plan

SEQUENCE = "drip"
_KNOWN = Known(("email", "sms"))


async def contacts(connection: Connection, count: int) -> None:
    """Make so many contacts with a phone number each."""
    await connection.execute(
        """
        WITH made AS (
            INSERT INTO dispatcher.contacts (tenant_id, workspace_id, key, name, status, updated_by)
            SELECT 'default', 'default', 'c' || i, 'Ann', 'active', 'bench' FROM generate_series(1, $1::int) AS i
            RETURNING id
        )
        INSERT INTO dispatcher.contact_addresses (contact_id, position, tenant_id, workspace_id, kind, address, written)
        SELECT id, 1, 'default', 'default', 'phone', '+49' || 15100000000 + id, '+49' || 15100000000 + id FROM made
        """,
        count,
    )
    await connection.execute("VACUUM (ANALYZE) dispatcher.contacts, dispatcher.contact_addresses")


async def publish(connection: Connection, days: tuple[int, ...]) -> None:
    """Publish a sequence with a text message on each of these days."""
    steps = [
        Step(id=number, day_offset=day, step_order=number, channel="sms", content="Hi {{ contact.name }}, day by day")
        for number, day in enumerate(days, 1)
    ]
    plan = compile_sequence(SEQUENCE, Settings(), steps, _KNOWN)
    if not isinstance(plan, Plan):
        raise BenchError(f"the sequence has faults: {plan}")
    first = plan.nodes[plan.entry]
    if not isinstance(first, Day):
        raise BenchError("a sequence begins with a day")
    await connection.execute(
        """SELECT dispatcher.put_sequence('default', 'default', $1, '{}', (
                      SELECT jsonb_agg(jsonb_build_object('dayOffset', d.day, 'stepOrder', d.place, 'channel', 'sms',
                                                          'content', 'Hi') ORDER BY d.place)
                        FROM unnest($2::int[]) WITH ORDINALITY AS d (day, place)), NULL, 'bench')""",
        SEQUENCE,
        list(days),
    )
    await connection.execute(
        """SELECT dispatcher.publish_sequence('default', 'default', $1, 1, '{}', $2::text::json, jsonb_build_object(
                      'node', $3::text, 'days', $4::int, 'hour', NULL, 'zone', 'UTC', 'contact_zone', false),
                  2::smallint, 'bench')""",
        SEQUENCE,
        plans.encode(plan).decode(),
        plan.entry,
        first.days,
    )


async def enrol_all(connection: Connection, expected: int) -> None:
    """Enrol all contacts in one statement."""
    asked = "SELECT enrolled_count FROM dispatcher.enrol_audience($1, '{\"all\": true}')"
    enrolled = await connection.fetchval(asked, SEQUENCE, timeout=600)
    if enrolled != expected:
        raise BenchError(f"{enrolled} of {expected} contacts were enrolled")
