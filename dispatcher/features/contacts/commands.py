"""The `contacts` commands: contacts of a workspace, one at a time and by file."""

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import msgspec
import typer
from msgspec import Raw, structs

from dispatcher.base.values.counts import counted
from dispatcher.cli.addresses import addresses
from dispatcher.cli.arguments import object_text, object_with_pairs, pair
from dispatcher.cli.calls.caller import Caller
from dispatcher.cli.commands import command, group
from dispatcher.cli.failures import REFUSED
from dispatcher.cli.options import one_of, second
from dispatcher.cli.terminal.console import plain
from dispatcher.cli.terminal.output import show_facts, show_list, tell
from dispatcher.cli.terminal.progress import progress_bar
from dispatcher.features.contacts import endpoints
from dispatcher.features.contacts.import_file import import_contacts
from dispatcher.features.contacts.models import AudienceSeen, Contact, MatchedCondition, SavedContact
from dispatcher.features.persons.commands import erase, erasures, export_person, timeline
from dispatcher.http.endpoints import Endpoint

app = group(help="Write, look at, import, export and erase contacts: the people of a workspace.")

MODES = ("upsert", "create", "put")
EXPORTED = ("key", "name", "company", "status", "time_zone", "locale", "tags", "attributes", "addresses")

Key = Annotated[str, typer.Argument(metavar="KEY", help="The key that the application has chosen.")]
Text = str | None


def _writing(name: str, endpoint: Endpoint, summary: str, **query: object) -> None:
    def write(  # noqa: PLR0913 - each is an option of the command line
        caller: Caller,
        key: Key,
        *,
        called: Annotated[Text, typer.Option("--name", help="Of the person.")] = None,
        company: Annotated[Text, typer.Option(help="Where they work.")] = None,
        status: Annotated[Text, typer.Option(help="A word of the application; active without the option.")] = None,
        time_zone: Annotated[Text, typer.Option(help="Like Europe/Berlin.")] = None,
        locale: Annotated[Text, typer.Option(help="Like de or pt-BR.")] = None,
        tag: Annotated[list[str] | None, typer.Option(help="All the tags, each with its own --tag.")] = None,
        email: Annotated[list[str] | None, typer.Option(help="Messages go to the first.")] = None,
        phone: Annotated[list[str] | None, typer.Option(help="With + and the country code.")] = None,
        address: Annotated[
            list[str] | None, typer.Option(metavar="KIND=ADDRESS", help="Any other: push, chat or social.")
        ] = None,
        attributes: Annotated[Text, typer.Option(metavar="JSON", help="An object, or @FILE.")] = None,
        attribute: Annotated[list[str] | None, typer.Option(metavar="NAME=VALUE", help="JSON, else text.")] = None,
    ) -> None:
        body = {
            "name": called,
            "company": company,
            "status": status,
            "time_zone": time_zone,
            "locale": locale,
            "tags": tag,
            "addresses": [*_addresses(email, phone, address)] or None,
            "attributes": _attributes(attributes, attribute or []),
        }
        names = [key] if endpoint.names else []
        saved: SavedContact = caller.ask(endpoint, *names, body=body if names else {"key": key} | body, **query)
        done = {"created": "is created", "changed": "is changed", "same": "says this already"}[saved.answer]
        tell(caller, saved, f"contact {key} {done}: version {saved.version}")

    write.__doc__ = summary
    command(app, name, acts=True)(write)


command(app, "timeline", limit=100, after=False, cells=True)(timeline)
command(app, "export-person", cells=True)(export_person)
command(app, "erase", acts=True, cells=True)(erase)
command(app, "erasures", limit=100, after=False, cells=True)(erasures)


def _addresses(
    emails: list[str] | None, phones: list[str] | None, others: list[str] | None
) -> Iterator[dict[str, str]]:
    yield from ({"kind": "email", "address": one} for one in emails or [])
    yield from ({"kind": "phone", "address": one} for one in phones or [])
    for one in others or []:
        kind, text = pair("--address", one)
        yield {"kind": kind, "address": text}


def _attributes(given: str | None, pairs: list[str]) -> Raw | None:
    if given is None and not pairs:
        return None
    return Raw(object_with_pairs("--attributes", given, "--attribute", pairs).encode())


