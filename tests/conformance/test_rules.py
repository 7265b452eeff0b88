"""RU-01 to RU-08: events, rules and fallbacks, decided in SQL."""

import asyncio
import json
from datetime import UTC, datetime, timedelta
from typing import Any

import asyncpg
import pytest

from dispatcher.features.workspaces.rules import phone_rule
from tests.support.rules import ALL, LEAD, STEP, by_pair, notify, put_rule, put_template
from tests.support.scene import Connection

WHATSAPP = {"template": "quote/wa", "recipients": {"includeLeadContact": True}}


@pytest.fixture
async def templates(connection: Connection) -> None:
    """One for mail, one for WhatsApp."""
    await put_template(connection, reads=["lead.name"])
    await put_template(connection, "quote/wa", "whatsapp", reads=["lead.phone"])


async def test_RU_01_the_catalogue_has_five_triggers_and_takes_more(connection: Connection) -> None:
    for trigger in ("lead_welcome", "quote_sent", "quote_accepted", "quote_rejected", "appointment_reminder"):
        assert await notify(connection, trigger)
    with pytest.raises(asyncpg.InvalidParameterValueError, match="there is no trigger 'invoice_due'"):
        await notify(connection, "invoice_due")
    await connection.execute(
        """SELECT dispatcher.put_event_trigger('default', 'default', 'invoice_due', '{"variables": ["invoice.number"],
              "pairs": {"email/lead": "caller"}}', 'ann')"""
    )
    assert by_pair(await notify(connection, "invoice_due")) == {"email/lead": "fallback"}


async def test_RU_02_an_enabled_rule_is_scheduled(connection: Connection, templates: None) -> None:
    await put_rule(connection)
    rows = await notify(connection)
    assert by_pair(rows) == {"email/lead": "scheduled", "whatsapp/lead": "none"}
    (delivery,) = await connection.fetch(ALL)
    assert (delivery["channel"], delivery["recipient"], delivery["template_name"]) == (
        "email",
        LEAD["email"],
        "quote/sent",
    )
    assert rows[0]["delivery_ids"] == [delivery["id"]]


async def test_RU_02_a_disabled_rule_suppresses_its_channel_without_fallback(
    connection: Connection, templates: None
) -> None:
    await put_rule(connection, enabled=False)
    assert by_pair(await notify(connection)) == {"email/lead": "suppressed", "whatsapp/lead": "none"}
    assert await connection.fetch(ALL) == []


async def test_RU_02_a_rule_without_enabled_steps_is_skipped_without_fallback(
    connection: Connection, templates: None
) -> None:
    await put_rule(connection, "quote_sent/email/lead", STEP | {"enabled": False})
    (row, _) = await notify(connection)
    assert (row["decision"], row["reason"]) == ("skipped", "no step of the rule is enabled")
    assert await connection.fetch(ALL) == []


async def test_RU_02_a_rule_that_fails_leaves_no_row_before_its_fallback(
    connection: Connection, templates: None
) -> None:
    """One step is sound, the other lacks a variable: the built-in message takes the place of both; the others go on."""
    await put_template(connection, "quote/more", reads=["quote.url"])
    await put_rule(connection, "quote_sent/email/lead", STEP, STEP | {"template": "quote/more"})
    await put_rule(connection, "quote_sent/whatsapp/lead", WHATSAPP)
    rows = await notify(connection)
    assert by_pair(rows) == {"email/lead": "fallback", "whatsapp/lead": "scheduled"}
    assert "steps[1]: the template 'quote/more' reads what is missing: quote.url" in rows[0]["reason"]
    mail, message = await connection.fetch(ALL)
    assert (mail["template_name"], message["template_name"]) == (None, "quote/wa")
    assert mail["id"] in rows[0]["delivery_ids"]


