"""The `contacts` commands about a person, wherever they stand: what they were sent and why, and everything there is."""

from datetime import datetime
from itertools import islice
from typing import Annotated

import msgspec
import typer
from msgspec import Struct

from dispatcher.cli.addresses import OfKind, addresses
from dispatcher.cli.calls.caller import PAGE_MAX, Caller
from dispatcher.cli.options import require_text, second
from dispatcher.cli.terminal.output import show_list
from dispatcher.cli.terminal.progress import progress_bar
from dispatcher.features.persons import endpoints
from dispatcher.features.persons.rules import ADDRESSES_MAX

# Each record takes the server some questions; a page has to be there before its patience ends.
EXPORT_PAGE = 100

Whom = Annotated[list[str] | None, typer.Argument(metavar="ADDRESS...", help="The addresses of one person.")]
OfContact = Annotated[str | None, typer.Option("--contact", metavar="KEY", help="And those of this contact.")]


class _Entry(Struct, frozen=True, kw_only=True):
    """What is shown of an entry of a timeline: a delivery, or something that was said about the address."""

    kind: str
    at: datetime
    id: int
    channel: str | None
    reason: str | None
    subject: str | None = None
    template_name: str | None = None
    life: str = ""
    error: str | None = None
    topic: str | None = None
    source: str | None = None
    actor: str = ""


_entry = msgspec.json.Decoder(_Entry).decode


def timeline(caller: Caller, text: Annotated[str, typer.Argument(metavar="ADDRESS")], *, kind: OfKind = None) -> None:
    """Show every message to an address and why it was sent, with what was said about the address, the newest first.

    --limit says how many; all of them are --json's.
    """
    (meant,) = addresses([text], kind)
    limit = caller.given.limit
    body = {"address": meant.text, "kind": meant.kind}
    entries = caller.every(endpoints.look_up_timeline, body=body, size=min(PAGE_MAX, limit))
    if caller.output.as_json:
        for one in entries:
            caller.output.record(one)
        return
    found = [_entry(one) for one in islice(entries, limit)]
    nothing = f"Nothing was sent to {meant.text} here, and nothing was said about it."
    show_list(caller, found, ("at", "id", "channel", "what", "became", "why"), _cells, nothing)
    if len(found) == limit:
        caller.output.info("there may be more: see --limit, or --json for all")


def _cells(one: _Entry) -> tuple[object, ...]:
    if one.kind == "delivery":
        became = one.life + (f": {one.error}" if one.error else "")
        return second(one.at), one.id, one.channel, one.subject or one.template_name, became, one.reason
    said = f"{one.kind} {one.topic or one.source or ''}".strip()
    return second(one.at), "", one.channel, said, "", f"{one.actor}: {one.reason}"


def export_person(caller: Caller, texts: Whom = None, *, contact: OfContact = None, kind: OfKind = None) -> None:
    """Print everything there is about a person as JSON, one record a line.

    That is the contact, each delivery with what it said and what became of it, each run that it concerns, and what
    stands on lists.
    """
    body = whom(texts, kind, contact)
    with progress_bar(caller.output, "exporting", 0) as at:
        records = caller.every(endpoints.look_up_person, body=body, size=EXPORT_PAGE)
        for done, record in enumerate(records, 1):
            caller.output.record(record)
            at(done)


def whom(texts: list[str] | None, kind: str | None, contact: str | None) -> dict[str, object]:
    """Whom the command line names, as a request does."""
    require_text("--contact", contact)
    meant = addresses(texts or [], kind)
    if not meant and contact is None:
        raise typer.BadParameter("name an address, or a contact by --contact", param_hint="ADDRESS")
    if len(meant) > ADDRESSES_MAX:
        raise typer.BadParameter(f"are more than {ADDRESSES_MAX}, which nobody has", param_hint="ADDRESS")
    return {"addresses": [{"address": one.text, "kind": one.kind} for one in meant], "contact": contact}
