"""WF-20: the three definitions that run as they are, put from their files and triggered as people do it."""

import asyncio
import json
import subprocess
from collections.abc import AsyncIterator
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from channels.shared.mail import addresses
from tests.channels.shared.web.fake_server import LOOPBACK, FakeServer, json_of, says
from tests.conformance.runs import Running, running

FOLDER = Path(__file__).parents[2] / "ops" / "workflows"
# What each says, as JSON with its keys in order: the columns of the row that it was given as, and nothing else.
SHA256 = {
    "listing_submitted": "bdbe7f6344682a81",
    "proposal_accepted": "af6bb542af908365",
    "user_signup_complete": "87bb9e1e25c9f041",
}
NAMES = tuple(SHA256)
LISTING = {
    "host_email": "host@example.org",
    "host_name": "Ann & Bob",
    "listing_id": 42,
    "listing_address": "A <b>quiet</b> room",
    "email_template_id": "told",
}
GUEST = {
    "guest_email": "guest@example.org",
    "guest_name": "Cem",
    "host_name": "Ann",
    "listing_address": "1 Main Street",
    "start_date": "2026-01-01",
    "end_date": "2026-03-31",
    "monthly_rent": 1200,
    "email_template_id": "accepted",
}
SIGNUP = {
    "user_email": "new@example.org",
    "user_name": 'Dora "D" <x>',
    "first_name": "Dora",
    "signup_date": "2026-01-01",
    "welcome_email_template_id": "welcome",
}
TEMPLATES = {
    "accepted": "It is yours, {{ guest_name }}: {{ listing_address }} for {{ monthly_rent }}",
    "told": "We have {{ listing_id }}, {{ host_name }}: {{ listing_address }}",
    "welcome": "Welcome, {{ first_name }} of {{ signup_date }}",
}
TEMPLATE = """---
name: {name}
channel: email
---
--- subject ---
{subject}
--- html ---
<p>{subject}</p>
"""
# Without what their templates read.
SEED_REQUIRES = {
    "proposal_accepted": "guest_email, guest_name, email_template_id",
    "listing_submitted": "host_email, host_name, listing_address, listing_id, email_template_id",
    "user_signup_complete": "user_email, user_name, first_name, welcome_email_template_id",
}


