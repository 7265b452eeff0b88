"""Deliveries over HTTP: what is written is sent, found again page by page, cancelled and moved."""

import asyncio
import base64
import json
from functools import partial
from types import SimpleNamespace
from typing import cast

import pytest

from dispatcher.base.errors import HINTS_MAX
from dispatcher.base.loop_yielder import LoopYielder
from dispatcher.base.worker_process import Offload
from dispatcher.base.workspace import Workspace
from dispatcher.config.settings import Config
from dispatcher.features.deliveries import endpoints
from dispatcher.http.endpoints import Call, Part
from dispatcher.http.problems import Problem
from dispatcher.liquid.sources import PARTS_MAX
from tests.support.caller import Caller, delivery, exact
from tests.support.scene import Connection

LATER = "2040-01-01T00:00:00Z"
WHY = {"reason": "the order was cancelled"}


async def test_a_written_delivery_is_sent_once_and_shown_with_its_trace(admin: Caller) -> None:
    asked = delivery("hello", body="Hello {{ name }}", variables={"name": "Ann", "price": 1.125})
    first, second = admin.post("/deliveries", exact(asked)), admin.post("/deliveries", exact(asked))
    assert (first.status, second.status) == (201, 200)
    number = first.json["id"]
    assert {name: first.json[name] for name in ("duplicate", "life", "waits", "bar")} == {
        "duplicate": False,
        "life": "pending",
        "waits": None,
        "bar": None,
    }
    assert (second.json["id"], second.json["idempotency_key"], second.json["duplicate"]) == (number, "hello", True)

    def sent() -> bool:
        return bool(admin.get(f"/deliveries/{number}").json["status"] == "sent")

    await admin.program.until(sent, "it is sent")
    shown = admin.get(f"/deliveries/{number}")
    assert b'"price": 1.1250' in shown.body
    assert (shown.json["template"], shown.json["attempt"], shown.json["lane"]) == (
        {"body": "Hello {{ name }}"},
        1,
        "normal",
    )
    assert shown.json["attempts"] == shown.json["actions"] == []
    late = admin.post(f"/deliveries/{number}/cancel", WHY)
    assert (late.status, late.json["type"]) == (409, "urn:dispatcher:problem:conflict")
    assert late.json["detail"] == f"delivery {number} has been sent: too late"


async def test_pages_follow_one_another_without_gap_and_repetition(admin: Caller) -> None:
    many = [delivery(f"page-{number}", channel="push", scheduled_for=LATER) for number in range(7)]
    written = [one["id"] for one in admin.post("/deliveries/batch", {"deliveries": many}).json["deliveries"]]
    seen, cursor, pages = [], "", 0
    while True:
        page = admin.get(f"/deliveries?channel=push&life=pending&limit=3{cursor}").json
        seen += [one["id"] for one in page["deliveries"]]
        pages += 1
        if page["next_cursor"] is None:
            break
        cursor = f"&cursor={page['next_cursor']}"
    assert (seen, pages) == (sorted(written, reverse=True), 3)
    other = admin.get(f"/runs?{cursor[1:]}")
    assert list(other.faults) == ["query.cursor"]
    assert admin.get("/deliveries?channel=push&life=held").json["deliveries"] == []
    (one,) = admin.get("/deliveries?idempotency_key=page-3").json["deliveries"]
    assert one["id"] == written[3]


@pytest.mark.parametrize("kept", ["20000-01-01", "infinity"])
async def test_a_time_beyond_the_calendar_is_shown_as_its_end(admin: Caller, inside: Connection, kept: str) -> None:
    asked = """INSERT INTO dispatcher.deliveries (idempotency_key, channel, recipient, template, scheduled_for)
               VALUES ($1, 'sms', '+4917012345', '{"body": "x"}', $1::text::timestamptz) RETURNING id"""
    shown = admin.get(f"/deliveries/{await inside.fetchval(asked, kept)}").json
    (listed,) = admin.get(f"/deliveries?idempotency_key={kept}").json["deliveries"]
    assert {shown["scheduled_for"], shown["run_at"], listed["run_at"]} == {"9999-12-31T23:59:59.999999Z"}