async def test_RU_02_without_a_fallback_a_rule_that_fails_refuses_the_event(
    connection: Connection, templates: None
) -> None:
    await put_template(connection, "quote/more", "whatsapp", reads=["quote.url"])
    await put_rule(connection)
    await put_rule(connection, "quote_sent/whatsapp/lead", WHATSAPP | {"template": "quote/more"})
    with pytest.raises(asyncpg.InvalidParameterValueError, match=r"quote_sent/whatsapp/lead.*quote\.url"):
        await notify(connection, message_id="one")
    assert await connection.fetch(ALL) == []
    # Nothing is kept of it: the same message id may come again.
    await put_rule(connection, "quote_sent/whatsapp/lead", WHATSAPP)
    rows = await notify(connection, message_id="one")
    assert by_pair(rows) == {"email/lead": "scheduled", "whatsapp/lead": "scheduled"}


async def test_RU_02_what_the_database_refuses_falls_back_and_the_others_go_on(
    connection: Connection, templates: None
) -> None:
    await put_rule(connection)
    await put_rule(connection, "quote_sent/whatsapp/lead", WHATSAPP)
    await connection.execute(
        "ALTER TABLE dispatcher.deliveries ADD CONSTRAINT short CHECK (template_name <> 'quote/sent') NOT VALID"
    )
    rows = await notify(connection)
    assert by_pair(rows) == {"email/lead": "fallback", "whatsapp/lead": "scheduled"}
    assert 'violates check constraint "short"' in rows[0]["reason"]
    assert [row["template_name"] for row in await connection.fetch(ALL)] == [None, "quote/wa"]


async def test_RU_03_the_built_in_messages_are_kept_for_three(connection: Connection) -> None:
    people = {"agent": {"name": "Cid", "email": "cid@example.org"}, "partner": {"email": "bo@example.org"}}
    assert by_pair(await notify(connection)) == {"email/lead": "fallback", "whatsapp/lead": "none"}
    accepted = await notify(connection, "quote_accepted", **people)
    assert by_pair(accepted) == {
        "email/agent": "fallback",
        "email/lead": "fallback",
        "email/partner": "none",
        "whatsapp/lead": "none",
    }
    assert [row["fallback"] for row in accepted] == ["message", "message", None, None]
    rows = await connection.fetch(ALL)
    assert sorted(row["recipient"] for row in rows) == ["ann@example.org", "ann@example.org", "cid@example.org"]
    (attached,) = [row for row in rows if row["options"] != "{}"]
    assert (attached["recipient"], attached["id"] in accepted[1]["delivery_ids"]) == ("ann@example.org", True)


async def test_RU_03_a_rejected_quote_has_no_fallback(connection: Connection) -> None:
    assert set(by_pair(await notify(connection, "quote_rejected")).values()) == {"none"}
    assert await connection.fetch(ALL) == []


async def test_RU_03_the_callers_own_code_is_told_once_and_its_outcome_is_kept(connection: Connection) -> None:
    (mail, _) = await notify(connection, "lead_welcome", message_id="one")
    assert (mail["decision"], mail["fallback"], mail["delivery_ids"]) == ("fallback", "caller", [])
    note = "SELECT dispatcher.note_fallback($1, 'email', 'lead', $2, $3)"
    assert await connection.fetchval(note, mail["event_id"], "failed", "no server") == "noted"
    assert await connection.fetchval(note, mail["event_id"], "done", None) == "before"
    assert await connection.fetchval(note, mail["event_id"] + 1, "done", None) == "unknown"
    (again, _) = await notify(connection, "lead_welcome", message_id="one")
    assert (again["decision"], again["outcome"]) == ("duplicate", "failed")


