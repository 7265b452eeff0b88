"""RU-02, RU-03 and RU-07 by the real program: what an event has written is rendered and sent."""

import email
import email.policy

from tests.conformance.outbox import QUICK, Outbox
from tests.support.program import Program
from tests.support.rules import LEAD, notify, put_rule, put_template


async def test_RU_03_the_accepted_quote_is_sent_with_its_page(program: Program, outbox: Outbox) -> None:
    accepted = await notify(outbox.connection, "quote_accepted", agent={"email": "cid@example.org"})
    numbers = {row["audience"]: row["delivery_ids"][0] for row in accepted if row["delivery_ids"]}
    await program.start(**QUICK)
    for number in numbers.values():
        await outbox.until_life(number, "sent")
    read = "SELECT raw FROM dispatcher.captured_messages WHERE delivery_id = $1"
    mails = {
        audience: email.message_from_bytes(await outbox.connection.fetchval(read, number), policy=email.policy.SMTP)
        for audience, number in numbers.items()
    }
    assert mails["lead"]["subject"] == "Thank you: quote Q-17"
    (attached,) = mails["lead"].iter_attachments()
    assert (attached.get_filename(), attached.get_content_type()) == ("quote.pdf", "application/pdf")
    assert attached.get_content().startswith(b"%PDF-")
    assert list(mails["agent"].iter_attachments()) == []
    assert "Ann has accepted the quote Q-17" in str(mails["agent"])


async def test_RU_03_a_stored_object_takes_the_place_of_the_page(program: Program, outbox: Outbox) -> None:
    await outbox.connection.execute("SELECT dispatcher.put_object('quotes/17.pdf', 'the quote', 'application/pdf')")
    quote = {"quote": {"number": "Q-17", "document": "quotes/17.pdf"}}
    rows = await notify(outbox.connection, "quote_accepted", variables=quote)
    (number,) = next(row["delivery_ids"] for row in rows if row["audience"] == "lead" and row["delivery_ids"])
    await program.start(**QUICK)
    await outbox.until_life(number, "sent")
    raw = await outbox.connection.fetchval("SELECT raw FROM dispatcher.captured_messages")
    (attached,) = email.message_from_bytes(raw, policy=email.policy.SMTP).iter_attachments()
    assert attached.get_content() == b"the quote"


async def test_RU_03_a_message_reads_no_more_than_an_event_has(program: Program, outbox: Outbox) -> None:
    rows = await notify(outbox.connection, variables={}, lead={"email": LEAD["email"]})
    (number,) = rows[0]["delivery_ids"]
    await program.start(**QUICK)
    await outbox.until_life(number, "sent")


async def test_RU_07_what_a_rule_has_written_succeeds_in_the_older_words(program: Program, outbox: Outbox) -> None:
    await put_template(outbox.connection, reads=["lead.name"])
    await put_rule(outbox.connection)
    rows = await notify(outbox.connection)
    await program.start(**QUICK)
    await outbox.until_life(rows[0]["delivery_ids"][0], "sent")
    found = await outbox.connection.fetchrow("SELECT * FROM dispatcher.rac_notification_outbox")
    assert found is not None
    assert (found["kind"], found["template"], found["status"], found["attempts"]) == (
        "email",
        "email_send",
        "succeeded",
        1,
    )