async def test_waiting_deliveries_are_moved_and_cancelled_by_id_and_key(admin: Caller, inside: Connection) -> None:
    waiting = [delivery(f"w-{number}", scheduled_for=LATER) for number in range(2)]
    by_id, by_key = (one["id"] for one in admin.post("/deliveries/batch", {"deliveries": waiting}).json["deliveries"])
    sooner = {"run_at": "2039-01-01T01:00:00+01:00"} | WHY
    moved = [
        admin.post(f"/deliveries/{by_id}/move", sooner),
        admin.post("/deliveries/move", {"idempotency_key": "w-1"} | sooner),
    ]
    assert [(one.status, one.json["id"], one.json["answer"]) for one in moved] == [
        (200, by_id, "moved"),
        (200, by_key, "moved"),
    ]
    assert admin.get(f"/deliveries/{by_key}").json["run_at"] == "2039-01-01T00:00:00Z"
    gone = [
        admin.post(f"/deliveries/{by_id}/cancel", WHY),
        admin.post("/deliveries/cancel", {"idempotency_key": "w-1"} | WHY),
    ]
    assert [(one.status, one.json["answer"]) for one in gone] == [(200, "cancelled"), (200, "cancelled")]
    assert admin.post(f"/deliveries/{by_id}/cancel", WHY).status == 409
    shown = admin.get(f"/deliveries/{by_key}").json
    assert (shown["status"], [one["action"] for one in shown["actions"]]) == ("skipped", ["move", "cancel"])
    assert shown["actions"][0]["actor"].startswith("key systemAdmin.")
    assert shown["actions"][0]["reason"] == WHY["reason"]
    assert admin.post("/deliveries/cancel", {"idempotency_key": "nobody's"} | WHY).status == 404
    naive = admin.post(f"/deliveries/{by_id}/move", {"run_at": "2039-01-01T00:00:00"} | WHY)
    assert list(naive.faults) == ["$.run_at"]
    # In UTC it is in a year that there is not.
    beyond = admin.post(f"/deliveries/{by_id}/move", {"run_at": "9999-12-31T23:59:59-14:00"} | WHY)
    assert beyond.faults == {"$.run_at": "is out of range"}


async def test_a_cancelled_delivery_that_may_have_gone_out_stays_held(admin: Caller, inside: Connection) -> None:
    number = admin.post("/deliveries", delivery("stopped", scheduled_for=LATER)).json["id"]
    await inside.execute("UPDATE dispatcher.delivery_state SET resend_until = 'infinity' WHERE id = $1", number)
    answer = admin.post(f"/deliveries/{number}/cancel", {"reason": "no"}, idempotency_key="stopped")
    assert (answer.status, answer.json["answer"]) == (200, "stopped")
    assert admin.get(f"/deliveries/{number}").json["life"] == "held"


async def test_each_line_is_answered_by_itself(admin: Caller, inside: Connection) -> None:
    said = [
        json.dumps(delivery("line-1", scheduled_for=LATER, tenant_id="default")),
        json.dumps(delivery("line-2", channel="fax")),
        "no JSON",
        json.dumps(delivery("line-3", tenant_id="acme", workspace_id="other")),
        json.dumps(delivery("line-4", template_name="nobody's", body=None)),
        json.dumps(delivery("line-1")),
    ]
    first, *others, last = admin.post("/deliveries/lines", {"lines": said}).json["lines"]
    assert (first["idempotency_key"], last) == ("line-1", first | {"duplicate": True})
    assert [[fault["path"] for fault in one["faults"]] for one in others] == [
        ["channel"],
        ["line"],
        ["tenant_id", "workspace_id"],
        ["template_name"],
    ]
    assert await inside.fetchval("SELECT count(*) FROM dispatcher.deliveries WHERE idempotency_key LIKE 'line-%'") == 1


async def test_the_key_decides_the_workspace(admin: Caller, inside: Connection) -> None:
    foreign = delivery("whose", scheduled_for=LATER, tenant_id="acme", workspace_id="other")
    one = admin.post("/deliveries", foreign)
    assert (one.status, sorted(one.faults)) == (400, ["$.tenant_id", "$.workspace_id"])
    many = admin.post("/deliveries/batch", {"deliveries": [delivery("whose-1", scheduled_for=LATER), foreign]})
    assert (many.status, sorted(many.faults)) == (400, ["$.deliveries[1].tenant_id", "$.deliveries[1].workspace_id"])
    assert await inside.fetchval("SELECT count(*) FROM dispatcher.deliveries WHERE idempotency_key ~ 'whose'") == 0


async def test_a_skipped_delivery_is_retried_and_its_mail_shown(admin: Caller) -> None:
    admin.post("/deliveries", delivery("before-again"))
    asked = delivery("again", channel="email", recipient="ann@example.org", body=None, scheduled_for=LATER)
    letter = {"template": {"subject": "Hi", "text": "Hello"}}
    number = admin.post("/deliveries", asked | letter).json["id"]
    assert admin.get(f"/deliveries/{number}/mail").status == 409
    early = admin.post(f"/deliveries/{number}/retry", WHY)
    assert (early.status, early.json["answer"]) == (409, "queued")
    admin.post(f"/deliveries/{number}/cancel", WHY)
    assert admin.post(f"/deliveries/{number}/retry", WHY).json["answer"] == "reopened"

    def sent() -> bool:
        return bool(admin.get(f"/deliveries/{number}").json["status"] == "sent")

    await admin.program.until(sent, "it is sent")
    shown = admin.get(f"/deliveries/{number}").json
    assert shown["captured"][0]["parts"] == letter["template"]
    assert b"Subject: Hi" in base64.b64decode(admin.get(f"/deliveries/{number}/mail").json["raw"])
    (newest,) = admin.get("/deliveries?limit=1").json["deliveries"]
    before = admin.get(f"/deliveries?before={newest['id']}").json["deliveries"]
    assert newest["id"] not in [one["id"] for one in before]
    assert before


