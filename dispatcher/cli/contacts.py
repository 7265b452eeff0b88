"""The `contacts` commands: the people of a workspace, one by one and by the file."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any, NoReturn

import msgspec
import typer

from dispatcher.cli import erasing, persons
from dispatcher.cli.commands import command, group
from dispatcher.cli.contact_import import Importing, import_contacts
from dispatcher.cli.deliveries import LIMIT_MAX
from dispatcher.cli.failures import FAILED, REFUSED
from dispatcher.cli.given import object_with_pairs, pair
from dispatcher.cli.operating import Actor, require_text, second, who
from dispatcher.cli.progress import progress_bar
from dispatcher.cli.session import Session
from dispatcher.cli.suppressions import addresses, one_of
from dispatcher.cli.template_work import InWorkspace, Tenant, place
from dispatcher.cli.voice import plain
from dispatcher.domain.contacts import read
from dispatcher.doors.nouns import Refusal
from dispatcher.doors.people import Traits
from dispatcher.errors import Fault
from dispatcher.store.contacts import Mode

app = group(help="Write, look at, import, export and erase contacts: the people of a workspace.")

MODES = ("upsert", "create", "put")
EXPORT_PAGE = 1_000
EXPORTED = ("key", "name", "company", "status", "time_zone", "locale", "tags", "attributes", "addresses")
_decode = msgspec.json.Decoder(dict[str, Any]).decode

Key = Annotated[str, typer.Argument(metavar="KEY", help="What the application calls the contact.")]
Text = str | None


def _writing(name: str, mode: Mode, summary: str) -> None:
    def write(  # noqa: PLR0913 - each is an option of the command line
        session: Session,
        key: Key,
        *,
        called: Annotated[Text, typer.Option("--name", help="What the person is called.")] = None,
        company: Annotated[Text, typer.Option(help="Where they work.")] = None,
        status: Annotated[Text, typer.Option(help="A word of the application's own; active without one.")] = None,
        time_zone: Annotated[Text, typer.Option(help="Like Europe/Berlin.")] = None,
        locale: Annotated[Text, typer.Option(help="Like de or pt-BR.")] = None,
        tag: Annotated[list[str] | None, typer.Option(help="All the tags, each with its own --tag.")] = None,
        email: Annotated[list[str] | None, typer.Option(help="The first one is written to.")] = None,
        phone: Annotated[list[str] | None, typer.Option(help="With + and its country.")] = None,
        address: Annotated[
            list[str] | None, typer.Option(metavar="KIND=ADDRESS", help="Any other: push, chat or social.")
        ] = None,
        attributes: Annotated[Text, typer.Option(metavar="JSON", help="An object, or @FILE.")] = None,
        attribute: Annotated[list[str] | None, typer.Option(metavar="NAME=VALUE", help="JSON, else text.")] = None,
        actor: Actor = None,
        tenant: Tenant = None,
        workspace: InWorkspace = None,
    ) -> None:
        by, here = who(session, actor), place(tenant, workspace)
        said: dict[str, Any] = {
            "name": called,
            "company": company,
            "status": status,
            "time_zone": time_zone,
            "locale": locale,
            "tags": tag,
            "addresses": [*_addresses(email, phone, address)] or None,
            "attributes": _decode(object_with_pairs("--attributes", attributes, "--attribute", attribute or []))
            if attributes is not None or attribute
            else None,
        }
        given = {field: value for field, value in said.items() if value is not None}
        contact = read(given, key=key, whole=mode in ("create", "put"))
        if isinstance(contact, list):
            _refuse(session, key, contact)
        else:
            with session.doors() as doors:
                (became,) = session.run(lambda: doors.contacts.put(here, [contact], mode, by))
            if isinstance(became, Refusal):
                _refuse(session, key, became.faults)
            if session.voice.as_json:
                session.voice.record({"key": key, "answer": became.answer, "version": became.version})
            else:
                words = {"created": "is created", "changed": "is changed", "same": "says this already"}[became.answer]
                session.voice.text(f"contact {key} {words}: version {became.version}")

    write.__doc__ = summary
    command(app, name)(write)


command(app, "timeline")(persons.timeline)
command(app, "export-person")(persons.export_person)
command(app, "erase")(erasing.erase)
command(app, "erasures")(erasing.erasures)


def _addresses(
    emails: list[str] | None, phones: list[str] | None, others: list[str] | None
) -> Iterator[dict[str, str]]:
    yield from ({"kind": "email", "address": one} for one in emails or [])
    yield from ({"kind": "phone", "address": one} for one in phones or [])
    for one in others or []:
        kind, text = pair("--address", one)
        yield {"kind": kind, "address": text}


def _refuse(session: Session, key: str, faults: Sequence[Fault]) -> NoReturn:
    named = [Fault(fault.path.removeprefix("$").removeprefix(".") or key, fault.message) for fault in faults]
    session.voice.fail("ContactRefused", "nothing was written", named)
    raise typer.Exit(REFUSED)


_writing("create", "create", "Create a contact; refused where there is one with this key.")
_writing("put", "put", "Save a contact as a whole: what is not said of it is empty from then on.")
_writing("update", "update", "Change what is said of a contact; attributes are merged, and null takes one away.")
_writing("upsert", "upsert", "Change what is said of a contact, or create it.")


@command(app, "show")
def show(session: Session, key: Key, tenant: Tenant = None, workspace: InWorkspace = None) -> None:
    """Show a contact with its addresses."""
    here = place(tenant, workspace)
    require_text("KEY", key)
    with session.doors() as doors:
        found = session.run(lambda: doors.contacts.show(here, key))
    if found is None:
        session.voice.fail("NotFound", f"there is no contact {key} here")
        raise typer.Exit(FAILED)
    if session.voice.as_json:
        session.voice.record(found)
        return
    shown = {name: value for name, value in found.items() if name != "addresses"}
    shown |= {"tags": ", ".join(found["tags"]), "attributes": bytes(found["attributes"]).decode()}
    shown["addresses"] = _places(found)
    rows = ((name.replace("_", " "), value) for name, value in shown.items() if value not in (None, ""))
    session.voice.table(("contact", key), rows)


@command(app, "list")
def list_(  # noqa: PLR0913 - each is an option of the command line
    session: Session,
    *,
    company: Annotated[Text, typer.Option(help="Only of this company.")] = None,
    tag: Annotated[Text, typer.Option(help="Only with this tag.")] = None,
    status: Annotated[Text, typer.Option(help="Only with this status.")] = None,
    address: Annotated[Text, typer.Option(help="Only the one that can be reached here.")] = None,
    after: Annotated[str, typer.Option(help="Begin behind this key.")] = "",
    limit: Annotated[int, typer.Option(min=1, max=LIMIT_MAX, help="How many.")] = 100,
    tenant: Tenant = None,
    workspace: InWorkspace = None,
) -> None:
    """List the contacts of a workspace in the order of their keys."""
    here = place(tenant, workspace)
    for option, text in (("--company", company), ("--tag", tag), ("--status", status), ("--after", after)):
        require_text(option, text)
    meant = None if address is None else addresses([address], None)[0]
    which = Traits(company=company, status=status, tag=tag, address=meant)
    with session.doors() as doors:
        found = session.run(lambda: doors.contacts.listed(here, which, after, limit))
    if session.voice.as_json:
        for row in found:
            session.voice.record(row)
    elif found:
        columns = ("key", "name", "company", "status", "tags", "addresses", "updated")
        session.voice.table(columns, (_cells(row) for row in found))
        if len(found) == limit:
            session.voice.say(f"there may be more: see --after {found[-1]['key']}")
    else:
        session.voice.text("There are no such contacts here.")


def _cells(row: dict[str, Any]) -> tuple[object, ...]:
    tags = ", ".join(row["tags"])
    return row["key"], row["name"], row["company"], row["status"], tags, _places(row), second(row["updated_at"])


def _places(row: dict[str, Any]) -> str:
    return ", ".join(one["address"] for one in msgspec.json.decode(row["addresses"]))


@command(app, "delete")
def delete(session: Session, key: Key, tenant: Tenant = None, workspace: InWorkspace = None) -> None:
    """Delete a contact. What was sent to it stays; `contacts erase` takes that away too."""
    here = place(tenant, workspace)
    require_text("KEY", key)
    with session.doors() as doors:
        answer = session.run(lambda: doors.contacts.delete(here, key))
    if answer == "unknown":
        session.voice.fail("NotFound", f"there is no contact {plain(key)} here")
        raise typer.Exit(FAILED)
    if session.voice.as_json:
        session.voice.record({"key": key, "deleted": True})
    else:
        session.voice.text(f"contact {key} is deleted")


@command(app, "import")
def import_(
    session: Session,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="- is the standard input.")],
    *,
    mode: Annotated[str, typer.Option(help=f"What a line does, one of {', '.join(MODES)}.")] = "upsert",
    actor: Actor = None,
    tenant: Tenant = None,
    workspace: InWorkspace = None,
) -> None:
    """Write the contacts of a file: every sound line of it; every other is named with its reasons.

    JSON, one object a line, as `contacts export` writes it; or CSV whose first line names its columns: key, name,
    company, status, time_zone, locale, tags, email, phone, push, chat, social (several in a cell stand apart by ;),
    attributes (JSON) or attributes.NAME. An empty cell says nothing.
    """
    one_of("--mode", mode, MODES)
    how = Importing(place(tenant, workspace), mode, who(session, actor))  # type: ignore[arg-type]  # one of the modes, as was just seen
    tally = import_contacts(session, file, how)
    if session.voice.as_json:
        session.voice.record(tally.counts())
    else:
        session.voice.text(str(tally))
    if tally.refused:
        raise typer.Exit(REFUSED)


@command(app, "export")
def export(session: Session, tenant: Tenant = None, workspace: InWorkspace = None) -> None:
    """Print the contacts of a workspace as JSON, one a line, as `contacts import` reads them."""
    here = place(tenant, workspace)
    after = ""
    with session.doors() as doors, progress_bar(session.voice, "exporting", 0) as at:
        done = 0
        while found := session.run(lambda behind=after: doors.contacts.listed(here, Traits(), behind, EXPORT_PAGE)):  # type: ignore[misc]  # bound now
            for row in found:
                session.voice.record({name: row[name] for name in EXPORTED if row[name] is not None})
            after, done = found[-1]["key"], done + len(found)
            at(done)