@pytest.fixture(scope="module")
async def place(shared_url: str, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[tuple[Running, FakeServer]]:
    """A program that knows a Slack room at a server of ours, with the three definitions and a template."""
    async with FakeServer(says(200, raw=b"ok")) as slack:
        room = {"URL": slack.url, "ALLOW_ADDRESSES": LOOPBACK}
        chat = {f"DISPATCHER_WEBHOOKS__ACQUISITION__{name}": text for name, text in room.items()}
        chat |= {"DISPATCHER_CHANNELS__CHAT__PROVIDER": "slack"}
        async with running(shared_url, chat) as here:
            here.program.environment |= chat
            folder = tmp_path_factory.mktemp("templates")
            for name, subject in TEMPLATES.items():
                (folder / f"{name}.liquid").write_text(TEMPLATE.format(name=name, subject=subject))
            await _do(here, "templates", "sync", str(folder), "--publish")
            await _do(here, "workflows", "put", "--activate", *(str(FOLDER / f"{name}.json") for name in NAMES))
            yield here, slack


@pytest.fixture
def here(place: tuple[Running, FakeServer]) -> Running:
    """The program that all share."""
    return place[0]


@pytest.fixture
def slack(place: tuple[Running, FakeServer]) -> FakeServer:
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


@pytest.mark.parametrize("name", NAMES)
def test_WF_20_the_examples_are_the_rows_that_they_were_given_as(name: str) -> None:
    row = json.loads((FOLDER / f"{name}.json").read_text())
    assert sha256(json.dumps(row, sort_keys=True).encode()).hexdigest()[:16] == SHA256[name]


async def test_WF_20_a_listing_is_confirmed_and_the_room_is_told(here: Running, slack: FakeServer) -> None:
    run = await _trigger(here, "listing_submitted", LISTING)
    recipient, parts = await _mail(here, run)
    assert recipient == '"Ann & Bob" <host@example.org>'
    assert parts["subject"] == "We have 42, Ann & Bob: A <b>quiet</b> room"
    assert "Ann &amp; Bob: A &lt;b&gt;" in parts["html"]
    (post,) = slack.requests
    # The message is all of it.
    assert json_of(post) == {"text": "New listing submitted: A &lt;b&gt;quiet&lt;/b&gt; room by Ann &amp; Bob"}
    results = await here.runs.vars(run)
    assert results["step_0_result"] == results["send_confirmation_email"]
    assert results["step_1_result"] == results["notify_slack"]
    assert {results[f"step_{number}_result"]["status"] for number in (0, 1)} == {"sent"}


@pytest.mark.parametrize("name", ["<!channel>", "<!here|here>", "<@U012AB3CD>", "&lt;!channel&gt;", "<<!everyone>>"])
async def test_WF_20_no_value_in_slack_mentions_anybody(here: Running, slack: FakeServer, name: str) -> None:
    """It is shown as it was given: Slack takes &, < and > as signs of its own, and nothing else."""
    await _trigger(here, "listing_submitted", LISTING | {"host_name": name, "listing_address": 'it\'s "A"'})
    (post,) = slack.requests
    text = json_of(post)["text"]
    assert not {"<", ">"} & set(text)
    shown = text.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")
    assert shown == f'New listing submitted: it\'s "A" by {name}'


async def test_WF_20_a_message_in_slack_keeps_its_own_mentions_and_no_way_of_a_value_is_left_open(
    here: Running, slack: FakeServer
) -> None:
    words = "<!here> A & B: {% echo who %} {% for one in all %}{{ one }}{% endfor %} "
    words += "{{ step_0_result.said }} {{ code | url_decode }}"
    step = {"name": "tell", "function": "slack", "action": "tell"}
    first = step | {"payload_template": {"channel": "acquisition", "message": "first"}}
    second = step | {"name": "then", "payload_template": {"channel": "acquisition", "message": words}}
    given = {"who": "<!channel>", "all": ["<!x>", 1], "code": "%3C!channel%3E"}
    run = await here.runs.start({"steps": [first, second]}, **given)
    await here.runs.until_status(run, "completed")
    assert json_of(slack.requests[-1])["text"] == ("<!here> A & B: &lt;!channel&gt; &lt;!x&gt;1  &lt;!channel&gt;")


async def test_WF_20_a_room_that_is_gone_does_not_stop_a_listing(here: Running, slack: FakeServer) -> None:
    slack.next.append(says(404, raw=b"no_service"))
    run = await _trigger(here, "listing_submitted", LISTING)
    assert (await here.runs.row(run))["status"] == "completed"
    results = await here.runs.vars(run)
    assert results["step_0_result"]["status"] == "sent"
    assert results["step_1_error"]
    # Continue acts on the first failure.
    assert len(slack.requests) == 1


async def test_WF_20_a_proposal_s_guest_gets_the_template_that_the_trigger_names(here: Running) -> None:
    run = await _trigger(here, "proposal_accepted", GUEST)
    recipient, parts = await _mail(here, run)
    assert (recipient, parts["subject"]) == ('"Cem" <guest@example.org>', "It is yours, Cem: 1 Main Street for 1200")


async def test_WF_20_who_has_signed_up_is_welcomed(here: Running) -> None:
    run = await _trigger(here, "user_signup_complete", SIGNUP)
    recipient, parts = await _mail(here, run)
    assert parts["subject"] == "Welcome, Dora of 2026-01-01"
    # A name is quoted, whatever stands in it, and is read back as it was given.
    assert addresses.parse(recipient, "recipient") == addresses.Address(
        "new@example.org", "example.org", SIGNUP["user_name"]
    )


@pytest.mark.parametrize("name", NAMES)
async def test_WF_20_what_a_trigger_lacks_is_named(here: Running, name: str) -> None:
    refused = await _do(here, "trigger", name, "--input", "{}", code=3)
    assert f"Missing required fields: {SEED_REQUIRES[name]}" in refused.stderr.decode()


async def test_WF_20_a_template_that_there_is_not_is_refused_at_the_trigger(here: Running) -> None:
    given = GUEST | {"email_template_id": "nothing"}
    refused = await _do(here, "trigger", "proposal_accepted", "--input", json.dumps(given), code=3)
    assert "nothing" in refused.stderr.decode()


async def test_WF_20_a_configured_function_wins_over_the_one_that_is_built_in(
    here: Running, slack: FakeServer, tmp_path: Path
) -> None:
    config = tmp_path / "own.toml"
    target = f'url = "{slack.url}"\nallow_addresses = "{LOOPBACK}"\n'
    config.write_text(f"[functions.slack]\n{target}[functions.send-email]\n{target}[functions.other]\n{target}")
    checked = json.loads((await _do(here, "--config", str(config), "--json", "config", "check")).stdout)
    assert checked["replaced_functions"] == ["send-email", "slack"]
    said = (await _do(here, "--config", str(config), "config", "check")).stdout.decode()
    assert "[functions.slack]" in said
    assert "[functions.other]" not in said
    assert json.loads((await _do(here, "--json", "config", "check")).stdout)["replaced_functions"] == []
    # Whatever it is given: that is its own affair.
    step = {"name": "own", "function": "slack", "action": "anything", "payload_template": {"any": ["{{ field }}"]}}
    file = tmp_path / "own.json"
    file.write_text(json.dumps({"name": "own-slack", "steps": [step]}))
    await _do(here, "workflows", "put", str(file), code=3)
    await _do(here, "--config", str(config), "workflows", "put", str(file))
    made = """SELECT v.plan #>> '{nodes,own,kind}' FROM dispatcher.workflows w JOIN dispatcher.plan_versions v
                ON v.id = w.current WHERE w.name = 'own-slack'"""
    assert await here.runs.connection.fetchval(made) == "call"