async def test_RU_04_each_pair_has_its_decision_and_reason(connection: Connection, templates: None) -> None:
    await put_rule(connection, "quote_accepted/email/lead", STEP)
    await put_rule(connection, "quote_accepted/whatsapp/lead", WHATSAPP, enabled=False)
    await put_rule(connection, "quote_accepted/email/partner", STEP | {"recipients": {"includePartner": True}})
    rows = await notify(connection, "quote_accepted", agent={"email": "cid@example.org"})
    assert {f"{row['channel']}/{row['audience']}": (row["decision"], row["reason"]) for row in rows} == {
        "email/agent": ("fallback", "there is no rule"),
        "email/lead": ("scheduled", "the rule is enabled"),
        "email/partner": ("skipped", "no recipient"),
        "whatsapp/lead": ("suppressed", "the rule is disabled"),
    }


async def test_RU_05_steps_run_in_order_and_disabled_ones_are_left_out(connection: Connection, templates: None) -> None:
    for name in ("a", "b", "c", "d"):
        await put_template(connection, name)
    named: list[dict[str, Any]] = [STEP | {"template": name} for name in ("a", "b", "c", "d")]
    await put_rule(
        connection,
        "quote_sent/email/lead",
        named[0] | {"order": 2},
        named[1] | {"order": 1},
        named[2] | {"order": 1},
        named[3] | {"order": 0, "enabled": False},
    )
    (row, _) = await notify(connection)
    assert [step["template"] for step in row["steps"]] == ["b", "c", "a"]
    assert [one["template_name"] for one in await connection.fetch(ALL)] == ["b", "c", "a"]


async def test_RU_05_offsets_are_before_or_after_the_event_and_what_has_passed_is_skipped(
    connection: Connection, templates: None
) -> None:
    steps = [STEP | {"offset_seconds": hours * 3600} for hours in (-24, -1, 2)]
    await put_rule(connection, "appointment_reminder/email/lead", *steps)
    at = datetime.now(UTC) + timedelta(hours=3)
    (row, _) = await notify(connection, "appointment_reminder", event_at=at)
    assert [(step["decision"], step.get("reason")) for step in row["steps"]] == [
        ("skipped", "its time has passed"),
        ("scheduled", None),
        ("scheduled", None),
    ]
    before, after = await connection.fetch(ALL)
    assert (before["scheduled_for"], before["expires_at"]) == (at - timedelta(hours=1), at)
    assert (after["scheduled_for"], after["expires_at"]) == (at + timedelta(hours=2), None)
    over = datetime.now(UTC) - timedelta(days=1)
    (row, _) = await notify(connection, "appointment_reminder", event_at=over)
    assert (row["decision"], row["reason"]) == ("skipped", "its time has passed")


async def test_RU_06_duplicates_are_removed_whatever_their_case(connection: Connection, templates: None) -> None:
    to = {"includeLeadContact": True, "customEmails": ["ANN@example.org", "Bo <bo@example.org>", "BO@EXAMPLE.ORG"]}
    await put_rule(connection, "quote_sent/email/lead", STEP | {"recipients": to})
    await notify(connection)
    assert [row["recipient"] for row in await connection.fetch(ALL)] == ["ann@example.org", "Bo <bo@example.org>"]


async def test_RU_06_phones_are_compared_in_their_e164_form(connection: Connection, templates: None) -> None:
    to = {"includeLeadContact": True, "includePartner": True, "customPhones": ["0049 170 12345", "+49 (0)170 12346"]}
    await put_rule(connection, "quote_sent/whatsapp/lead", WHATSAPP | {"recipients": to})
    await notify(connection, lead=LEAD, partner={"phone": "+49170-12345"})
    sent = [row["recipient"] for row in await connection.fetch(ALL) if row["channel"] == "whatsapp"]
    assert sent == ["+4917012345", "+4917012346"]


