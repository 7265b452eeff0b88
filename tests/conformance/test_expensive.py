"""Templates that take long hold up neither other tenants nor other workflows, nor the process that renders them."""

import json

from liquid import Environment

from tests.conformance.flows import Flows, line, node
from tests.conformance.outbox import Outbox
from tests.support.program import Program
from tests.support.scene import Connection

# Some 30 ms of a processor: filters over a long text, again and again.
EXPENSIVE = (
    "{% capture text %}{% for i in (1..400) %}a line of some length, number {{ i }}\n{% endfor %}{% endcapture %}"
    "{% for i in (1..60) %}{% assign text = text | newline_to_br | replace: '<br />', '' %}{% endfor %}"
    "{{ text | size }}"
)
MANY = 80
FEW = 20


async def test_TE_04_one_tenants_expensive_templates_do_not_delay_anothers_deliveries(
    program: Program, outbox: Outbox
) -> None:
    template = json.dumps({"body": EXPENSIVE})
    greedy = [await outbox.put(template=template, tenant_id="greedy", lane=0) for _ in range(MANY)]
    others = [await outbox.put(body="{{ name }}", variables='{"name": "Ann"}', lane=0) for _ in range(FEW)]
    await program.start()
    for one in others:
        await outbox.until_life(one, "sent")
    assert len(await outbox.captured(*greedy)) < MANY / 2
    await outbox.until_count(MANY + FEW, "sent")
    bodies = await outbox.connection.fetch(
        "SELECT DISTINCT parts->>'body' AS body FROM dispatcher.captured_messages WHERE delivery_id = ANY ($1)", greedy
    )
    assert [row["body"] for row in bodies] == [Environment().from_string(EXPENSIVE).render()]
    assert program.metric("dispatcher_restarts_total") == 0


async def test_TE_04_expensive_texts_of_one_workflow_do_not_delay_another(
    connection: Connection, program: Program
) -> None:
    flows = Flows(connection, program)
    await flows.put(line("greedy", node("mail", "push", to=f"token-{EXPENSIVE}")))
    await flows.put(line("quick", node("mail", "sms")))
    greedy = [await flows.trigger("greedy") for _ in range(MANY)]
    quick = [await flows.trigger("quick") for _ in range(FEW)]
    await flows.program.start()
    for run in quick:
        await flows.until_status(run, "completed")
    counted = "SELECT count(*) FROM dispatcher.runs WHERE id = ANY ($1) AND status = 'completed'"
    assert await flows.connection.fetchval(counted, greedy) < MANY / 2
    for run in greedy:
        await flows.until_status(run, "completed")
    assert flows.program.metric("dispatcher_restarts_total") == 0
