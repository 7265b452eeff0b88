"""Suppressions and topics over HTTP: who gets nothing more, or nothing more about something, and who said so.

They are a tenant's: what somebody wrote from one of its workspaces holds in all of them.
"""

from collections.abc import Callable, Sequence

import msgspec

from dispatcher.api import suppression_models as models
from dispatcher.api.cursors import after_texts, cursor_after_texts
from dispatcher.api.endpoints import Call, Done, Endpoint
from dispatcher.api.listing import Row, page
from dispatcher.api.problems import faulty
from dispatcher.api.reading import over
from dispatcher.domain.addresses import Address, Kind, given
from dispatcher.domain.life import LANES
from dispatcher.domain.roles import Right
from dispatcher.domain.suppression import Known, Suppression, barred, unknown_channel
from dispatcher.errors import Fault
from dispatcher.store import suppressions as store
from dispatcher.store.barring import Candidate
from dispatcher.store.suppressions import Entry

NOUN = "suppressions"
TOPICS_NOUN = "topics"
_PLACE = ("kind", "address", "channel", "source")
_TOPICS_PLACE = ("kind", "address", "topic")
# What one address has said about: nobody has so many topics.
TOPICS_MAX = 1_000


async def list_(call: Call) -> Done:
    """In the order of addresses."""
    asked: models.SuppressionQuery = call.query
    behind = after_texts(NOUN, asked.cursor, len(_PLACE))
    rows = await store.listed(
        call.database, call.workspace.tenant_id, behind, asked.limit + 1, source=asked.source, kind=asked.kind
    )
    return Done(models.Suppressions(*page(rows, asked.limit, models.Suppression, _end(NOUN, _PLACE))))


def _end(noun: str, place: Sequence[str]) -> Callable[[Row], str]:
    return lambda row: cursor_after_texts(noun, *(row[name] for name in place))


async def add(call: Call) -> Done:
    """Put addresses on the list, or say what that would do."""
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


async def remove(call: Call) -> Done:
    """Take addresses off the list."""
    said: models.RemoveSuppressions = call.given
    meant = _addresses(said.addresses, said.kind)
    told = meant, call.actor, said.reason
    gone = await store.release(call.database, call.workspace.tenant_id, *told, source=said.source, channel=said.channel)
    sources: dict[tuple[str, str], set[str]] = {}
    for row in gone:
        sources.setdefault((row["kind"], row["address"]), set()).add(row["source"])
    removed = [models.Removed(one.text, one.kind, sorted(sources.get((one.kind, one.text), ()))) for one in meant]
    return Done(models.RemovedSuppressions(removed))


async def check(call: Call) -> Done:
    """Whether something would be sent to an address now, and all that was ever said about it."""
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
    why = barred(Candidate(0, tenant, said.channel or "", LANES[said.lane], meant.text, said.topic), known)
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


async def topics(call: Call) -> Done:
    """In the order of addresses."""
    asked: models.TopicQuery = call.query
    behind = after_texts(TOPICS_NOUN, asked.cursor, len(_TOPICS_PLACE))
    rows = await store.preferences(call.database, call.workspace.tenant_id, behind, asked.limit + 1, topic=asked.topic)
    return Done(models.Preferences(*page(rows, asked.limit, models.WholePreference, _end(TOPICS_NOUN, _TOPICS_PLACE))))


def _preferring(operation: str, path: str, *, subscribed: bool, summary: str) -> Endpoint:
    async def prefer(call: Call) -> Done:
        said: models.Prefer = call.given
        meant = _addresses(said.addresses, said.kind)
        told = said.topic, subscribed, call.actor, said.reason
        await store.prefer(call.database, call.workspace.tenant_id, meant, *told)
        return Done(
            models.PreferredTopics([models.Preferred(one.text, one.kind, said.topic, subscribed) for one in meant])
        )

    return Endpoint(
        operation=operation,
        method="POST",
        path=path,
        right=Right.SUPPRESSIONS,
        summary=summary,
        given=models.Prefer,
        example={"topic": "news", "addresses": ["bob@example.org"], "reason": "asked by mail"},
        answer=models.PreferredTopics,
        handle=prefer,
        large=True,
    )


_TENANTS = "The list is the tenant's: it holds in all of its workspaces."

ENDPOINTS = (
    Endpoint(
        operation="listSuppressions",
        method="GET",
        path="/suppressions",
        right=Right.SUPPRESSIONS,
        summary="List addresses that get nothing more",
        description=_TENANTS,
        query=models.SuppressionQuery,
        answer=models.Suppressions,
        handle=list_,
    ),
    Endpoint(
        operation="addSuppressions",
        method="POST",
        path="/suppressions",
        right=Right.SUPPRESSIONS,
        summary="Send addresses nothing more, all of these or none",
        description=f"{_TENANTS} What is queued for them is skipped within a second or so, before it is sent. "
        "With `check` nothing is written.",
        given=models.AddSuppressions,
        example={"suppressions": [{"address": "bob@example.org"}], "reason": "asked by mail", "source": "complaint"},
        answer=models.AddedSuppressions,
        handle=add,
        large=True,
    ),
    Endpoint(
        operation="removeSuppressions",
        method="POST",
        path="/suppressions/remove",
        right=Right.SUPPRESSIONS,
        summary="Take addresses off the list, or only what one source said about them",
        description=f"{_TENANTS} What was skipped stays skipped.",
        given=models.RemoveSuppressions,
        example={"addresses": ["bob@example.org"], "reason": "a mistake"},
        answer=models.RemovedSuppressions,
        handle=remove,
        large=True,
    ),
    Endpoint(
        operation="checkAddress",
        method="POST",
        path="/suppressions/check",
        right=Right.SUPPRESSIONS,
        summary="Say whether something would be sent to an address now, and all that was ever said about it",
        description="A POST, so that no address stands in a URL, which others keep.",
        given=models.CheckAddress,
        example={"address": "bob@example.org", "channel": "email", "topic": "news"},
        answer=models.CheckedAddress,
        handle=check,
    ),
    Endpoint(
        operation="listTopicPreferences",
        method="GET",
        path="/topics",
        right=Right.SUPPRESSIONS,
        summary="List who subscribed to or unsubscribed from what",
        description=f"{_TENANTS} Who said nothing gets every topic.",
        query=models.TopicQuery,
        answer=models.Preferences,
        handle=topics,
    ),
    _preferring("subscribeToTopic", "/topics/subscribe", subscribed=True, summary="Let addresses get a topic again"),
    _preferring(
        "unsubscribeFromTopic",
        "/topics/unsubscribe",
        subscribed=False,
        summary="Send addresses nothing more about a topic",
    ),
)
