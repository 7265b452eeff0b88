"""Suppressions and topics over HTTP: who gets nothing more, or nothing more about something, and who said so.

They are a tenant's: what somebody wrote from one of its workspaces holds in all of them.
"""

from collections.abc import Callable, Sequence

import msgspec

from dispatcher.base.errors import Fault
from dispatcher.base.values.addresses import Address, Kind, given
from dispatcher.engine.rules.life import LANES
from dispatcher.engine.rules.suppression import Candidate, Known, Suppression, suppression_reason, unknown_channel
from dispatcher.features.suppressions import models, store
from dispatcher.features.suppressions.store import Entry
from dispatcher.http.cursors import after_texts, cursor_after_texts
from dispatcher.http.endpoints import Call, Done, endpoint
from dispatcher.http.listing import Row, page
from dispatcher.http.problems import faulty
from dispatcher.http.reading import over
from dispatcher.http.roles import Right

NOUN = "suppressions"
TOPICS_NOUN = "topics"
_PLACE = ("kind", "address", "channel", "source")
_TOPICS_PLACE = ("kind", "address", "topic")
# What one address has said about: nobody has so many topics.
TOPICS_MAX = 1_000
_BOB = ["bob@example.org"]
_NEWS = {"topic": "news", "addresses": _BOB, "reason": "asked by mail"}


@endpoint("GET", "/suppressions", Right.SUPPRESSIONS, query=models.SuppressionQuery, answered=models.SUPPRESSIONS)
async def list_suppressions(call: Call) -> Done:
    """List addresses that get nothing more.

    The list is the tenant's: it holds in all of its workspaces.
    """
    asked: models.SuppressionQuery = call.query
    behind = after_texts(NOUN, asked.cursor, len(_PLACE))
    rows = await store.listed(
        call.database, call.workspace.tenant_id, behind, asked.limit + 1, source=asked.source, kind=asked.kind
    )
    return Done(models.Suppressions(*page(rows, asked.limit, models.Suppression, _end(NOUN, _PLACE))))


def _end(noun: str, place: Sequence[str]) -> Callable[[Row], str]:
    return lambda row: cursor_after_texts(noun, *(row[name] for name in place))


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
    """Send addresses nothing more, all of these or none.

    The list is the tenant's: it holds in all of its workspaces. What is queued for them is skipped within a second or
    so, before it is sent. With `check` nothing is written.
    """
    said: models.AddSuppressions = call.given
    entries, faults = [], list[Fault]()
    for number, one in enumerate(said.suppressions):
        path = f"$.suppressions[{number}]"
        meant = _read(one.address, one.kind, f"{path}.address")
        if isinstance(meant, Fault):
            faults.append(meant)
            continue
        faults += _channel_faults(call, one.channel, f"{path}.channel")
        faults += over(one.expires_at, f"{path}.expires_at")
        source, reason = one.source or said.source, one.reason or said.reason
        entries.append(Entry(meant, source, reason, one.channel or "", one.expires_at))
    if faults:
        raise faulty(faults)
    if not said.check:
        await store.add(call.database, call.workspace.tenant_id, call.actor, entries)
    each = dict.fromkeys(entry.address for entry in entries)
    suppressed = [models.Suppressed(one.text, one.kind, suppressed=not said.check) for one in each]
    return Done(models.AddedSuppressions(suppressed))


def _read(text: str, kind: Kind | None, path: str) -> Address | Fault:
    try:
        return given(text, kind)
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
    """Take addresses off the list, or only what one source said about them.

    The list is the tenant's: it holds in all of its workspaces. What was skipped stays skipped.
    """
    said: models.RemoveSuppressions = call.given
    meant = _addresses(said.addresses, said.kind)
    told = meant, call.actor, said.reason
    gone = await store.release(call.database, call.workspace.tenant_id, *told, source=said.source, channel=said.channel)
    sources: dict[tuple[str, str], set[str]] = {}
    for row in gone:
        sources.setdefault((row["kind"], row["address"]), set()).add(row["source"])
    removed = [models.Removed(one.text, one.kind, sorted(sources.get((one.kind, one.text), ()))) for one in meant]
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
    """Say whether something would be sent to an address now, and all that was ever said about it.

    A POST, so that no address stands in a URL, which others keep.
    """
    said: models.CheckAddress = call.given
    if faults := _channel_faults(call, said.channel, "$.channel"):
        raise faulty(faults)
    meant = _read(said.address, said.kind, "$.address")
    if isinstance(meant, Fault):
        raise faulty([meant])
    tenant = call.workspace.tenant_id
    entries = await store.entries(call.database, tenant, meant)
    topics = await store.preferences(call.database, tenant, ("", "", ""), TOPICS_MAX, of=meant)
    known = Known(
        [Suppression(row["channel"], row["source"], row["reason"]) for row in entries],
        {row["topic"] for row in topics if not row["subscribed"]},
    )
    why = suppression_reason(Candidate(0, tenant, said.channel or "", LANES[said.lane], meant.text, said.topic), known)
    return Done(
        models.CheckedAddress(
            address=meant.text,
            kind=meant.kind,
            barred=why is not None,
            reason=why,
            entries=[msgspec.convert(row, models.StandingSuppression) for row in entries],
            topics=[msgspec.convert(row, models.Preference) for row in topics],
            log=[msgspec.convert(row, models.Saying) for row in await store.log(call.database, tenant, meant)],
        )
    )


@endpoint("GET", "/topics", Right.SUPPRESSIONS, query=models.TopicQuery, answered=models.PREFERENCES)
async def list_topic_preferences(call: Call) -> Done:
    """List who subscribed to or unsubscribed from what.

    The list is the tenant's: it holds in all of its workspaces. Who said nothing gets every topic.
    """
    asked: models.TopicQuery = call.query
    behind = after_texts(TOPICS_NOUN, asked.cursor, len(_TOPICS_PLACE))
    rows = await store.preferences(call.database, call.workspace.tenant_id, behind, asked.limit + 1, topic=asked.topic)
    return Done(models.Preferences(*page(rows, asked.limit, models.WholePreference, _end(TOPICS_NOUN, _TOPICS_PLACE))))


@endpoint(
    "POST",
    "/topics/subscribe",
    Right.SUPPRESSIONS,
    given=models.Prefer,
    example=_NEWS,
    answered=models.PREFERRED_TOPICS,
    large=True,
)
async def subscribe_to_topic(call: Call) -> Done:
    """Let addresses get a topic again."""
    return await _prefer(call, subscribed=True)


@endpoint(
    "POST",
    "/topics/unsubscribe",
    Right.SUPPRESSIONS,
    given=models.Prefer,
    example=_NEWS,
    answered=models.PREFERRED_TOPICS,
    large=True,
)
async def unsubscribe_from_topic(call: Call) -> Done:
    """Send addresses nothing more about a topic."""
    return await _prefer(call, subscribed=False)


async def _prefer(call: Call, *, subscribed: bool) -> Done:
    said: models.Prefer = call.given
    meant = _addresses(said.addresses, said.kind)
    told = said.topic, subscribed, call.actor, said.reason
    await store.prefer(call.database, call.workspace.tenant_id, meant, *told)
    return Done(models.PreferredTopics([models.Preferred(one.text, one.kind, said.topic, subscribed) for one in meant]))


ENDPOINTS = (
    list_suppressions,
    add_suppressions,
    remove_suppressions,
    check_address,
    list_topic_preferences,
    subscribe_to_topic,
    unsubscribe_from_topic,
)
