"""The `topics` commands: what addresses said about topics, and saying it for them."""

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
from dispatcher.http.cursors import cursor_after_texts
from dispatcher.http.endpoints import Endpoint

app = group(help="List what addresses said about topics; subscribe and unsubscribe them.")


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
    """List who subscribed to or unsubscribed from what. Who said nothing gets every topic."""
    # No topic comes behind "~"; what one address said stands together, in the order of addresses.
    ends = [(one.kind, one.text, "~") for one in addresses([behind] if behind is not None else [], kind)]
    meant = [(one.kind, one.text) for one in addresses([address] if address is not None else [], kind)]
    start = max([*ends, *((*one, "") for one in meant)], default=None)
    cursor = None if start is None else cursor_after_texts(endpoints.TOPICS_NOUN, *start)
    rows: list[AddressPreference] = caller.listed(endpoints.list_topic_preferences, topic=topic, cursor=cursor)
    found = [row for row in rows if not meant or (row.kind, row.address) in meant]
    columns = ("topic", "address", "wants it", "since", "by", "why")
    show_addressed(caller, found, columns, _cells, "Nobody has said anything about that.")


def _cells(row: AddressPreference) -> tuple[object, ...]:
    return row.topic, row.address, cell(row.subscribed), cell(row.changed_at), row.actor, row.reason


@command(app, "subscribe", acts=True)
def subscribe(caller: Caller, topic: Topic, texts: Addresses, reason: Reason, *, kind: OfKind = None) -> None:
    """Let addresses get a topic again. One that is suppressed stays so."""
    _prefer(caller, endpoints.subscribe_to_topic, {"topic": topic, "addresses": texts, "reason": reason, "kind": kind})


@command(app, "unsubscribe", acts=True)
def unsubscribe(caller: Caller, topic: Topic, texts: Addresses, reason: Reason, *, kind: OfKind = None) -> None:
    """Send addresses nothing more about a topic; what is queued about it is skipped."""
    body = {"topic": topic, "addresses": texts, "reason": reason, "kind": kind}
    _prefer(caller, endpoints.unsubscribe_from_topic, body)
    catch_up(caller, len(texts))


def _prefer(caller: Caller, endpoint: Endpoint, body: Mapping[str, object]) -> None:
    done: TopicPreferences = caller.ask(endpoint, body=body)
    for one in done.preferences:
        gets = "gets" if one.subscribed else "gets no more"
        tell(caller, one, f"{one.address} {gets} messages about {one.topic}")
