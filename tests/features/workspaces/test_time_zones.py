"""The time zone of a workspace: what is saved without one of its own has it."""

from tests.support.caller import Caller, make_key
from tests.support.program import Program

STEP = {"dayOffset": 1, "stepOrder": 1, "channel": "sms", "content": "Hello"}


async def test_a_sequence_without_a_time_zone_has_that_of_its_workspace(serving: Program) -> None:
    shop = Caller(serving, make_key(serving, "systemAdmin", "zoned", "shop"))

    def saved(name: str, **settings: str) -> str:
        answer = shop.call("PUT", f"/sequences/{name}", {"steps": [STEP]} | settings)
        assert answer.status in (200, 201), answer.json
        return str(shop.get(f"/sequences/{name}").json["settings"]["timeZone"])

    assert saved("before") == "UTC"
    assert shop.call("PUT", "/settings", {"time_zone": "Asia/Tokyo"}).status == 200
    assert saved("after") == "Asia/Tokyo"
    assert saved("own", timeZone="Europe/Berlin") == "Europe/Berlin"
    # What is saved stays as it is until it is saved again.
    assert shop.get("/sequences/before").json["settings"]["timeZone"] == "UTC"
    compared = shop.post("/sequence-comparison", {"sequences": [{"name": "after", "steps": [STEP]}]})
    assert compared.json["sequences"][0]["same"] is True
