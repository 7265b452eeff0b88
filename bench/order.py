"""The order mail of the benchmarks: 1.5 KB of template for text and html, eight variables, five items in a loop."""

import json
from typing import Any

from bench.server import Connection

_TEXT = """Hello {{ name }},

thank you for your order {{ order }} of {{ day }}. We ship it to {{ address }}.

{% for item in items %}- {{ item.count }} x {{ item.name }}: {{ item.price }} {{ currency }}
{% endfor %}
Total: {{ total }} {{ currency }}

Track it: https://shop.example/o/{{ order }}
"""
_HTML = """<!doctype html>
<html><body style="font-family: sans-serif; color: #222; margin: 0; padding: 24px">
<h1 style="font-size: 20px">Thank you, {{ name }}!</h1>
<p>Your order <b>{{ order }}</b> of {{ day }} is on its way to {{ address }}.</p>
<table width="100%" cellpadding="6" style="border-collapse: collapse">
<tr><th align="left">Item</th><th align="right">Count</th><th align="right">Price</th></tr>
{% for item in items %}<tr>
<td style="border-top: 1px solid #ddd">{{ item.name }}</td>
<td style="border-top: 1px solid #ddd" align="right">{{ item.count }}</td>
<td style="border-top: 1px solid #ddd" align="right">{{ item.price }} {{ currency }}</td>
</tr>
{% endfor %}<tr><td colspan="2"><b>Total</b></td><td align="right"><b>{{ total }} {{ currency }}</b></td></tr>
</table>
<p><a href="https://shop.example/o/{{ order }}" style="color: #06c">Track your order</a></p>
<p style="font-size: 12px; color: #777">You get this mail because you ordered at shop.example. Questions? Answer it, or
write to {{ support }}.</p>
</body></html>
"""
PARTS = {"subject": "Your order {{ order }} is on its way", "text": _TEXT, "html": _HTML}
TEMPLATE = json.dumps(PARTS)
SENDER = "Shop <shop@shop.example>"


def variables(number: int) -> dict[str, Any]:
    """What one order's mail is filled with."""
    items = [{"name": f"lamp no. {place}", "count": place, "price": f"{place * 7}.90"} for place in range(1, 6)]
    return {
        "name": f"Ann {number}",
        "order": f"A-{number}",
        "day": "Monday, 2 March",
        "address": "12 Long Street, Springfield",
        "items": items,
        "currency": "EUR",
        "total": "109.50",
        "support": "help@shop.example",
    }


async def fill(connection: Connection, deliveries: int) -> None:
    """Insert so many order mails, due now, to addresses in ten domains."""
    await connection.execute(
        """
        INSERT INTO dispatcher.deliveries (idempotency_key, channel, recipient, template, variables, scheduled_for)
        SELECT 'order-' || i, 'email', 'ann' || i || '@d' || i % 10 || '.example', $1::jsonb,
               $2::jsonb || jsonb_build_object('order', 'A-' || i, 'name', 'Ann ' || i), now()
          FROM generate_series(1, $3::int) AS i
        """,
        TEMPLATE,
        json.dumps(variables(0)),
        deliveries,
    )
