"""Frequency caps, and which deliveries count for them."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from msgspec import Struct

from dispatcher.base.errors import Fault, did_you_mean, quoted
from dispatcher.base.values.addresses import address
from dispatcher.base.values.durations import DURATION_WORDS, duration, format_duration, has_months
from dispatcher.engine.rules.life import Claimed, Lane

MESSAGES_MAX = 100
# A message leaves some seconds after its mark: shorter periods would say nothing.
PERIOD_SECONDS_MIN = 60
PERIOD_SECONDS_MAX = 366 * 86_400
CHANNELS_MAX = 100
TOPICS_MAX = 100
# Of a workspace; put_cap of the schema has the same.
CAPS_MAX = 20
# They call functions and endpoints, and write to nobody.
_NOT_FOR_PEOPLE = ("http", "webhook")
# The kinds of contact addresses that are compared as written.
_BY_CHANNEL = frozenset({"push", "chat", "social"})


class Cap(Struct, frozen=True):
    """The deliveries that a cap is about: by channel, and by topic where it names any."""

    id: int
    channels: frozenset[str]
    topics: frozenset[str] = frozenset()

    def counts(self, item: Claimed) -> bool:
        """Return whether a delivery counts."""
        return item.channel in self.channels and (not self.topics or item.topic in self.topics)


class Requests(Struct, frozen=True, gc=False):
    """The places that a batch asks for, by column. Each group (a cap, and a kind of addresses) asks for the deliveries
    and their addresses from `firsts` to `lasts`, counted from 1: several caps share them."""

    caps: list[int]
    kinds: list[str]
    firsts: list[int]
    lasts: list[int]
    deliveries: list[int]
    addresses: list[str]


# By tenant and workspace.
Caps = Mapping[tuple[str, str], Sequence[Cap]]


def requests(caps: Caps, batch: Sequence[Claimed]) -> Requests | None:
    """Return the places that a batch, all of one lane, asks for; None for none. Transactional messages are exempt."""
    if batch[0].lane is Lane.TRANSACTIONAL:
        return None
    if not caps.keys() & {(item.tenant_id, item.workspace_id) for item in batch}:
        return None
    # By what they are about, then by the kind of their addresses: most deliveries of a batch are about the same.
    known: dict[tuple[str, str, str, str | None], tuple[Sequence[int], dict[str, tuple[list[int], list[str]]]]] = {}
    for item in batch:
        about = item.tenant_id, item.workspace_id, item.channel, item.topic
        if (found := known.get(about)) is None:
            found = known[about] = [cap.id for cap in caps.get(about[:2], ()) if cap.counts(item)], {}
        counting, asked = found
        if counting:
            kind, text = kind_of(item.channel, item.recipient)
            if (columns := asked.get(kind)) is None:
                columns = asked[kind] = [], []
            columns[0].append(item.id)
            columns[1].append(text)
    return _by_column(known.values())


def _by_column(found: Iterable[tuple[Sequence[int], Mapping[str, tuple[list[int], list[str]]]]]) -> Requests | None:
    places = Requests([], [], [], [], [], [])
    for counting, asked in found:
        for kind, (deliveries, addresses) in asked.items():
            first = len(places.deliveries) + 1
            places.deliveries.extend(deliveries)
            places.addresses.extend(addresses)
            for cap in counting:
                places.caps.append(cap)
                places.kinds.append(kind)
                places.firsts.append(first)
                places.lasts.append(len(places.deliveries))
    return places if places.caps else None


def kind_of(channel: str, recipient: str) -> tuple[str, str]:
    """Return the kind and the form of a recipient's address, as contacts have them."""
    one = address(channel, recipient)
    return (channel if one.kind == "other" and channel in _BY_CHANNEL else one.kind), one.text


def kinds_of(kind: str) -> tuple[str, ...]:
    """Return the kinds under which addresses of this kind are counted."""
    return ("other", *sorted(_BY_CHANNEL)) if kind == "other" else (kind,)


def faults(messages: int, period: str, channels: Sequence[str], configured: Collection[str]) -> Iterator[Fault]:
    """Yield the faults of a cap, with the channels that are configured."""
    if not 1 <= messages <= MESSAGES_MAX:
        yield Fault("$.messages", f"{messages} is out of bounds: expected 1 to {MESSAGES_MAX}")
    seconds = duration(period)
    if seconds is None:
        words = "has years or months, whose length varies: use days" if has_months(period) else "is not a duration"
        yield Fault("$.period", f"{quoted(period)} {words}; expected {DURATION_WORDS}")
    elif not PERIOD_SECONDS_MIN <= seconds <= PERIOD_SECONDS_MAX or seconds % 1:
        bounds = f"{format_duration(PERIOD_SECONDS_MIN)} to {format_duration(PERIOD_SECONDS_MAX)}"
        yield Fault("$.period", f"{quoted(period)} is out of bounds: expected {bounds}, in whole seconds")
    known = sorted(set(configured) - set(_NOT_FOR_PEOPLE))
    for number, channel in enumerate(channels):
        if channel not in known:
            hint = did_you_mean(channel, known)
            words = f"unknown channel {quoted(channel)}{hint}; known are {', '.join(known)}"
            yield Fault(f"$.channels[{number}]", words)
