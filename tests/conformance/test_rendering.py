"""TE-03 and TE-04: rendering is python-liquid's, escapes html, names what is missing, and bombs hurt nobody else."""

import json
from typing import Any

import psutil
from liquid import Environment, StrictUndefined

from tests.conformance.outbox import Outbox
from tests.support.program import Program

# More than a template is rendered by python-liquid before it is compiled.
DELIVERIES = 20
BOMBS_IN_A_ROW = 8
TEMPLATE = {
    "subject": "Order {{ order.id }}{% if order.paid %} (paid){% endif %}",
    "text": "Hello {{ name | upcase }},\n{% for item in order.items -%}\n{{ forloop.index }}. {{ item.title }}: "
    "{{ item.price | times: 2 | round: 2 }}\n{% else %}nothing\n{% endfor %}{{ order.day | date: '%d.%m.%Y' }}",
    "html": "{% capture who %}<b>{{ name }}</b>{% endcapture %}<p>{{ who }}</p>{% for item in order.items %}"
    "<li>{{ item.title }}{% unless forloop.last %},{% endunless %}</li>{% endfor %}"
    "{{ order.note | default: '&mdash;' }}",
}


def _variables(number: int) -> dict[str, Any]:
    items = [{"title": f"<{n}> & ü", "price": 9.99 * n} for n in range(number % 4)]
    order = {"id": number, "paid": number % 2 == 0, "day": "2026-03-02", "note": None, "items": items}
    return {"name": f"Ann & <{number}>", "order": order}


def _by_the_library(variables: dict[str, Any]) -> dict[str, str]:
    return {
        part: Environment(undefined=StrictUndefined, autoescape=part == "html").from_string(text).render(variables)
        for part, text in TEMPLATE.items()
    }


async def _failed(outbox: Outbox, delivery: int) -> str:
    assert await outbox.until_life(delivery, "failed", "sent") == "failed"
    return str((await outbox.row(delivery))["error"])


async def test_TE_03_rendering_is_python_liquids_byte_for_byte(program: Program, outbox: Outbox) -> None:
    made = {
        await outbox.put(
            "email", template=json.dumps(TEMPLATE), variables=json.dumps(_variables(number))
        ): _by_the_library(_variables(number))
        for number in range(DELIVERIES)
    }
    await program.start()
    await outbox.until_count(DELIVERIES, "sent")
    rows = await outbox.connection.fetch("SELECT delivery_id, parts FROM dispatcher.captured_messages")
    assert {row["delivery_id"]: json.loads(row["parts"]) for row in rows} == made


async def test_TE_03_a_missing_variable_is_named_with_its_part_and_its_line(program: Program, outbox: Outbox) -> None:
    template = json.dumps({"text": "fine\n{{ order.nobody }}"})
    made = [await outbox.put("email", template=template, variables='{"order": {"id": 1}}') for _ in range(DELIVERIES)]
    await program.start()
    reasons = {await _failed(outbox, delivery) for delivery in made}
    assert reasons == {"template.text: missing variable: line 2: order.nobody is undefined"}


async def test_TE_03_to_leave_escaping_is_a_right_that_a_delivery_has_not(program: Program, outbox: Outbox) -> None:
    template = json.dumps({"html": "{{ name | safe }}"})
    delivery = await outbox.put("email", template=template, variables='{"name": "<b>"}')
    await program.start()
    assert "raw_html" in await _failed(outbox, delivery)


BOMBS = {
    "loops": ("{% for a in (1..9000) %}{% for b in (1..9000) %}x{% endfor %}{% endfor %}", "loop iteration limit"),
    "loops_in_a_row": ("{% for a in (1..19000) %}{% assign b = a %}{% endfor %}" * 9, "loop iteration limit"),
    "reversed": ("{% for a in (1..1000000000) reversed %}x{% endfor %}", "loop iteration limit"),
    "output": ("{% for a in (1..9000) %}" + "x" * 1_000 + "{% endfor %}", "output stream limit"),
    "filter_output": (
        "{% assign a = 'xxxx' %}{% for i in (1..60) %}{% assign a = a | append: a %}{% endfor %}",
        "append: a text of more than",
    ),
    "nesting": ("{% if true %}" * 200 + "{% endif %}" * 200, "block nesting limit"),
    "size": ("{{ a }}" * 9_000, "more than 5000 tags"),
    "time": (
        "{% assign a = '" + "1 " * 40_000 + "' | split: '' %}"
        "{% for i in (1..9000) %}{% if a contains 'zz' %}x{% endif %}{% endfor %}",
        "work limit reached",
    ),
}


async def test_TE_04_a_bomb_is_a_failed_delivery_with_its_reason_and_others_are_sent(
    program: Program, outbox: Outbox
) -> None:
    made = [
        (await outbox.put(template=json.dumps({"body": bomb}), variables='{"a": 1}'), words)
        for bomb, words in BOMBS.values()
        for _ in range(8)
    ]
    others = await outbox.fill(100)
    await program.start()
    for delivery, words in made:
        assert words in await _failed(outbox, delivery)
    await outbox.until_count(len(others), "sent")
    assert program.metric("dispatcher_restarts_total") == 0


def _processor_seconds(program: Program) -> float:
    """What the program and its worker process have used so far."""
    assert program.process is not None
    main = psutil.Process(program.process.pid)
    return sum(sum(one.cpu_times()[:2]) for one in (main, *main.children(recursive=True)))


async def test_TE_04_a_bomb_costs_no_more_than_100_ms_of_a_processor(program: Program, outbox: Outbox) -> None:
    """By the processor's time, which is the same however many others use the machine. The first one starts the worker
    process and compiles the template."""
    template = json.dumps({"body": BOMBS["time"][0]})
    await program.start()
    await _failed(outbox, await outbox.put(template=template))
    before = _processor_seconds(program)
    for _ in range(BOMBS_IN_A_ROW):
        assert BOMBS["time"][1] in await _failed(outbox, await outbox.put(template=template))
    assert (_processor_seconds(program) - before) / BOMBS_IN_A_ROW < 0.1
