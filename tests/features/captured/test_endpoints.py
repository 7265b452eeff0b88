"""Captured messages over HTTP."""

from tests.support.caller import Caller, make_key
from tests.support.program import Program


async def test_a_captured_message_is_listed_and_shown(serving: Program) -> None:
    caller = Caller(serving, make_key(serving))
    parts = {"subject": "Order {{ n }}", "text": "Thank you, {{ name }}."}
    said = {"channel": "email", "recipient": "ann@example.org", "idempotency_key": "captured-1"}
    written = caller.post("/deliveries", said | {"template": parts, "variables": {"n": 17, "name": "Ann"}}).json
    asked = "/captured?recipient=ann@example.org"
    await serving.until(lambda: caller.get(asked).json["captured"] != [], "it is captured")
    [line] = caller.get("/captured?channel=email&recipient=ann@example.org").json["captured"]
    assert (line["delivery_id"], line["title"], line["text"]) == (written["id"], "Order 17", "Thank you, Ann.")
    one = caller.get(f"/captured/{line['id']}").json
    assert (one["parts"]["text"], one["has_mail"], one["fault"]) == ("Thank you, Ann.", True, None)
    assert caller.get("/captured?channel=sms&recipient=ann@example.org").json["captured"] == []