async def test_RU_06_a_number_without_a_country_needs_the_region(connection: Connection, templates: None) -> None:
    await put_rule(connection, "lead_welcome/whatsapp/lead", WHATSAPP)
    lead = {"phone": "0171 2345678"}
    rows = await notify(connection, "lead_welcome", lead=lead)
    assert by_pair(rows)["whatsapp/lead"] == "fallback"
    assert "lead.phone has no country" in rows[1]["reason"]
    assert "0171" not in rows[1]["reason"]
    settings = "SELECT dispatcher.put_workspace_settings('default', 'default', 'DE', 'UTC', $1, 'ann')"
    await connection.execute(settings, json.dumps(phone_rule("DE")))
    assert by_pair(await notify(connection, "lead_welcome", lead=lead))["whatsapp/lead"] == "scheduled"
    (row,) = await connection.fetch(ALL)
    assert row["recipient"] == "+491712345678"


async def test_RU_06_no_recipient_at_all_is_skipped_with_that_reason(connection: Connection, templates: None) -> None:
    await put_rule(connection)
    (row, _) = await notify(connection, lead={"name": "Ann"})
    assert (row["decision"], row["reason"]) == ("skipped", "no recipient")


async def test_RU_07_each_step_and_recipient_is_one_delivery_in_the_older_words(
    connection: Connection, templates: None
) -> None:
    to = {"includeLeadContact": True, "customEmails": ["bo@example.org"]}
    await put_rule(connection, "quote_sent/email/lead", *[STEP | {"recipients": to}] * 2)
    await put_rule(connection, "quote_sent/whatsapp/lead", WHATSAPP)
    await notify(connection)
    rows = await connection.fetch("SELECT kind, template, status FROM dispatcher.rac_notification_outbox ORDER BY id")
    assert sorted(map(tuple, rows)) == [("email", "email_send", "pending")] * 4 + [
        ("whatsapp", "whatsapp_send", "pending")
    ]
    with pytest.raises(asyncpg.InvalidParameterValueError, match="channel"):
        await put_rule(connection, "quote_sent/fax/lead")
    with pytest.raises(asyncpg.InvalidParameterValueError, match="'quote/sent' is for email, not for whatsapp"):
        await put_rule(connection, "quote_sent/whatsapp/lead")


async def test_RU_08_the_same_message_of_a_source_is_handled_once(connection: Connection, templates: None) -> None:
    await put_rule(connection)
    first = await notify(connection, message_id="one")
    await put_rule(connection, enabled=False)
    again = await notify(connection, message_id="one", variables={})
    assert set(by_pair(again).values()) == {"duplicate"}
    assert [row["first_decision"] for row in again] == [row["decision"] for row in first]
    assert [row["delivery_ids"] for row in again] == [row["delivery_ids"] for row in first]
    assert by_pair(await notify(connection, message_id="two"))["email/lead"] == "suppressed"
    assert len(await connection.fetch(ALL)) == 1
    other = await notify(connection, message_id="one", source="shop")
    assert by_pair(other)["email/lead"] == "suppressed"


async def test_RU_08_ten_connections_with_one_message_id_write_once(
    connection: Connection, templates: None, url: str
) -> None:
    await put_rule(connection)
    rivals = [await asyncpg.connect(url) for _ in range(10)]
    try:
        answers = await asyncio.gather(*(notify(rival, message_id="one") for rival in rivals))
    finally:
        await asyncio.gather(*(rival.close() for rival in rivals))
    decisions = sorted(by_pair(answer)["email/lead"] for answer in answers)
    assert decisions == ["duplicate"] * 9 + ["scheduled"]
    assert len({answer[0]["event_id"] for answer in answers}) == 1
    assert len(await connection.fetch(ALL)) == 1


async def test_OB_13_a_rule_that_fails_is_logged_as_a_failure_to_schedule(
    connection: Connection, templates: None
) -> None:
    await put_template(connection, "quote/more", reads=["quote.url"])
    await put_rule(connection, "quote_sent/email/lead", STEP | {"template": "quote/more"})
    await notify(connection)
    (log,) = await connection.fetch("SELECT * FROM dispatcher.rac_notification_logs")
    assert (log["outbox_id"], log["event"], log["attempt"]) == (None, "schedule failed", 0)
    assert log["reason"].startswith("quote_sent/email/lead: the rule failed: ")
