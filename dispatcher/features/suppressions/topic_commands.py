"""The `topics` commands: the topics that addresses want, and changing them."""

from collections.abc import Mapping
from typing import Annotated

import typer

from dispatcher.cli.addresses import OfKind, addresses
from dispatcher.cli.calls.caller import Caller
from dispatcher.cli.commands import command, group
from dispatcher.cli.options import Reason
from dispatcher.cli.terminal.output import cell, tell
from dispatcher.engine.rules.suppression import TOPIC, TOPIC_WORDS
from dispatcher.features.suppressions import endpoints
from dispatcher.features.suppressions.commands import Addresses, Behind, catch_up, show_addressed
from dispatcher.features.suppressions.models import AddressPreference, TopicPreferences
from dispatcher.http.cursors import cursor
from dispatcher.http.endpoints import Endpoint

app = group(help="List, subscribe and unsubscribe addresses by topic.")


def _topic(text: str | None) -> str | None:
    if text is not None and not TOPIC.match(text):
        raise typer.BadParameter(f"expected {TOPIC_WORDS}")
    return text


Topic = Annotated[str, typer.Argument(metavar="TOPIC", callback=_topic)]


@command(app, "list", limit=100, after=False)
def list_(
    caller: Caller,
    *,
    topic: Annotated[str | None, typer.Option(help="About one topic.", callback=_topic)] = None,
    address: Annotated[str | None, typer.Option(help="Of one address.")] = None,
    kind: OfKind = None,
    behind: Behind = None,
) -> None:
    """List subscriptions and unsubscriptions. An address without any gets every topic."""
    # No topic comes after "~"; the list is in the order of addresses.
    ends = [(one.kind, one.text, "~") for one in addresses([behind] if behind is not None else [], kind)]
    named = [(one.kind, one.text) for one in addresses([address] if address is not None else [], kind)]
    start = max([*ends, *((*one, "") for one in named)], default=None)
    place = None if start is None else cursor(endpoints.TOPICS_NOUN, *start)
    rows: list[AddressPreference] = caller.listed(endpoints.list_topic_preferences, topic=topic, cursor=place)
    found = [row for row in rows if not named or (row.kind, row.address) in named]
    columns = ("topic", "address", "wants it", "since", "by", "why")
    show_addressed(caller, found, columns, _cells, "Nobody has said anything about that.")


def _cells(row: AddressPreference) -> tuple[object, ...]:
    return row.topic, row.address, cell(row.subscribed), cell(row.changed_at), row.actor, row.reason


@command(app, "subscribe", acts=True)
def subscribe(caller: Caller, topic: Topic, texts: Addresses, reason: Reason, *, kind: OfKind = None) -> None:
    """Send a topic to addresses again. A suppressed address stays suppressed."""
    _prefer(caller, endpoints.subscribe_to_topic, {"topic": topic, "addresses": texts, "reason": reason, "kind": kind})


@command(app, "unsubscribe", acts=True)
def unsubscribe(caller: Caller, topic: Topic, texts: Addresses, reason: Reason, *, kind: OfKind = None) -> None:
    """Stop sending a topic to addresses; what is queued about it is skipped."""
    body = {"topic": topic, "addresses": texts, "reason": reason, "kind": kind}
    _prefer(caller, endpoints.unsubscribe_from_topic, body)
    catch_up(caller, len(texts))


def _prefer(caller: Caller, endpoint: Endpoint, body: Mapping[str, object]) -> None:
    done: TopicPreferences = caller.ask(endpoint, body=body)
    for one in done.preferences:
        gets = "gets" if one.subscribed else "gets no more"
        tell(caller, one, f"{one.address} {gets} messages about {one.topic}")
