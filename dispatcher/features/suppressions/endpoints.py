"""The endpoints about suppressions and topics. Both lists are a tenant's and hold in all of its workspaces."""

from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from dispatcher.base.errors import Fault
from dispatcher.base.values.addresses import Address, Kind, parse_address
from dispatcher.engine.rules.life import LANES
from dispatcher.engine.rules.suppression import Candidate, Known, Suppression, suppression_reason, unknown_channel
from dispatcher.features.suppressions import models, store
from dispatcher.features.suppressions.store import Entry
from dispatcher.http.cursors import cursor, read_texts
from dispatcher.http.endpoints import Call, Done, endpoint
from dispatcher.http.listing import Row, page
from dispatcher.http.problems import faulty
from dispatcher.http.reading import past_time_faults
from dispatcher.http.roles import Right

NOUN = "suppressions"
TOPICS_NOUN = "topics"
_PLACE = ("kind", "address", "channel", "source")
_TOPICS_PLACE = ("kind", "address", "topic")
# Of one address: more than any has.
TOPICS_MAX = 1_000
_BOB = ["bob@example.org"]
_NEWS = {"topic": "news", "addresses": _BOB, "reason": "asked by mail"}


@endpoint("GET", "/suppressions", Right.SUPPRESSIONS, query=models.SuppressionQuery, answered=models.SUPPRESSIONS)
async def list_suppressions(call: Call) -> Done:
    """List suppressed addresses.

    The list is the tenant's: it holds in all of its workspaces.
    """
    asked: models.SuppressionQuery = call.query
    behind = read_texts(NOUN, asked.cursor, len(_PLACE))
    rows = await store.listed(
        call.database, call.workspace.tenant_id, behind, asked.limit + 1, source=asked.source, kind=asked.kind
    )
    return Done(models.Suppressions(*page(rows, asked.limit, models.Suppression, _end(NOUN, _PLACE))))


def _end(noun: str, place: Sequence[str]) -> Callable[[Row], str]:
    return lambda row: cursor(noun, *(row[name] for name in place))


@endpoint(
    "POST",
    "/suppressions",
    Right.SUPPRESSIONS,
    given=models.AddSuppressions,
    example={"suppressions": [{"address": _BOB[0]}], "reason": "asked by mail", "source": "complaint"},
    answered=models.ADDED_SUPPRESSIONS,
    large=True,
)
async def add_suppressions(call: Call) -> Done:
    """Suppress addresses, all or none.

    The list is the tenant's: it holds in all of its workspaces. What is queued for them is skipped within a second or
    so, before it is sent. With `check` nothing is written.
    """
    body: models.AddSuppressions = call.given
    entries, faults = [], list[Fault]()
    for number, one in enumerate(body.suppressions):
        path = f"$.suppressions[{number}]"
        address = _read(one.address, one.kind, f"{path}.address")
        if isinstance(address, Fault):
            faults.append(address)
            continue
        faults += _channel_faults(call, one.channel, f"{path}.channel")
        faults += past_time_faults(one.expires_at, f"{path}.expires_at")
        source, reason = one.source or body.source, one.reason or body.reason
        entries.append(Entry(address, source, reason, one.channel or "", one.expires_at))
    if faults:
        raise faulty(faults)
    if not body.check:
        await store.add(call.database, call.workspace.tenant_id, call.actor, entries)
    each = dict.fromkeys(entry.address for entry in entries)
    suppressed = [models.Suppressed(one.text, one.kind, suppressed=not body.check) for one in each]
    return Done(models.AddedSuppressions(suppressed))


def _read(text: str, kind: Kind | None, path: str) -> Address | Fault:
    try:
        return parse_address(text, kind)
    except ValueError as fault:
        return Fault(path, str(fault))


def _addresses(texts: Sequence[str], kind: Kind | None) -> list[Address]:
    found = [_read(text, kind, f"$.addresses[{number}]") for number, text in enumerate(texts)]
    if faults := [one for one in found if isinstance(one, Fault)]:
        raise faulty(faults)
    return list(dict.fromkeys(one for one in found if isinstance(one, Address)))


def _channel_faults(call: Call, channel: str | None, path: str) -> list[Fault]:
    words = unknown_channel(channel or "", call.served.config().channels)
    return [] if words is None else [Fault(path, words)]


