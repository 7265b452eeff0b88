"""Quiet hours over HTTP and on the command line: saved, listed, refused and deleted, and in the audit."""

import json
from typing import Any

import pytest

from tests.support.caller import WHY, Caller, make_key
from tests.support.program import Program

NIGHT = {"quiet": [{"from": "21:00", "to": "08:00"}]}


@pytest.fixture(scope="module")
def shop(serving: Program) -> Caller:
    """An administrator of a workspace of their own."""
    return Caller(serving, make_key(serving, "systemAdmin", "quiet", "shop"))


def _put(caller: Caller, body: object, channel: str = "sms") -> Any:
    return caller.call("PUT", f"/quiet-hours/{channel}", body)


async def test_quiet_hours_are_saved_shown_and_deleted(shop: Caller) -> None:
    made = _put(shop, NIGHT)
    assert (made.status, made.json["channel"], made.json["quiet"]) == (201, "sms", NIGHT["quiet"])
    assert _put(shop, NIGHT).json == made.json
    days = {"windows": [{"from": "09:00", "to": "24:00", "days": ["mon", "sun"]}]}
    changed = _put(shop, days)
    assert (changed.status, changed.json["windows"], changed.json["quiet"]) == (200, days["windows"], [])
    assert changed.json["version"] != made.json["version"]
    assert _put(shop, NIGHT, "all").status == 201
    listed = shop.get("/quiet-hours").json["quiet_hours"]
    assert [one["channel"] for one in listed] == ["all", "sms"]
    assert shop.get("/quiet-hours/all").json == listed[0]
    other = Caller(shop.program, make_key(shop.program, "systemAdmin", "quiet", "other"))
    assert other.get("/quiet-hours").json["quiet_hours"] == []
    assert other.call("DELETE", "/quiet-hours/sms").status == 404
    for channel in ("all", "sms"):
        assert shop.call("DELETE", f"/quiet-hours/{channel}").json == {"channel": channel, "answer": "deleted"}
    assert [shop.get("/quiet-hours/sms").status, shop.call("DELETE", "/quiet-hours/sms").status] == [404, 404]
    entries = shop.get("/audit?kind=quiet_hours").json["entries"]
    told = [(one["subject"], one["action"]) for one in reversed(entries)]
    assert told == [("sms", "put"), ("sms", "put"), ("all", "put"), ("all", "delete"), ("sms", "delete")]


async def test_only_a_manager_of_rules_may(serving: Program) -> None:
    assert _put(Caller(serving, make_key(serving, "triggerOperator")), NIGHT).status == 403


WHOLE = {"from": "00:00", "to": "24:00"}


@pytest.mark.parametrize(
    ("channel", "body", "faults"),
    [
        ("sms", {}, {"$": "has neither quiet nor windows"}),
        ("sms", {"quiet": [WHOLE]}, {"$": "never opens"}),
        ("sms", {"windows": [WHOLE | {"days": ["mon"]}], "quiet": [WHOLE | {"days": ["mon"]}]}, {"$": "never opens"}),
        (
            "smss",
            {"quiet": [{"from": "08:00", "to": "08:00"}, WHOLE]},
            {"path.name": "unknown channel; did you mean", "$.quiet[0].to": "is 08:00, as from"},
        ),
        ("http", NIGHT, {"path.name": "unknown channel"}),
        (
            "sms",
            {"quiet": [{"from": "8:00", "to": "25:00"}], "windows": [WHOLE | {"days": ["monday"]}]},
            {"$.quiet[0].from": "", "$.quiet[0].to": "", "$.windows[0].days[0]": ""},
        ),
        ("sms", {"quiet": [{"from": "24:00", "to": "08:00"}]}, {"$.quiet[0].from": ""}),
        ("sms", {"quiet": [WHOLE | {"days": []}]}, {"$.quiet[0].days": ""}),
        ("sms", {"quiet": [NIGHT["quiet"][0]] * 17}, {"$.quiet": ""}),
        ("sms", NIGHT | {"time_zone": "Mars/Olympus"}, {"$.time_zone": "unknown"}),
    ],
)
async def test_what_is_wrong_is_told_with_its_path(
    shop: Caller, channel: str, body: object, faults: dict[str, str]
) -> None:
    refused = _put(shop, body, channel)
    assert refused.status == 400, refused.json
    found = refused.faults
    assert sorted(found) == sorted(faults)
    for path, words in faults.items():
        assert words.lower() in found[path].lower()
    assert shop.get(f"/quiet-hours/{channel}").status == 404


async def test_a_zone_that_does_not_exist_is_refused_wherever_one_is_given(shop: Caller) -> None:
    nowhere = {"time_zone": "Mars/Olympus"}
    assert "no such time zone" in shop.call("PUT", "/settings", nowhere).faults["$.time_zone"]
    assert "no such time zone" in shop.call("PUT", "/contacts/ann", nowhere).faults["$.time_zone"]


async def test_the_command_line_saves_lists_and_deletes(serving: Program) -> None:
    place = ("--tenant", "quiet", "--workspace", "cli")
    actor = WHY[2:]

    def run(*words: str, code: int = 0) -> str:
        ended = serving.run("quiet-hours", *words, *place)
        assert ended.returncode == code, ended.stderr.decode()
        return (ended.stdout + ended.stderr).decode()

    periods = ("--quiet", "21:00-08:00", "--quiet", "sat,sun 00:00-24:00", "--window", "mon 09:00-18:00")
    assert "nothing is sent 21:00-08:00, sat,sun 00:00-24:00; only sent mon 09:00-18:00" in run(
        "put", "email", *periods, *actor
    )
    assert "21:00-08:00" in run("list")
    (shown,) = (json.loads(line) for line in run("list", "--json").splitlines())
    assert shown["quiet"][1]["days"] == ["sat", "sun"]
    assert "is not a time of day" in run("put", "email", "--quiet", "night", *actor, code=2)
    assert "no quiet hours of its own" in run("delete", "email", *actor)
    assert "There are no quiet hours." in run("list")
