"""Workflows for tests, saved as whoever compiles a definition saves them."""

from dispatcher.plans.plan import Delay, Plan, RequiredVariable, Send, encode
from tests.support.scene import Connection

PUT = "SELECT FROM dispatcher.put_workflow('default', 'default', $1, $2::text::json, $3::text::json, 'ann', $4)"


async def put_plan(connection: Connection, plan: Plan, active: bool = True) -> None:
    """Save a plan as a workflow."""
    text = encode(plan).decode()
    await connection.execute(PUT, plan.name, text, text, active)


def idle(name: str = "report", *reads: str) -> Plan:
    """A workflow that does nothing, and needs this much to be told."""
    wanted = tuple(RequiredVariable(path, (path,)) for path in reads)
    return Plan(name=name, entry="wait", nodes={"wait": Delay(step=1, seconds=0.0)}, edges={}, reads=wanted)


def telling(name: str = "report") -> Plan:
    """A workflow that sends for when it was scheduled."""
    say = Send(
        step=1, channel="sms", to=("+4917012345",), parts={"body": "{{ scheduled_for }}"}, reads=("scheduled_for",)
    )
    reads = (RequiredVariable("scheduled_for", ("scheduled_for",)),)
    return Plan(name=name, entry="say", nodes={"say": say}, edges={}, reads=reads)
