"""Caps over HTTP: what is saved, listed and deleted, what is refused with every fault, and what the audit says."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.support.caller import Caller, make_key
from tests.support.program import Program

CAP = {"messages": 3, "period": "7d", "channels": ["sms"]}


@pytest.fixture
def shop(serving: Program, request: pytest.FixtureRequest) -> Caller:
    """An administrator of a workspace of this test's own."""
    return Caller(serving, make_key(serving, "systemAdmin", "acme", request.node.name[:100]))


def put(caller: Caller, name: str = "weekly", **fields: Any) -> Any:
    """Save a cap."""
    return caller.call("PUT", f"/caps/{name}", CAP | fields)


async def test_a_cap_is_saved_listed_shown_and_deleted(shop: Caller) -> None:
    made = put(shop, topics=["news", "offers", "news"])
    assert (made.status, made.json["answer"], made.json["period"]) == (201, "created", "7d")
    assert made.json["topics"] == ["news", "offers"]
    again = put(shop, period="168h", topics=["offers", "news"])
    assert (again.status, again.json["answer"]) == (200, "same")
    assert put(shop, messages=2).json["answer"] == "changed"
    put(shop, "daily", period="P1D")
    listed = shop.get("/caps").json["caps"]
    assert [(one["name"], one["messages"], one["period"]) for one in listed] == [
        ("daily", 3, "1d"),
        ("weekly", 2, "7d"),
    ]
    assert shop.get("/caps/weekly").json == listed[1]
    assert shop.call("DELETE", "/caps/weekly").status == 200
    assert shop.get("/caps/weekly").status == shop.call("DELETE", "/caps/weekly").status == 404
    audit = shop.get("/audit?kind=cap").json["entries"]
    assert [(one["subject"], one["action"]) for one in audit] == [
        ("weekly", "delete"),
        ("daily", "put"),
        ("weekly", "put"),
        ("weekly", "put"),
    ]
    assert audit[2]["details"] == {"messages": 2, "period_seconds": 604_800, "channels": ["sms"], "topics": []}


async def test_every_fault_is_named(shop: Caller) -> None:
    faults = put(shop, messages="3", channels=[], topics=["No Topic"]).faults
    assert set(faults) == {"$.messages", "$.channels", "$.topics[0]"}
    faults = put(shop, messages=0, period="1M", channels=["sms", "smss", "webhook", "http"]).faults
    assert set(faults) == {"$.messages", "$.period", "$.channels[1]", "$.channels[2]", "$.channels[3]"}
    assert faults["$.channels[1]"].startswith('unknown channel "smss"; did you mean "sms"?')
    assert set(put(shop, messages=101).faults) == {"$.messages"}


@pytest.mark.parametrize("period", ["0s", "59s", "367d", "P1M", "1.5s", "90.5s", "seven days", "-1d"])
async def test_a_period_out_of_bounds_is_refused(shop: Caller, period: str) -> None:
    assert set(put(shop, period=period).faults) == {"$.period"}


@pytest.mark.parametrize("period", ["1m", "61s", "36h", "366d"])
async def test_a_period_within_bounds_is_taken(shop: Caller, period: str) -> None:
    assert put(shop, period=period).status == 201


async def test_a_workspace_has_a_bounded_number_of_caps(shop: Caller) -> None:
    made = [put(shop, f"cap-{number}").status for number in range(21)]
    assert made == [201] * 20 + [409]
    assert put(shop, "cap-3", messages=1).json["answer"] == "changed"


def _heeded(caller: Caller) -> bool:
    """Whether a cap has stood for as long as a replica may take to heed it."""
    since = datetime.fromisoformat(caller.get("/caps/weekly").json["updated_at"])
    return datetime.now(UTC) - since > timedelta(seconds=1)


async def test_the_timeline_shows_what_was_capped(shop: Caller) -> None:
    put(shop, messages=1)
    await shop.program.until(lambda: _heeded(shop), "the cap is heeded")
    one = {"channel": "sms", "recipient": "+4917012399", "template": {"body": "x"}}
    ids = [shop.post("/deliveries", one | {"idempotency_key": f"k-{n}"}).json["id"] for n in range(2)]

    def ended() -> list[Any]:
        found = [shop.get(f"/deliveries/{one}").json for one in ids]
        return found if all(row["status"] != "queued" for row in found) else []

    rows = await shop.program.until(ended, "both have ended")
    assert [row["status"] for row in rows] == ["sent", "skipped"]
    entries = shop.get("/persons/timeline?address=%2B4917012399").json["entries"]
    assert "capped (1 in 7 days)" in str(entries[0])
