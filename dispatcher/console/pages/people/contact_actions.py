"""What is done to a contact: its topics, its suppressions, and its erasure."""

from typing import Any

from dispatcher.base.errors import Fault
from dispatcher.console.page import Answer, Field, Form, Visit, form, page
from dispatcher.console.pages.people.contacts import Reached, addresses, asked_about
from dispatcher.console.rendering import plural
from dispatcher.features.contacts.endpoints import get_contact
from dispatcher.features.contacts.models import Contact
from dispatcher.features.persons.endpoints import erase_person, list_erasures, look_up_timeline
from dispatcher.features.suppressions.endpoints import (
    add_suppressions,
    remove_suppressions,
    subscribe_to_topic,
    unsubscribe_from_topic,
)
from dispatcher.http.problems import faulty, not_found
from dispatcher.http.roles import Right

ROWS = 50
# Messages are counted so far.
COUNTED_MAX = 500


async def _address(visit: Visit) -> Reached:
    """Return the address whose place the path names. Raises Problem."""
    one: Contact = await visit.ask(get_contact, visit.path["key"])
    for each in await addresses(visit, one):
        if str(each.place) == visit.path["place"]:
            return each
    raise not_found(f"address {visit.path['place'][:10]} of contact {one.key}")


def _about(visit: Visit) -> str:
    return f"/contacts/{visit.path['key']}"


@form("/contacts/{key}/addresses/{place}/suppress", add_suppressions)
async def suppress(visit: Visit) -> Form:
    """Suppress an address of a contact."""
    one = await _address(visit)

    async def act(visit: Visit, body: dict[str, Any]) -> object:
        meant = asked_about(one.kind, one.address) | {
            "channel": body.get("channel"),
            "expires_at": body.get("expires_at"),
        }
        return await visit.ask(
            add_suppressions,
            body={"suppressions": [{k: v for k, v in meant.items() if v}], "reason": body["reason"]},
        )

    return Form(
        title=f"Suppress {one.address}?",
        text="Nothing is sent there from now on, by any workspace of the tenant; what is queued for it is skipped.",
        fields=[
            Field(
                "channel", "Only on the channel", "choice", choices=[(name, name) for name in visit.config().channels]
            ),
            Field("expires_at", "Until", "time", hint="Forever without it."),
        ],
        button="Suppress it",
        act=act,
        done=f"{one.address} is suppressed.",
        back=_about(visit),
    )


@form("/contacts/{key}/addresses/{place}/release", remove_suppressions)
async def release(visit: Visit) -> Form:
    """Take an address of a contact off the list of suppressions."""
    one = await _address(visit)
    entries = one.said.entries if one.said else []

    async def act(visit: Visit, body: dict[str, Any]) -> object:
        meant = asked_about(one.kind, one.address)
        asked = {"addresses": [meant["address"]], "kind": meant["kind"], "reason": body["reason"]}
        return await visit.ask(remove_suppressions, body=asked)

    why = "; ".join(f"{entry.source}: {entry.reason}" for entry in entries) or "It is not on the list."
    return Form(
        title=f"Write to {one.address} again?",
        text=f"{plural(len(entries), 'entry', 'entries')} removed, for all workspaces of the tenant. {why}",
        button="Remove it from the list",
        act=act,
        done=f"{one.address} is written to again.",
        back=_about(visit),
    )


@form("/contacts/{key}/addresses/{place}/topics", unsubscribe_from_topic)
async def prefer(visit: Visit) -> Form:
    """Change whether an address of a contact gets a topic."""
    one = await _address(visit)

    async def act(visit: Visit, body: dict[str, Any]) -> object:
        meant = asked_about(one.kind, one.address)
        endpoint = subscribe_to_topic if body.pop("wanted") == "yes" else unsubscribe_from_topic
        return await visit.ask(endpoint, body=body | {"addresses": [meant["address"]], "kind": meant["kind"]})

    return Form(
        title=f"Which topics does {one.address} get?",
        text="It gets every topic that it is not unsubscribed from.",
        fields=[
            Field("topic", "Topic", value=visit.query.get("topic", ""), required=True),
            Field("wanted", "", "options", value="no", choices=_WANTED, required=True),
        ],
        button="Save it",
        act=act,
        back=_about(visit),
    )


_WANTED = (
    ("no", "Unsubscribed", "Messages of this topic are skipped."),
    ("yes", "Subscribed", "They are sent again."),
)


@form("/contacts/{key}/erase", erase_person)
async def erase(visit: Visit) -> Form:
    """Erase a person, once it was said what goes."""
    key = visit.path["key"]
    one: Contact = await visit.ask(get_contact, key)
    reached = await addresses(visit, one)
    goes = ", ".join(
        [plural(len(reached), "address", "addresses"), "name and attributes", await _messages(visit, reached)]
    )

    async def act(visit: Visit, body: dict[str, Any]) -> object:
        if body.pop("typed") != key:
            raise faulty([Fault("$.typed", f"is not {key}")])
        return await visit.ask(erase_person, body=body | {"contact": key})

    return Form(
        title=f"Erase {one.name or key}?",
        text=f"Deleted for good: {goes}, and the input and state of runs that concern them. What is queued is"
        " skipped, and their runs are cancelled. Hashes of suppressed addresses and of"
        " keys stay, so that nothing is sent again.",
        fields=[Field("typed", f"Type {key}", required=True)],
        confirm="This cannot be undone. I have exported what has to be kept.",
        risk=True,
        button="Erase for good",
        act=act,
        done="The erasure has begun. It goes on by itself.",
        back="/erasures",
        cancel=_about(visit),
    )


async def _messages(visit: Visit, reached: list[Reached]) -> str:
    """Return in words how many messages to these addresses there are, as far as they were counted."""
    count, more = 0, False
    for one in reached:
        body = asked_about(one.kind, one.address) | {"limit": COUNTED_MAX}
        found = await visit.ask(look_up_timeline, body=body)
        count += sum(b'"kind":"delivery"' in bytes(row) for row in found.entries)
        more = more or found.next_cursor is not None
    return f"the content of {count:,}+ messages" if more else f"the content of {plural(count, 'message')}"


@page("/erasures", Right.CONTACTS, section="contacts")
async def erasures(visit: Visit) -> Answer:
    """List erasures, the newest first."""
    found = await visit.ask(list_erasures, query={"limit": ROWS, **visit.query})
    return visit.show("people/erasures.html", found=found)
