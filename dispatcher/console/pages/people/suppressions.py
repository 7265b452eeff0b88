"""Suppressions: the list of addresses that are not written to, a check of one, and adding and removing."""

from typing import Any

from dispatcher.console.page import Answer, Field, Form, Visit, form, page
from dispatcher.engine.rules.suppression import SOURCES
from dispatcher.features.suppressions.endpoints import (
    add_suppressions,
    check_address,
    list_suppressions,
    remove_suppressions,
)
from dispatcher.http.problems import FAULTY, Problem
from dispatcher.http.roles import Right

ROWS = 50
KINDS = (("email", "email"), ("phone", "phone"), ("other", "other"))
_CHECKED = ("address", "kind", "channel", "topic", "lane")


@page("/suppressions", Right.SUPPRESSIONS)
async def suppressions(visit: Visit) -> Answer:
    """List suppressed addresses."""
    meant = {name: visit.query.get(name) for name in ("source", "kind", "cursor")}
    found = await visit.ask(list_suppressions, query={"limit": ROWS, **meant})
    return visit.show("people/suppressions.html", found=found, sources=SOURCES, kinds=KINDS)


@page("/suppressions/check", Right.SUPPRESSIONS)
async def check(visit: Visit) -> Answer:
    """Show whether a message to an address would be sent now, and what was said about the address."""
    checked, problem = None, None
    asked = {name: visit.query[name].strip() for name in _CHECKED if visit.query.get(name, "").strip()}
    if "address" in asked:
        try:
            checked = await visit.ask(check_address, body=asked)
        except Problem as found:
            if found.kind is not FAULTY:
                raise
            problem = found
    channels = sorted(visit.config().channels)
    return visit.show("people/suppression_check.html", checked=checked, problem=problem, channels=channels, kinds=KINDS)


@form("/suppressions/add", add_suppressions)
async def add(visit: Visit) -> Form:
    """Suppress addresses."""

    async def act(visit: Visit, body: dict[str, Any]) -> object:
        each = {name: body[name] for name in ("kind", "channel", "expires_at") if body.get(name)}
        named = [{"address": address, **each} for address in body["addresses"]]
        asked = {"suppressions": named, "reason": body["reason"], "source": body["source"]}
        return await visit.ask(add_suppressions, body=asked)

    return Form(
        title="Suppress which addresses?",
        text="Nothing is sent there from now on, by any workspace of the tenant; what is queued for them is skipped.",
        fields=[
            Field("addresses", "Addresses", "lines", value=_named(visit), hint="One a line.", required=True),
            Field(
                "kind",
                "Kind",
                "choice",
                visit.query.get("kind", ""),
                choices=KINDS,
                hint="Seen from the address without it.",
            ),
            Field("channel", "Only on the channel", "choice", choices=_channels(visit)),
            Field(
                "source", "Because of", "choice", "operator", choices=[(name, name) for name in SOURCES], required=True
            ),
            Field("expires_at", "Until", "time", hint="Forever without it."),
        ],
        button="Suppress them",
        act=act,
        done="Suppressed.",
        back="/suppressions",
    )


@form("/suppressions/remove", remove_suppressions)
async def remove(visit: Visit) -> Form:
    """Take addresses off the list."""
    source = visit.query.get("source", "")
    return Form(
        title="Write to which addresses again?",
        text="They are taken off the list for all workspaces of the tenant. Deliveries that were skipped stay skipped.",
        fields=[
            Field("addresses", "Addresses", "lines", value=_named(visit), hint="One a line.", required=True),
            Field("kind", "Kind", "choice", visit.query.get("kind", ""), choices=KINDS),
            Field("source", "Only entries of", "choice", source, choices=[(name, name) for name in SOURCES]),
        ],
        button="Remove them from the list",
        done="Removed from the list.",
        back="/suppressions",
    )


def _named(visit: Visit) -> list[str]:
    """Return the address that a row's button names."""
    return [visit.query["address"]] if visit.query.get("address") else []


def _channels(visit: Visit) -> list[tuple[str, str]]:
    return [(name, name) for name in sorted(visit.config().channels)]
