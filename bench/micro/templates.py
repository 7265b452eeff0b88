"""The order mail of the benchmarks: 1.5 KB of text and html, eight variables and a loop of five items."""

import json

_ITEMS = """{% for item in items %}{{ item.quantity }} x {{ item.title }}: {{ item.price }} {{ currency }}
{% endfor %}"""
_TEXT = f"""Hello {{{{ name }}}},

thank you for your order {{{{ order }}}} of {{{{ day }}}}.

{_ITEMS}
Total: {{{{ total }}}} {{{{ currency }}}}
{{% if coupon %}}Coupon: {{{{ coupon }}}}
{{% endif %}}
Follow it here: https://shop.example/orders/{{{{ order }}}}

Your team of {{{{ shop }}}}
"""
_HTML = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>Order {{ order }}</title>
<style>body{font-family:sans-serif;color:#222}td{padding:4px 8px;border-bottom:1px solid #eee}
th{padding:4px 8px;background:#f4f4f4}a{color:#06c}p{line-height:1.4;margin:0 0 12px}
.footer{font-size:12px;color:#888}</style></head>
<body>
<p>Hello {{ name }},</p>
<p>thank you for your order <b>{{ order }}</b> of {{ day }}.</p>
<table role="presentation" cellpadding="0" cellspacing="0" width="100%">
<tr><th align="left">Item</th><th align="right">Quantity</th><th align="right">Price</th></tr>
{% for item in items %}<tr><td>{{ item.title }}</td><td align="right">{{ item.quantity }}</td>\
<td align="right">{{ item.price }} {{ currency }}</td></tr>
{% endfor %}<tr><td colspan="2"><b>Total</b></td><td align="right"><b>{{ total }} {{ currency }}</b></td></tr>
</table>
{% if coupon %}<p>You used the coupon {{ coupon }}.</p>
{% endif %}<p><a href="https://shop.example/orders/{{ order }}">Follow your order</a></p>
<p class="footer">Your team of {{ shop }}</p>
</body></html>
"""
ORDER = {"subject": "Your order {{ order }} at {{ shop }}", "text": _TEXT, "html": _HTML}
# What our filters cost: the same mail with some of them in it, which Jinja2 calls by other names.
FILTERED = {
    "subject": "Your order {{ order | upcase }} at {{ shop }}",
    "text": _TEXT.replace("item.title", "item.title | upcase").replace("{{ day }}", "{{ day | date: '%d.%m.%Y' }}"),
    "html": _HTML.replace("item.title", "item.title | upcase").replace("{{ day }}", "{{ day | date: '%d.%m.%Y' }}"),
}
VALUES = {
    "name": "Ann Smith & Sons",
    "order": "A-1042",
    "day": "2026-03-02",
    "currency": "EUR",
    "total": "129.50",
    "coupon": "SPRING",
    "shop": "The <Corner> Shop",
    "items": [{"title": f"Item {n} & more", "quantity": n, "price": f"{n}9.90"} for n in range(1, 6)],
}
VARIABLES = json.dumps(VALUES)
