"""Editing contacts: a new one, and the fields and addresses of one that is there."""

from typing import Any

from dispatcher.base.errors import Fault
from dispatcher.console.page import Field, Form, Visit, form
from dispatcher.console.rendering import plain
from dispatcher.features.contacts.endpoints import create_contact, get_contact, put_contact
from dispatcher.features.contacts.models import Contact
from dispatcher.http.problems import faulty


def _fields(one: Contact | None) -> list[Field]:
    said = [] if one is None else plain(one.addresses)
    return [
        Field("name", "Name", value=one and one.name),
        Field("company", "Company", value=one and one.company),
        Field("status", "Status", value=one and one.status, hint="A word of the application; active without it."),
        Field("time_zone", "Time zone", value=one and one.time_zone, placeholder="Europe/Berlin"),
        Field("locale", "Language", value=one and one.locale, placeholder="de"),
        Field("tags", "Tags", "lines", value=list(one.tags) if one else [], hint="One on each line."),
        Field(
            "addresses",
            "Addresses",
            "lines",
            value=[f"{each['kind']} {each['address']}" for each in said],
            hint="One on each line, its kind first: email, phone, push, chat or social.",
        ),
        Field("attributes", "Attributes", "json", value=plain(one.attributes) if one else {}, hint="A JSON object."),
    ]


def _addresses(lines: list[str]) -> list[dict[str, str]]:
    """Return addresses that are written with their kinds before them. Raises Problem."""
    split = [line.partition(" ") for line in lines]
    if wrong := [line for line, (_, _, address) in zip(lines, split, strict=True) if not address.strip()]:
        raise faulty([Fault("$.addresses", f"{wrong[0][:80]!r} has no kind before it, such as email or phone")])
    return [{"kind": kind, "address": address.strip()} for kind, _, address in split]


def _body(given: dict[str, Any]) -> dict[str, Any]:
    return given | {"addresses": _addresses(given.get("addresses", [])), "tags": given.get("tags", [])}


@form("/contacts/new", create_contact)
async def create(_visit: Visit) -> Form:
    """Make a contact."""

    async def act(visit: Visit, body: dict[str, Any]) -> object:
        return await visit.ask(create_contact, body=_body(body))

    return Form(
        title="A new contact",
        fields=[Field("key", "Key", required=True, hint="The application's own name of it."), *_fields(None)],
        button="Save it",
        reason=False,
        act=act,
        back="/contacts",
        done="It is saved.",
    )


@form("/contacts/{key}/change", put_contact)
async def change(visit: Visit) -> Form:
    """Change a contact, unless another has changed it meanwhile."""
    one: Contact = await visit.ask(get_contact)

    async def act(visit: Visit, body: dict[str, Any]) -> object:
        return await visit.ask(put_contact, version=body.pop("version"), body=_body(body))

    return Form(
        title=f"Change {one.name or one.key}?",
        text="What is empty here becomes empty.",
        fields=[*_fields(one), Field("version", "", "hidden", value=one.version)],
        button="Save it",
        reason=False,
        act=act,
        back=f"/contacts/{visit.path['key']}",
        done="It is saved.",
    )
