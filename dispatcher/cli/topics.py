"""The `topics` commands: what addresses said about topics, and saying it for them."""

from typing import Annotated, Any

import typer

from dispatcher.cli.commands import command, group
from dispatcher.cli.deliveries import LIMIT_MAX
from dispatcher.cli.operating import Actor, Reason, require_reason, second, who
from dispatcher.cli.session import Session
from dispatcher.cli.suppressions import Addresses, OfKind, Tenant, addresses, catch_up, require_tenant
from dispatcher.domain.suppression import TOPIC, TOPIC_WORDS
from dispatcher.doors.nouns import Preference

app = group(help="List what addresses said about topics; subscribe and unsubscribe them.")

_FIRST = ("", "", "")
Topic = Annotated[str, typer.Argument(metavar="TOPIC")]


def _require_topic(hint: str, text: str) -> None:
    if not TOPIC.match(text):
        raise typer.BadParameter(f"expected {TOPIC_WORDS}", param_hint=hint)


@command(app, "list")
def list_(
    session: Session,
    *,
    topic: Annotated[str | None, typer.Option(help="About one topic.")] = None,
    address: Annotated[str | None, typer.Option(help="Of one address.")] = None,
    kind: OfKind = None,
    tenant: Tenant = None,
    limit: Annotated[int, typer.Option(min=1, max=LIMIT_MAX, help="How many.")] = 100,
    behind: Annotated[str | None, typer.Option(metavar="ADDRESS", help="Only those behind this one.")] = None,
) -> None:
    """List who subscribed to or unsubscribed from what. Who said nothing gets every topic."""
    if topic is not None:
        _require_topic("--topic", topic)
    require_tenant(tenant)
    meant = None if address is None else addresses([address], kind)[0]
    start = _FIRST
    if behind is not None:
        (after,) = addresses([behind], kind)
        # No topic comes behind this one.
        start = (after.kind, after.text, "~")
    with session.doors() as doors:
        found = session.run(lambda: doors.suppressions.preferences(tenant, start, limit, topic=topic, of=meant))
    if session.voice.as_json:
        for row in found:
            session.voice.record(row)
    elif found:
        session.voice.table(("topic", "address", "wants it", "since", "by", "why"), (_cells(row) for row in found))
        if len(found) == limit:
            session.voice.say(f"more: --behind {found[-1]['address']}")
    else:
        session.voice.text("Nobody has said anything about that.")


def _cells(row: dict[str, Any]) -> tuple[object, ...]:
    wants = "yes" if row["subscribed"] else "no"
    return row["topic"], row["address"], wants, second(row["changed_at"]), row["actor"], row["reason"]


@command(app, "subscribe")
def subscribe(
    session: Session,
    topic: Topic,
    texts: Addresses,
    reason: Reason,
    *,
    kind: OfKind = None,
    tenant: Tenant = None,
    actor: Actor = None,
) -> None:
    """Let addresses get a topic again. One that is suppressed stays so."""
    _prefer(session, topic, texts, True, (reason, kind, tenant, actor))


@command(app, "unsubscribe")
def unsubscribe(
    session: Session,
    topic: Topic,
    texts: Addresses,
    reason: Reason,
    *,
    kind: OfKind = None,
    tenant: Tenant = None,
    actor: Actor = None,
) -> None:
    """Send addresses nothing more about a topic; what is queued about it is skipped."""
    _prefer(session, topic, texts, False, (reason, kind, tenant, actor))


def _prefer(
    session: Session,
    topic: str,
    texts: list[str],
    subscribed: bool,
    said: tuple[str, str | None, str | None, str | None],
) -> None:
    reason, kind, tenant, actor = said
    _require_topic("TOPIC", topic)
    require_reason(reason)
    require_tenant(tenant)
    meant, by = addresses(texts, kind), who(session, actor)
    preference = Preference(topic, subscribed)
    with session.doors() as doors:
        session.run(lambda: doors.suppressions.prefer(tenant, meant, by, reason, preference))
        if not subscribed:
            catch_up(session, doors.suppressions, len(meant))
    for one in meant:
        if session.voice.as_json:
            session.voice.record({"address": one.text, "kind": one.kind, "topic": topic, "subscribed": subscribed})
        else:
            session.voice.text(f"{one.text} {'gets' if subscribed else 'gets no more'} messages about {topic}")
