"""Planned: what a trigger would come to, which is the steps of a simulated run with their messages, rendered."""

import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Annotated, Any, Protocol

import msgspec
from msgspec import Meta, Struct

from dispatcher.base.errors import Fault, NeedsWorker, TemplateError, TriggerRefused
from dispatcher.base.values.addresses import address
from dispatcher.base.values.locales import nearest
from dispatcher.engine.rules.life import STORED
from dispatcher.engine.rules.unsubscribe_links import VARIABLE, Links, Subscription
from dispatcher.liquid.pace import pace
from dispatcher.liquid.parts import in_order
from dispatcher.liquid.sources import Sources
from dispatcher.liquid.template import Bounds as Sizes
from dispatcher.liquid.template import Renderer
from dispatcher.plans.plan import Plan
from dispatcher.plans.simulation.simulation import Step, simulate
from dispatcher.plans.texts import Bounds
from dispatcher.plans.walk.run import Order
from dispatcher.plans.walk.used_variables import cut
from dispatcher.plans.walk.walkable import Watched

# Those of one node say the same, but for the link by which each recipient unsubscribes.
RENDERED_OF_NODE_MAX = 20
# What is shown of all messages together: it is one answer, and kept for a day where somebody may ask for it again.
SHOWN_BYTES_MAX = 4 * 1024 * 1024
# A run of a hundred mails takes a tenth of it; a template may take 40 ms, and a definition may have a thousand.
CPU_SECONDS_MAX = 2.0
HURRIED_SECONDS_MAX = 0.005

_encode = msgspec.json.Encoder().encode
_object = msgspec.json.Decoder(dict[str, Any]).decode


class PlannedMessage(Struct, frozen=True, kw_only=True):
    """One delivery that would be written, and what its provider would be given; or why it would not."""

    channel: str
    recipient: str
    template: str | None
    version: int | None
    locale: str | None
    parts: dict[str, str]
    bytes: Annotated[int, Meta(description="Of all parts.")]
    rendered: Annotated[bool, Meta(description="Of very many the first ones are; the others would say the same.")]
    skipped: Annotated[str | None, Meta(description="Why it would not be sent.")]
    error: Annotated[str | None, Meta(description="Why it cannot be rendered.")]


class PlannedStep(Struct, frozen=True, kw_only=True):
    """A node that would be visited; or, `skipped`, one that no branch leads to."""

    step: int
    node: str
    kind: str
    skipped: bool
    at: datetime
    until: Annotated[datetime | None, Meta(description="When it goes on, where that is later.")]
    leads_to: Sequence[str]
    assumed: Annotated[str | None, Meta(description="What is taken for granted.")]
    depends_on: Annotated[Sequence[str], Meta(description="Nodes whose results it reads, which are made up.")]
    error: str | None
    messages: Sequence[PlannedMessage]

    @property
    def fails(self) -> str | None:
        """Why it would fail: as a whole, or because none of its messages can be rendered."""
        tried = [one.error for one in self.messages if one.rendered]
        errors = [one for one in tried if one is not None]
        return self.error or (errors[0] if errors and len(errors) == len(tried) else None)


class PlannedRun(Struct, frozen=True, kw_only=True):
    """What a trigger would come to: a run, or the one that its key has started already."""

    workflow: str
    version: int
    duplicate_of: Annotated[int | None, Meta(description="The run that holds the key: nothing would be started.")]
    at: Annotated[datetime, Meta(description="When it would be triggered: now.")]
    fails_at: Annotated[str | None, Meta(description="The node that the run would fail at.")]
    steps: Sequence[PlannedStep]


def moment(seconds: float) -> datetime:
    """A time of a run, which has seconds since 1970."""
    return datetime.fromtimestamp(seconds, UTC)


def staged(step: Step, messages: Sequence[PlannedMessage]) -> PlannedStep:
    """A step with its messages."""
    return PlannedStep(
        step=step.step,
        node=step.node,
        kind=step.kind,
        skipped=step.is_skipped,
        at=moment(step.at),
        until=None if step.until is None else moment(step.until),
        leads_to=step.leads_to,
        assumed=step.assumed,
        depends_on=step.depends_on,
        error=step.error,
        messages=messages,
    )


def fails_at(plan: Plan, stages: Sequence[PlannedStep]) -> str | None:
    """The node that the run would fail at."""
    failing = (one.node for one in stages if one.fails is not None)
    return next((one for one in failing if plan.nodes[one].on_failure != "continue"), None)


class Effort:
    """What one part of planning a run may take of a processor's time; hurried, a part of that."""

    def __init__(self, seconds_max: float = CPU_SECONDS_MAX, *, hurried: bool = False) -> None:
        self._seconds_max = HURRIED_SECONDS_MAX if hurried else seconds_max
        self._hurried = hurried
        self._began = time.thread_time()

    def look(self) -> None:
        """Raise TriggerRefused where it has taken too long; hurried, NeedsWorker."""
        if time.thread_time() - self._began > self._seconds_max:
            if self._hurried:
                raise NeedsWorker
            words = f"to plan this run takes more than {self._seconds_max:g} s of a processor's time"
            raise TriggerRefused([Fault("$", words)], words)