@endpoint(
    "POST",
    "/suppressions/remove",
    Right.SUPPRESSIONS,
    given=models.RemoveSuppressions,
    example={"addresses": _BOB, "reason": "a mistake"},
    answered=models.REMOVED_SUPPRESSIONS,
    large=True,
)
async def remove_suppressions(call: Call) -> Done:
    """Remove addresses from the list, or only the entries of one source or channel.

    The list is the tenant's: it holds in all of its workspaces. Skipped deliveries stay skipped.
    """
    body: models.RemoveSuppressions = call.given
    addresses, tenant = _addresses(body.addresses, body.kind), call.workspace.tenant_id
    which = {"source": body.source, "channel": body.channel}
    sources = defaultdict[tuple[str, str], set[str]](set)
    for row in await store.release(call.database, tenant, addresses, call.actor, body.reason, **which):
        sources[row["kind"], row["address"]].add(row["source"])
    removed = [models.Removed(one.text, one.kind, sorted(sources[one.kind, one.text])) for one in addresses]
    return Done(models.RemovedSuppressions(removed))


@endpoint(
    "POST",
    "/suppressions/check",
    Right.SUPPRESSIONS,
    given=models.CheckAddress,
    example={"address": _BOB[0], "channel": "email", "topic": "news"},
    answered=models.CHECKED_ADDRESS,
    looks=True,
)
async def check_address(call: Call) -> Done:
    """Show whether a message to an address would be sent now, and the log of the address.

    A POST, so that no address is in a URL, since URLs are logged.
    """
    body: models.CheckAddress = call.given
    if faults := _channel_faults(call, body.channel, "$.channel"):
        raise faulty(faults)
    address = _read(body.address, body.kind, "$.address")
    if isinstance(address, Fault):
        raise faulty([address])
    tenant = call.workspace.tenant_id
    entries = await store.entries(call.database, tenant, address)
    topics = await store.preferences(call.database, tenant, ("", "", ""), TOPICS_MAX, of=address)
    log = await store.log(call.database, tenant, address)
    known = Known(
        [Suppression(row["channel"], row["source"], row["reason"]) for row in entries],
        {row["topic"] for row in topics if not row["subscribed"]},
    )
    reason = suppression_reason(
        Candidate(0, tenant, body.channel or "", LANES[body.lane], address.text, body.topic), known
    )
    return Done(
        models.CheckedAddress(
            address=address.text,
            kind=address.kind,
            barred=reason is not None,
            reason=reason,
            entries=[msgspec.convert(row, models.StandingSuppression) for row in entries],
            topics=[msgspec.convert(row, models.Preference) for row in topics],
            log=[msgspec.convert(row, models.AddressAction) for row in log],
        )
    )


@endpoint("GET", "/topics", Right.SUPPRESSIONS, query=models.TopicQuery, answered=models.PREFERENCES)
async def list_topic_preferences(call: Call) -> Done:
    """List subscriptions to topics and unsubscriptions.

    The list is the tenant's: it holds in all of its workspaces. An address that is not in it gets every topic.
    """
    asked: models.TopicQuery = call.query
    behind = read_texts(TOPICS_NOUN, asked.cursor, len(_TOPICS_PLACE))
    rows = await store.preferences(call.database, call.workspace.tenant_id, behind, asked.limit + 1, topic=asked.topic)
    return Done(
        models.Preferences(*page(rows, asked.limit, models.AddressPreference, _end(TOPICS_NOUN, _TOPICS_PLACE)))
    )


_SET_TOPIC: dict[str, Any] = {
    "given": models.SetTopicPreference,
    "example": _NEWS,
    "answered": models.TOPIC_PREFERENCES,
    "large": True,
}


@endpoint("POST", "/topics/subscribe", Right.SUPPRESSIONS, **_SET_TOPIC)
async def subscribe_to_topic(call: Call) -> Done:
    """Send a topic to addresses again."""
    return await _prefer(call, subscribed=True)


@endpoint("POST", "/topics/unsubscribe", Right.SUPPRESSIONS, **_SET_TOPIC)
async def unsubscribe_from_topic(call: Call) -> Done:
    """Stop sending a topic to addresses."""
    return await _prefer(call, subscribed=False)


async def _prefer(call: Call, *, subscribed: bool) -> Done:
    body: models.SetTopicPreference = call.given
    addresses, tenant = _addresses(body.addresses, body.kind), call.workspace.tenant_id
    await store.prefer(call.database, tenant, addresses, body.topic, subscribed, call.actor, body.reason)
    each = [models.TopicPreference(one.text, one.kind, body.topic, subscribed) for one in addresses]
    return Done(models.TopicPreferences(each))
