"""Runs as a benchmark fills and watches them: one workflow of three steps, triggered set-based."""

from bench.measure import BenchError
from bench.server import Connection
from dispatcher.plans import plan as plans
from dispatcher.plans.plan import Delay, Edge, Plan, RequiredVariable, Send

WORKFLOW = "bench"
SETTINGS = {
    f"CHANNELS__{channel}__{name}": value
    for channel in ("EMAIL", "SMS")
    for name, value in (("PROVIDER", "blackhole"), ("MARKED_MAX", "2000"))
}
_NAME = RequiredVariable("name", ("name",))


def plan(delay_seconds: float = 0.0) -> Plan:
    """An e-mail, a delay, an SMS, the end."""
    return Plan(
        name=WORKFLOW,
        entry="mail",
        nodes={
            "mail": Send(
                step=1,
                channel="email",
                to=("{{ email }}",),
                parts={"subject": "Welcome, {{ name }}", "text": "Hello {{ name }}, good to have you here."},
                reads=("name",),
            ),
            "pause": Delay(step=2, seconds=delay_seconds),
            "text": Send(step=3, channel="sms", to=("{{ phone }}",), parts={"body": "Hi {{ name }}"}, reads=("name",)),
        },
        edges={"mail": (Edge("pause"),), "pause": (Edge("text"),)},
        reads=(RequiredVariable("email", ("email",)), _NAME, RequiredVariable("phone", ("phone",))),
    )


async def put(connection: Connection, of: Plan) -> None:
    """Save the workflow, active."""
    text = plans.encode(of).decode()
    await connection.execute(
        "SELECT dispatcher.put_workflow('default', 'default', $1, $2, $2, 'bench', true)", of.name, text
    )


async def trigger(connection: Connection, runs: int) -> None:
    """Trigger so many in one statement, through the SQL function that applications use."""
    started = await connection.fetchval(
        """
        SELECT count((dispatcher.trigger_workflow($1, jsonb_build_object(
                   'name', 'Ann', 'email', format('ann%s@example.org', i), 'phone', '+49151' || 10000000 + i),
                   'run-' || i)).execution_id)
          FROM generate_series(1, $2::int) AS i
        """,
        WORKFLOW,
        runs,
    )
    if started != runs:
        raise BenchError(f"{started} of {runs} runs were triggered")


async def settle(connection: Connection) -> None:
    """Vacuum and checkpoint now, and not during a measurement."""
    await connection.execute("VACUUM (ANALYZE) dispatcher.runs, dispatcher.deliveries, dispatcher.delivery_state")
    await connection.execute("CHECKPOINT")


async def are_over(connection: Connection) -> bool:
    """Whether no run is open. Reads a small index."""
    return not await connection.fetchval("SELECT EXISTS (SELECT FROM dispatcher.runs WHERE finished_at IS NULL)")


async def require_completed(connection: Connection, runs: int) -> None:
    """A rate counts only when every run has completed, and each of its messages was sent once."""
    completed = await connection.fetchval("SELECT count(*) FROM dispatcher.runs WHERE status = 'completed'")
    [(sent, attempts)] = await connection.fetch(
        "SELECT count(*) AS sent, coalesce(sum(attempt), 0) AS attempts FROM dispatcher.delivery_state "
        "WHERE status = 'sent'"
    )
    if (completed, sent, attempts) != (runs, 2 * runs, 2 * runs):
        raise BenchError(f"{completed} of {runs} runs completed, {sent} messages were sent in {attempts} attempts")
