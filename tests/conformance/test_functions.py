"""WF-19 and OP-06: functions that deliveries call by their names, and rooms of a chat by their webhooks."""

import json
import signal
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from dispatcher.liquid.template_part import RENDERED_BEFORE_COMPILED
from tests.channels.shared.web.fake_server import LOOPBACK, METADATA, FakeServer, Silent, dropped, json_of, says
from tests.conformance.outbox import QUICK, Outbox
from tests.support.program import Program

TEMPLATE = json.dumps({"body": '{"action": "create", "payload": {"order": {{ order }}}}'})
BRISK = QUICK | {"DISPATCHER_RETRY__BASE_SECONDS": "0.05"}


@pytest.fixture
async def fake() -> AsyncIterator[FakeServer]:
    """A function that succeeds."""
    async with FakeServer(says(200, {"success": True, "data": {"invoice": 17}}, X_Request_Id="r-1")) as fake:
        yield fake


def at(fake: FakeServer, **settings: str) -> dict[str, str]:
    """The function `bill` is there."""
    given = {"URL": fake.url, "TOKEN": "sesame-4711", "ALLOW_ADDRESSES": LOOPBACK} | settings
    functions = {f"DISPATCHER_FUNCTIONS__BILL__{name}": text for name, text in given.items()}
    return BRISK | {"DISPATCHER_CHANNELS__HTTP__PROVIDER": "functions"} | functions


async def call(outbox: Outbox, name: str = "bill", **columns: Any) -> int:
    """One call."""
    row = {"recipient": name, "template": TEMPLATE, "variables": '{"order": 7}'} | columns
    return await outbox.put("http", **row)


async def test_WF_19_a_function_is_posted_action_and_payload_with_its_token_and_a_key(
    program: Program, outbox: Outbox, fake: FakeServer
) -> None:
    await program.start(**at(fake))
    delivery = await call(outbox)
    await outbox.until_life(delivery, "sent")
    (request,) = fake.requests
    assert json_of(request) == {"action": "create", "payload": {"order": 7}}
    assert request.headers["authorization"] == "Bearer sesame-4711"
    assert request.headers["idempotency-key"]
    assert (await outbox.row(delivery))["provider_message_id"] == "r-1"
    assert "sesame" not in program.log_path.read_text()


async def test_WF_19_failures_pass_or_do_not_and_unknown_names_fail_at_once(
    program: Program, outbox: Outbox, fake: FakeServer
) -> None:
    await program.start(**at(fake))
    fake.next += [says(503, {}), says(200, raw=b"<html>"), says(302, {}, Location=METADATA)]
    passing = await call(outbox)
    await outbox.until_life(passing, "sent", "failed")
    # The first failure passes; each of the others is final, and met by one of the deliveries.
    page, redirect = await call(outbox), await call(outbox)
    await outbox.until_life(page, "failed", "sent")
    await outbox.until_life(redirect, "failed", "sent")
    unknown = await call(outbox, "nobody")
    await outbox.until_life(unknown, "failed")
    errors = [str((await outbox.row(one))["error"]) for one in (passing, page, redirect, unknown)]
    assert "no JSON object" in " ".join(errors)
    assert "redirect" in " ".join(errors)
    assert errors[-1].startswith("recipient: ")
    assert len(fake.requests) == 4


@pytest.mark.parametrize(
    ("idempotent", "then", "life"),
    [("false", None, "held"), ("true", None, "sent"), ("true", {"success": False, "error": "full"}, "failed")],
    ids=["held", "again", "refused"],
)
async def test_WF_19_a_lost_answer_is_asked_for_by_key_only_of_an_idempotent_function(
    program: Program, outbox: Outbox, fake: FakeServer, idempotent: str, then: object, life: str
) -> None:
    """What such a function says under the key is about the first call too."""
    fake.next += [dropped] if then is None else [dropped, says(200, then)]
    await program.start(**at(fake, IDEMPOTENT=idempotent))
    delivery = await call(outbox)
    await outbox.until_life(delivery, life)
    assert len({request.headers["idempotency-key"] for request in fake.requests}) == 1
    assert len(fake.requests) == (1 if life == "held" else 2)


async def test_TE_03_each_attempt_under_a_key_carries_the_same_bytes_whatever_renders_them(
    program: Program, outbox: Outbox, fake: FakeServer
) -> None:
    """The library renders first, compiled code later; line ends stay as they were given."""
    fake.next += [says(503, {})] * (RENDERED_BEFORE_COMPILED - 1)
    await program.start(**at(fake))
    body = '{"action": "create",\r{{ space }}"payload": {}}\r\n'
    delivery = await call(outbox, template=json.dumps({"body": body}), variables=json.dumps({"space": "\r\n\r"}))
    await outbox.until_life(delivery, "sent", "failed")
    assert len({request.headers["idempotency-key"] for request in fake.requests}) == 1
    sent = body.replace("{{ space }}", "\r\n\r").encode()
    assert [request.body for request in fake.requests] == [sent] * RENDERED_BEFORE_COMPILED


async def test_WF_19_a_time_out_is_held(program: Program, outbox: Outbox, fake: FakeServer) -> None:
    silent = Silent()
    fake.always = silent
    await program.start(**at(fake, TIMEOUT_SECONDS="0.3"))
    delivery = await call(outbox)
    await outbox.until_life(delivery, "held")
    silent.let_go.set()
    assert len(fake.requests) == 1


async def test_OP_06_a_function_comes_with_a_reload_and_is_called_where_its_url_leads_then(
    program: Program, outbox: Outbox, fake: FakeServer, tmp_path: Path
) -> None:
    path = tmp_path / "dispatcher.toml"
    path.write_text('[channels.http]\nprovider = "functions"\n')
    await program.start(DISPATCHER_CONFIG=str(path), **BRISK)
    await outbox.until_life(await call(outbox), "failed")
    path.write_text(
        '[channels.http]\nprovider = "functions"\n[channels.chat]\nprovider = "slack"\n'
        f'[functions.bill]\nurl = "{fake.url}"\nallow_addresses = "{LOOPBACK}"\n'
        f'[webhooks.acquisition]\nurl = "{fake.url}"\nallow_addresses = "{LOOPBACK}"\n'
    )
    program.signal(signal.SIGHUP)
    (reloaded,) = await program.until(lambda: program.events("config.reloaded"), "it is applied")
    assert {"functions.bill", "webhooks.acquisition"} <= set(reloaded["applied"])
    assert reloaded["needs_restart"] == []
    await outbox.until_life(await call(outbox), "sent")
    fake.next.append(says(200, raw=b"ok"))
    posted = await outbox.put("chat", "hello", recipient="acquisition")
    await outbox.until_life(posted, "sent")
    assert json_of(fake.requests[-1]) == {"text": "hello"}
