"""The `contacts` commands about a person: what they were sent and why, and the export of all their records."""

from datetime import datetime
from itertools import islice
from typing import Annotated, Any

import msgspec
import typer

from dispatcher.cli.addresses import OfKind, addresses
from dispatcher.cli.calls.caller import PAGE_MAX, Caller
from dispatcher.cli.options import require_text, second
from dispatcher.cli.terminal.output import show_list
from dispatcher.cli.terminal.progress import progress_bar
from dispatcher.features.persons import endpoints
from dispatcher.features.persons.rules import ADDRESSES_MAX

# Each record takes the server several statements; a page has to be ready within its time limit.
EXPORT_PAGE = 100

PersonAddresses = Annotated[list[str] | None, typer.Argument(metavar="ADDRESS...", help="The addresses of one person.")]
OfContact = Annotated[str | None, typer.Option("--contact", metavar="KEY", help="And those of this contact.")]


def timeline(caller: Caller, text: Annotated[str, typer.Argument(metavar="ADDRESS")], *, kind: OfKind = None) -> None:
    """Show every message to an address and why it was sent, with list entries about the address, newest first.

    --limit limits the table; --json prints all.
    """
    (named,) = addresses([text], kind)
    limit = caller.given.limit
    body = {"address": named.text, "kind": named.kind}
    entries = caller.every(endpoints.look_up_timeline, body=body, size=min(PAGE_MAX, limit))
    if caller.voice.as_json:
        for one in entries:
            caller.voice.record(one)
        return
    found = [msgspec.json.decode(one) for one in islice(entries, limit)]
    nothing = f"Nothing was sent to {named.text} here, and nothing was said about it."
    show_list(caller, found, ("at", "id", "channel", "what", "became", "why"), _cells, nothing)
    if len(found) == limit:
        caller.voice.say("there may be more: see --limit, or --json for all")


def _cells(row: dict[str, Any]) -> tuple[object, ...]:
    at = second(datetime.fromisoformat(row["at"]))
    if row["kind"] == "delivery":
        result = row["life"] + (f": {row['error']}" if row.get("error") else "")
        return at, row["id"], row["channel"], row.get("subject") or row.get("template_name"), result, row["reason"]
    what = f"{row['kind']} {row.get('topic') or row.get('source') or ''}".strip()
    return at, "", row["channel"], what, "", f"{row['actor']}: {row['reason']}"


def export_person(
    caller: Caller, texts: PersonAddresses = None, *, contact: OfContact = None, kind: OfKind = None
) -> None:
    """Print all records of a person as JSON, one a line.

    The contact, each delivery with its content and result, each run that concerns the person, and list entries.
    """
    body = selector(texts, kind, contact)
    with progress_bar(caller.voice, "exporting", 0) as at:
        records = caller.every(endpoints.look_up_person, body=body, size=EXPORT_PAGE)
        for done, record in enumerate(records, 1):
            caller.voice.record(record)
            at(done)


def selector(texts: list[str] | None, kind: str | None, contact: str | None) -> dict[str, object]:
    """The person that the command line names, as the body of a request."""
    require_text("--contact", contact)
    named = addresses(texts or [], kind)
    if not named and contact is None:
        raise typer.BadParameter("name an address, or a contact by --contact", param_hint="ADDRESS")
    if len(named) > ADDRESSES_MAX:
        words = f"{len(named)} addresses are more than {ADDRESSES_MAX}: split them over several commands"
        raise typer.BadParameter(words, param_hint="ADDRESS")
    return {"addresses": [{"address": one.text, "kind": one.kind} for one in named], "contact": contact}
