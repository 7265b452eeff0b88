"""WF-20: the three definitions that run as they are, put from their files and triggered as people do it."""

import asyncio
import json
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.channels.web.far import LOOPBACK, FarSide, json_of, says
from tests.conformance.runs import Running, running

FOLDER = Path(__file__).parent / "workflows"
NAMES = ("listing_submitted", "proposal_accepted", "user_signup_complete")
LISTING = {
    "host_email": "host@example.org",
    "host_name": "Ann & Bob",
    "listing_id": 42,
    "listing_title": "A <b>quiet</b> room",
}
GUEST = {"guest_email": "guest@example.org", "guest_name": "Cem", "email_template_id": "accepted"}
SIGNUP = {"email": "new@example.org", "name": "Dora"}
TEMPLATE = """---
name: accepted
channel: email
---
--- subject ---
It is yours, {{ guest_name }}
--- html ---
<p>Pack your things, {{ guest_name }}.</p>
"""


@pytest.fixture(scope="module")
async def place(shared_url: str, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[tuple[Running, FarSide]]:
    """A program that knows a Slack room at a server of ours, with the three definitions and a template."""
    async with FarSide(says(200, raw=b"ok")) as slack:
        room = {"URL": slack.url, "ALLOW_ADDRESSES": LOOPBACK}
        chat = {f"DISPATCHER_WEBHOOKS__ACQUISITION__{name}": text for name, text in room.items()}
        chat |= {"DISPATCHER_CHANNELS__CHAT__PROVIDER": "slack"}
        async with running(shared_url, chat) as here:
            here.program.environment |= chat
            template = tmp_path_factory.mktemp("templates") / "accepted.liquid"
            template.write_text(TEMPLATE)
            await _do(here, "templates", "put", str(template), "--publish")
            await _do(here, "workflows", "put", "--activate", *(str(FOLDER / f"{name}.json") for name in NAMES))
            yield here, slack


@pytest.fixture
def here(place: tuple[Running, FarSide]) -> Running:
    """The program that all share."""
    return place[0]


@pytest.fixture
def slack(place: tuple[Running, FarSide]) -> FarSide:
    """Its room, with nothing posted yet."""
    place[1].requests.clear()
    place[1].next.clear()
    return place[1]


async def _do(here: Running, *words: str, code: int = 0) -> "subprocess.CompletedProcess[bytes]":
    """A command, beside the room that answers meanwhile."""
    done = await asyncio.to_thread(here.program.run, *words)
    assert done.returncode == code, done.stderr.decode()
    return done


async def _trigger(here: Running, name: str, given: dict[str, Any]) -> int:
    """Trigger it, and wait for its end."""
    words = ("trigger", name, "--input", json.dumps(given), "--wait", "--poll", "0.1", "--json")
    return int(json.loads((await _do(here, *words)).stdout.splitlines()[0])["execution_id"])


async def _mail(here: Running, run: int) -> Any:
    """The one mail that a run has sent."""
    (row,) = await here.runs.connection.fetch(
        """SELECT m.recipient, m.parts::text
             FROM dispatcher.captured_messages m JOIN dispatcher.deliveries d ON d.id = m.delivery_id
            WHERE d.run_id = $1 AND m.channel = 'email'""",
        run,
    )
    return row["recipient"], json.loads(row["parts"])


def test_WF_20_the_examples_are_these_very_files() -> None:
    examples = Path(__file__).parents[2] / "ops" / "workflows"
    for name in NAMES:
        assert (examples / f"{name}.json").read_text() == (FOLDER / f"{name}.json").read_text()


async def test_WF_20_a_listing_is_confirmed_and_the_room_is_told(here: Running, slack: FarSide) -> None:
    run = await _trigger(here, "listing_submitted", LISTING)
    recipient, parts = await _mail(here, run)
    assert recipient == "host@example.org"
    assert parts["subject"] == "We have your listing A <b>quiet</b> room"
    assert "Hello Ann &amp; Bob" in parts["html"]
    (post,) = slack.requests
    posted = json_of(post)["text"].splitlines()
    assert "faq" in posted[0].lower()
    assert any("host@example.org" in line for line in posted)
    assert any("42" in line for line in posted)
    results = await here.runs.vars(run)
    assert {results["step_1_result"]["status"], results["notify_acquisition"]["status"]} == {"sent"}


async def test_WF_20_a_room_that_is_gone_does_not_stop_a_listing(here: Running, slack: FarSide) -> None:
    slack.next.append(says(404, raw=b"no_service"))
    run = await _trigger(here, "listing_submitted", LISTING)
    assert (await here.runs.row(run))["status"] == "completed"
    results = await here.runs.vars(run)
    assert results["step_1_result"]["status"] == "sent"
    assert results["step_2_error"]
    # Continue acts on the first failure.
    assert len(slack.requests) == 1


async def test_WF_20_a_proposal_s_guest_gets_the_template_that_the_trigger_names(here: Running) -> None:
    run = await _trigger(here, "proposal_accepted", GUEST)
    recipient, parts = await _mail(here, run)
    assert (recipient, parts["subject"]) == ("guest@example.org", "It is yours, Cem")


async def test_WF_20_who_has_signed_up_is_welcomed(here: Running) -> None:
    run = await _trigger(here, "user_signup_complete", SIGNUP)
    recipient, parts = await _mail(here, run)
    assert (recipient, parts["subject"]) == ("new@example.org", "Welcome, Dora")


@pytest.mark.parametrize(
    ("name", "given", "missing"),
    [
        ("proposal_accepted", {}, "Missing required fields: email_template_id, guest_email, guest_name"),
        ("user_signup_complete", {"name": "Dora"}, "Missing required fields: email"),
        ("listing_submitted", {}, "Missing required fields: host_email, host_name, listing_id, listing_title"),
    ],
)
async def test_WF_20_what_a_trigger_lacks_is_named(
    here: Running, name: str, given: dict[str, Any], missing: str
) -> None:
    refused = await _do(here, "trigger", name, "--input", json.dumps(given), code=3)
    assert missing in refused.stderr.decode()


async def test_WF_20_a_template_that_there_is_not_is_refused_at_the_trigger(here: Running) -> None:
    given = GUEST | {"email_template_id": "nothing"}
    refused = await _do(here, "trigger", "proposal_accepted", "--input", json.dumps(given), code=3)
    assert "nothing" in refused.stderr.decode()