_writing("create", endpoints.create_contact, "Create a contact; refused where there is one with this key.")
_writing("put", endpoints.put_contact, "Save a whole contact: fields that are not given become empty.")
_writing(
    "update",
    endpoints.patch_contact,
    "Change the given fields of a contact; attributes are merged, and null removes an attribute.",
)
_writing("upsert", endpoints.patch_contact, "Change the given fields of a contact, or create it.", create=True)


@command(app, "show")
def show(caller: Caller, key: Key) -> None:
    """Show a contact with its addresses."""
    found: Contact = caller.ask(endpoints.get_contact, key)
    show_facts(caller, "contact", key, found, addresses=_address_list(found))


@command(app, "list", limit=100)
def list_(
    caller: Caller,
    *,
    name: Annotated[Text, typer.Option(help="Only with these words in the name, or words that begin so.")] = None,
    company: Annotated[Text, typer.Option(help="Only of this company.")] = None,
    tag: Annotated[Text, typer.Option(help="Only with this tag.")] = None,
    status: Annotated[Text, typer.Option(help="Only with this status.")] = None,
    address: Annotated[Text, typer.Option(help="Only the contact with this address.")] = None,
) -> None:
    """List the contacts of a workspace in the order of their keys."""
    filters = {"company": company, "tag": tag, "status": status}
    if address is None:
        found = caller.listed(endpoints.list_contacts, name=name, **filters)
    else:
        (one,) = addresses([address], None)
        body = {**filters, "address": one.text, "kind": one.kind, "after": caller.given.after or None}
        found = caller.ask(endpoints.search_contacts, body=body).contacts
    columns = ("key", "name", "company", "status", "tags", "addresses", "updated")
    show_list(caller, found, columns, _cells, "There are no such contacts here.")


def _cells(row: Contact) -> tuple[object, ...]:
    tags = ", ".join(row.tags)
    return row.key, row.name, row.company, row.status, tags, _address_list(row), second(row.updated_at)


def _address_list(row: Contact) -> str:
    return ", ".join(one["address"] for one in msgspec.json.decode(row.addresses))


@command(app, "delete")
def delete(caller: Caller, key: Key) -> None:
    """Delete a contact. What was sent to it stays; `contacts erase` removes that, too."""
    caller.ask(endpoints.delete_contact, key)
    tell(caller, {"key": key, "deleted": True}, f"contact {key} is deleted")


@command(app, "import", acts=True)
def import_(
    caller: Caller,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="- is the standard input.")],
    *,
    mode: Annotated[
        str, typer.Option(help=f"What a line does, one of {', '.join(MODES)}.", callback=one_of(MODES))
    ] = "upsert",
) -> None:
    """Write the contacts of a file: every sound line; every other is named with its faults.

    JSON, one object a line, as `contacts export` writes it; or CSV whose first line names its columns: key, name,
    company, status, time_zone, locale, tags, email, phone, push, chat, social (separated by ; in a cell),
    attributes (JSON) or attributes.NAME. An empty cell is left out.
    """
    tally = import_contacts(caller, file, mode)
    tell(caller, tally.counts, str(tally))
    if tally.counts["refused"]:
        raise typer.Exit(REFUSED)


@command(app, "export")
def export(caller: Caller) -> None:
    """Print the contacts of a workspace as JSON, one a line, as `contacts import` reads them."""
    with progress_bar(caller.output, "exporting", 0) as at:
        for done, row in enumerate(caller.every(endpoints.list_contacts), 1):
            fields = ((name, getattr(row, name)) for name in EXPORTED)
            caller.output.record({name: value for name, value in fields if value is not None})
            at(done)


@command(app, "audience")
def audience(
    caller: Caller,
    said: Annotated[str, typer.Argument(metavar="JSON|FILE|-", help='Such as {"tags": ["vip"], "exclude": ["ann"]}.')],
) -> None:
    """Count an audience, as campaigns have it, and show ten of its contacts."""
    body = {"audience": Raw(object_text("JSON", said).encode())}
    found: AudienceSeen = caller.ask(endpoints.see_audience, body=body)
    if caller.output.as_json:
        caller.output.record(found)
        return
    caller.output.text(_least(found) + counted(found.count, "contact"))
    for one in found.conditions:
        caller.output.text(plain(f"  {_least(one)}{one.count:,} by themselves: {one.condition}"))
    if found.sample:
        caller.output.text()
        caller.output.table(("id", "key", "name", "company", "status"), map(structs.astuple, found.sample))


def _least(one: AudienceSeen | MatchedCondition) -> str:
    return "at least " if one.at_least else ""