async def test_only_the_first_unknown_words_get_hints(admin: Caller) -> None:
    """Of the others nobody would read it, and looking for it takes the time in which others are served."""
    lines = [json.dumps(delivery(f"near-{number}", recipent="x")) for number in range(HINTS_MAX + 20)]
    told = admin.post("/deliveries/lines", {"lines": lines}).body
    assert (told.count(b"unknown field"), told.count(b"did you mean")) == (len(lines), HINTS_MAX)
    contacts = [{"key": f"near-{number}", "compnay": "x"} for number in range(HINTS_MAX + 20)]
    told = admin.post("/contact-imports", {"contacts": contacts}).body
    assert (told.count(b"unknown field"), told.count(b"did you mean")) == (len(contacts), HINTS_MAX)


def _call(body: bytes) -> SimpleNamespace:
    served = SimpleNamespace(config=Config, offload=Offload())
    here = {"part": Part("default", "default"), "workspace": Workspace("default", "default"), "shown": "a key"}
    return SimpleNamespace(given=json.loads(body), body=body, served=served, traceparent=None, **here)


async def test_a_batch_gives_hints_for_the_first_unknown_words_too() -> None:
    body = json.dumps({"deliveries": [delivery("near", recipent="x", chanel="y")] * HINTS_MAX}).encode()
    call = _call(body)
    with pytest.raises(Problem) as caught:
        await endpoints.create_deliveries.handle(cast("Call", call))
    assert len(caught.value.faults) == 2 * HINTS_MAX
    assert sum("did you mean" in fault.message for fault in caught.value.faults) == HINTS_MAX


async def test_a_large_batch_does_not_hold_the_event_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(endpoints, "LoopYielder", partial(LoopYielder, 0.0))
    many = [delivery(f"many-{number}", body=f"{number} {{{{ name }}}}") for number in range(50)]
    body = json.dumps({"deliveries": [*many, delivery("last", recipent="x")]}).encode()
    call = _call(body)
    served = 0

    async def others() -> None:
        nonlocal served
        while True:
            served += 1
            await asyncio.sleep(0)

    beside = asyncio.create_task(others())
    with pytest.raises(Problem):
        await endpoints.create_deliveries.handle(cast("Call", call))
    beside.cancel()
    assert served >= len(many)


async def test_a_template_of_more_parts_than_any_message_has_is_refused(admin: Caller) -> None:
    parts = {f"part_{number}": "hello {{ name }}" for number in range(PARTS_MAX + 1)}
    refused = admin.post("/deliveries", delivery("parts", channel="http", template=parts) | {"body": None})
    assert (refused.status, refused.faults) == (
        400,
        {f"$.template.part_{PARTS_MAX}": f"is one of {PARTS_MAX + 1} parts, over {PARTS_MAX}"},
    )


async def test_a_failed_delivery_is_written_anew_with_what_it_lacked(admin: Caller, inside: Connection) -> None:
    number = admin.post("/deliveries", delivery("lacking", body="Hello {{ name }}")).json["id"]

    def failed() -> bool:
        return bool(admin.get(f"/deliveries/{number}").json["life"] == "failed")

    await admin.program.until(failed, "it has failed")
    empty = admin.post(f"/deliveries/{number}/repair", {"reason": "x"})
    assert list(empty.faults) == ["$.variables"]
    large = {"variables": {"name": "x" * Config().limits.variables_bytes_max}, "reason": "x"}
    assert list(admin.post(f"/deliveries/{number}/repair", large).faults) == ["$.variables"]
    asked = {"variables": {"name": "Ann"}, "reason": "it had no name"}
    first, second = (admin.post(f"/deliveries/{number}/repair", asked) for _ in range(2))
    assert (first.status, first.json["idempotency_key"], first.json["life"]) == (201, f"retry-of-{number}", "pending")
    assert (second.status, second.json["id"], second.json["duplicate"]) == (200, first.json["id"], True)
    other = admin.post(f"/deliveries/{number}/repair", asked | {"variables": {}})
    assert (other.status, other.json["answer"]) == (409, "other")
    assert other.json["detail"].endswith(f"see delivery {first.json['id']}")
