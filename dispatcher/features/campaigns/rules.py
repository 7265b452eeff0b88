"""Campaigns: faults of a definition, the messages of a sample, and how long sending takes."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct

from dispatcher.base.errors import Fault, did_you_mean, quoted
from dispatcher.base.values.time_zones import zone_fault
from dispatcher.engine.rules.life import Lane
from dispatcher.engine.rules.unsubscribe_links import VARIABLE, Links
from dispatcher.liquid.render_limits import render_limits
from dispatcher.liquid.template import Bounds, Renderer
from dispatcher.plans.simulation.planned import CpuBudget, PlannedMessage, Rendering, TemplateVersion
from dispatcher.plans.walk.run import Order
from dispatcher.plans.walk.used_variables import path_of

# Each message has its contact under this name.
CONTACT = "contact"
# They call functions and endpoints, and write to nobody.
_NOT_FOR_CONTACTS = ("http", "webhook")


class Window(Struct, frozen=True):
    """When it may send: from an hour to another, on the clocks of a time zone."""

    opens: str
    closes: str
    time_zone: str


class Definition(Struct, frozen=True, kw_only=True):
    """The fields of a campaign that are checked without the database."""

    channel: str
    variables: Collection[str]
    window: Window | None


def faults(given: Definition, channels: Collection[str]) -> Iterator[Fault]:
    """Yield the faults of a definition, with the channels that are configured."""
    known = sorted(set(channels) - set(_NOT_FOR_CONTACTS))
    if given.channel not in known:
        hint = did_you_mean(given.channel, known)
        yield Fault("$.channel", f"unknown channel {quoted(given.channel)}{hint}; known are {', '.join(known)}")
    if CONTACT in given.variables:
        words = "is the contact that each message is for: choose another name"
        yield Fault(f"$.variables.{CONTACT}", words)
    if given.window is not None:
        if given.window.opens >= given.window.closes:
            words = (
                f"{given.window.closes} is not after {given.window.opens}: a window ends on the day on which it begins"
            )
            yield Fault("$.send_window.to", words)
        if (words_of_zone := zone_fault(given.window.time_zone)) is not None:
            yield Fault("$.send_window.time_zone", words_of_zone)


class Reads(Struct, frozen=True):
    """What a template reads: of a contact by paths (without `contact`), and what nobody gives."""

    names: list[str]
    paths: list[list[str]]
    nowhere: list[str]


def reads(variables: Sequence[str], given: Mapping[str, Any]) -> Reads:
    """Return what a template reads beside the variables of its campaign."""
    found = Reads([], [], [])
    for name in variables:
        first, *rest = map(str, path_of(name))
        if first == CONTACT:
            found.names.append(name)
            found.paths.append(rest)
        elif first != VARIABLE and not _has(given, [first, *rest]):
            found.nowhere.append(name)
    return found


def _has(given: Any, path: Sequence[str]) -> bool:  # noqa: ANN401 - JSON
    for name in path:
        if isinstance(given, list):
            if not (name.lstrip("-").isdecimal() and -len(given) <= int(name) < len(given)):
                return False
            given = given[int(name)]
        elif isinstance(given, dict) and name in given:
            given = given[name]
        else:
            return False
    return True


class Recipient(Struct, frozen=True):
    """A contact of the sample, with the variables of its message."""

    key: str
    recipient: str
    locale: str | None
    variables: dict[str, Any]


class Content(Struct, frozen=True):
    """What all messages of a campaign have in common."""

    channel: str
    template: str
    lane: Lane
    topic: str | None


def messages(
    on_event_loop: bool,
    bounds: Bounds,
    links: Links | None,
    tenant_id: str,
    stored: Mapping[str, TemplateVersion],
    content: Content,
    sample: Sequence[Recipient],
) -> list[PlannedMessage]:
    """Return the messages of a sample. Raises NeedsWorker on the event loop, TriggerRefused where it takes too long."""
    renderer = Renderer(bounds, render_limits(on_event_loop=on_event_loop))
    rendering = Rendering(renderer, links, tenant_id, stored, CpuBudget(on_event_loop=on_event_loop))
    return [message for one in sample for message in rendering.messages(_order(content, one))]


def _order(content: Content, one: Recipient) -> Order:
    return Order(
        node="",
        channel=content.channel,
        recipients=(one.recipient,),
        template=content.template,
        parts=None,
        variables=one.variables,
        options={},
        attempts=1,
        locale=one.locale,
        topic=content.topic,
        lane=content.lane,
    )


def slowest(*rates: float | None) -> float | None:
    """Return the lowest of these rates; 0 and None are no limit. None: there is none."""
    return min((rate for rate in rates if rate), default=None)