class Stored(Protocol):
    """A version of a template, as far as it matters here."""

    @property
    def id(self) -> int: ...
    @property
    def channel(self) -> str | None: ...
    @property
    def version(self) -> int: ...
    @property
    def default_locale(self) -> str: ...
    @property
    def variables(self) -> Sequence[str]: ...
    @property
    def sources(self) -> Mapping[str, Sources]: ...


def simulated(
    hurried: bool, plan: Plan, given: str, now: float, assumed: Mapping[str, Mapping[str, Any]]
) -> list[Step]:
    """The steps of a run with this input, which is a JSON object."""
    effort = Effort(hurried=hurried)
    steps = simulate(Watched(plan, effort.look, Bounds(pace=pace(hurried=hurried))), _object(given), now, assumed)
    effort.look()
    return steps


def messages(
    hurried: bool,
    sizes: Sizes,
    links: Links | None,
    tenant_id: str,
    stored: Mapping[str, Stored],
    steps: Sequence[Step],
) -> list[list[PlannedMessage]]:
    """What the recipients of each step would get."""
    renderer = Renderer.of(sizes, pace(hurried=hurried))
    rendering = Rendering(renderer, links, tenant_id, stored, Effort(hurried=hurried))
    return [[] if step.order is None else rendering.messages(step.order) for step in steps]


class Rendering:
    """Renders orders as the dispatcher would: so many of each, and of all together so much as can be shown."""

    def __init__(
        self,
        renderer: Renderer,
        links: Links | None,
        tenant_id: str,
        stored: Mapping[str, Stored],
        effort: Effort | None = None,
    ) -> None:
        self._renderer = renderer
        self._links = links
        self._tenant_id = tenant_id
        self._stored = stored
        self._effort = effort or Effort()
        self._bytes_left = SHOWN_BYTES_MAX

    def messages(self, order: Order) -> list[PlannedMessage]:
        """What the recipients of an order would get."""
        found = self._stored.get(order.template) if order.template is not None else None
        if order.template is not None and (found is None or found.channel != order.channel):
            words = f"template: there is no published template {order.template} for {order.channel}"
            return [_message(order, one, None, None, error=words) for one in order.recipients]
        try:
            locale, key, variables = self._source(order, found)
        except TemplateError as fault:
            return [_message(order, one, found, None, error=str(fault)) for one in order.recipients]
        made: list[PlannedMessage] = []
        for number, one in enumerate(order.recipients):
            if number < RENDERED_OF_NODE_MAX and self._bytes_left > 0:
                self._effort.look()
                made.append(self._rendered(order, one, found, locale, key, variables))
                self._bytes_left -= made[-1].bytes
            else:
                made.append(_message(order, one, found, locale, rendered=False))
        return made

    def _source(self, order: Order, found: Stored | None) -> tuple[str | None, str, Mapping[str, Any]]:
        """The locale, what to render, and with which variables."""
        if found is None:
            return None, _encode(order.parts).decode(), order.variables
        locale = nearest(order.locale, found.sources, found.default_locale)
        key = f"{STORED}{found.id}:{locale}"
        if not self._renderer.has(key):
            self._renderer.add(key, found.sources[locale])
        return locale, key, cut(order.variables, found.variables)

    def _rendered(
        self,
        order: Order,
        recipient: str,
        found: Stored | None,
        locale: str | None,
        key: str,
        variables: Mapping[str, Any],
    ) -> PlannedMessage:
        try:
            values = _encode({**self._link(order, recipient), **variables}).decode()
            parts = self._renderer.render(key, values)
        except TemplateError as fault:
            return _message(order, recipient, found, locale, error=str(fault))
        shown = {part: parts[part] for part in in_order(order.channel, parts)}
        return _message(order, recipient, found, locale, parts=shown)

    def _link(self, order: Order, recipient: str) -> dict[str, str]:
        contact = address(order.channel, recipient)
        has_link = order.topic is not None or order.options.get("unsubscribe") is True
        if self._links is None or not has_link or contact.kind != "email":
            return {}
        one = Subscription(self._tenant_id, contact.kind, contact.text, order.topic)
        return {VARIABLE: self._links.url(one)}


def _message(
    order: Order,
    recipient: str,
    found: Stored | None,
    locale: str | None,
    *,
    parts: dict[str, str] | None = None,
    rendered: bool = True,
    error: str | None = None,
) -> PlannedMessage:
    return PlannedMessage(
        channel=order.channel,
        recipient=recipient,
        template=order.template,
        version=None if found is None else found.version,
        locale=locale,
        parts=parts or {},
        bytes=sum(len(text.encode()) for text in (parts or {}).values()),
        rendered=rendered,
        skipped=None,
        error=error,
    )
