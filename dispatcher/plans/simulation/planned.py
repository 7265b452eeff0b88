"""Planned: what a trigger would come to, which is the steps of a simulated_steps run with their messages, rendered."""

import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Annotated, Any, Protocol

import msgspec
from msgspec import Meta, Struct
from msgspec.structs import replace

from dispatcher.base.errors import Fault, NeedsWorker, TemplateError, TriggerRefused
from dispatcher.base.values.addresses import address
from dispatcher.base.values.locales import nearest
from dispatcher.base.values.sms_segments import Segments, segments_of
from dispatcher.engine.rules.life import STORED
from dispatcher.engine.rules.unsubscribe_links import VARIABLE, Links, Subscription
from dispatcher.liquid.parts import in_order
from dispatcher.liquid.render_limits import render_limits
from dispatcher.liquid.sources import Sources
from dispatcher.liquid.template import Bounds as Sizes
from dispatcher.liquid.template import Renderer
from dispatcher.plans.plan import Plan
from dispatcher.plans.simulation.simulation import Step, simulate
from dispatcher.plans.texts import Bounds
from dispatcher.plans.walk.run import Order
from dispatcher.plans.walk.used_variables import select_variables
from dispatcher.plans.walk.walkable import Walkable

# Messages of one node differ in the unsubscribe link only.
RENDERED_OF_NODE_MAX = 20
# All messages together: they are one answer, which is stored for a day for its idempotency key.
SHOWN_BYTES_MAX = 4 * 1024 * 1024
# A run of a hundred mails takes a tenth of it; a template may take 40 ms, and a definition may have a thousand.
CPU_SECONDS_MAX = 2.0
EVENT_LOOP_SECONDS_MAX = 0.005

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
    sms: Annotated[Segments | None, Meta(description="The segments of an SMS.")] = None


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
    """The run that a trigger would start, or the run that its key has started already."""

    workflow: str
    version: int
    duplicate_of: Annotated[int | None, Meta(description="The run that holds the key: nothing would be started.")]
    at: Annotated[datetime, Meta(description="When it would be triggered: now.")]
    fails_at: Annotated[str | None, Meta(description="The node that the run would fail at.")]
    steps: Sequence[PlannedStep]


def moment(seconds: float) -> datetime:
    """A time from the seconds since 1970 of a run."""
    return datetime.fromtimestamp(seconds, UTC)


def planned_step(step: Step, messages: Sequence[PlannedMessage]) -> PlannedStep:
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


def fails_at(plan: Plan, steps: Sequence[PlannedStep]) -> str | None:
    """The node that the run would fail at."""
    failing = (one.node for one in steps if one.fails is not None)
    return next((one for one in failing if plan.nodes[one].on_failure != "continue"), None)


class CpuBudget:
    """The CPU time of one part of a dry run; less on the event loop."""

    def __init__(self, seconds_max: float = CPU_SECONDS_MAX, *, on_event_loop: bool = False) -> None:
        self._seconds_max = EVENT_LOOP_SECONDS_MAX if on_event_loop else seconds_max
        self._on_event_loop = on_event_loop
        self._began = time.thread_time()

    def check(self) -> None:
        """Raise TriggerRefused where it has taken too long; on the event loop, NeedsWorker."""
        if time.thread_time() - self._began > self._seconds_max:
            if self._on_event_loop:
                raise NeedsWorker
            words = f"to plan this run takes more than {self._seconds_max:g} s of a processor's time"
            raise TriggerRefused([Fault("$", words)], words)


class TemplateVersion(Protocol):
    """A stored version of a template."""

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


def simulated_steps(
    on_event_loop: bool, plan: Plan, given: str, now: float, assumed: Mapping[str, Mapping[str, Any]]
) -> list[Step]:
    """The steps of a run with this input, which is a JSON object."""
    budget = CpuBudget(on_event_loop=on_event_loop)
    steps = simulate(
        Walkable(plan, Bounds(limits=render_limits(on_event_loop=on_event_loop)), on_node=budget.check),
        _object(given),
        now,
        assumed,
    )
    budget.check()
    return steps


def messages(
    on_event_loop: bool,
    sizes: Sizes,
    links: Links | None,
    tenant_id: str,
    stored: Mapping[str, TemplateVersion],
    steps: Sequence[Step],
) -> list[list[PlannedMessage]]:
    """The messages of each step."""
    renderer = Renderer(sizes, render_limits(on_event_loop=on_event_loop))
    rendering = Rendering(renderer, links, tenant_id, stored, CpuBudget(on_event_loop=on_event_loop))
    return [[] if step.order is None else rendering.messages(step.order) for step in steps]


class Rendering:
    """Renders orders as the dispatcher would, within RENDERED_OF_NODE_MAX and SHOWN_BYTES_MAX."""

    def __init__(
        self,
        renderer: Renderer,
        links: Links | None,
        tenant_id: str,
        stored: Mapping[str, TemplateVersion],
        budget: CpuBudget | None = None,
    ) -> None:
        self._renderer = renderer
        self._links = links
        self._tenant_id = tenant_id
        self._stored = stored
        self._budget = budget or CpuBudget()
        self._bytes_left = SHOWN_BYTES_MAX

    def messages(self, order: Order) -> list[PlannedMessage]:
        """The messages of an order, one for each recipient."""
        found = self._stored.get(order.template) if order.template is not None else None
        if order.template is not None and (found is None or found.channel != order.channel):
            words = f"template: there is no published template {order.template} for {order.channel}"
            return [_message(order, one, error=words) for one in order.recipients]
        version = None if found is None else found.version
        try:
            locale, key, variables = self._source(order, found)
        except TemplateError as fault:
            return [_message(order, one, version, error=str(fault)) for one in order.recipients]
        made: list[PlannedMessage] = []
        for number, one in enumerate(order.recipients):
            message = _message(order, one, version, locale)
            if number < RENDERED_OF_NODE_MAX and self._bytes_left > 0:
                self._budget.check()
                made.append(self._rendered(order, message, key, variables))
                self._bytes_left -= made[-1].bytes
            else:
                made.append(replace(message, rendered=False))
        return made

    def _source(self, order: Order, found: TemplateVersion | None) -> tuple[str | None, str, Mapping[str, Any]]:
        """The locale, the key or source to render, and its variables."""
        if found is None:
            return None, _encode(order.parts).decode(), order.variables
        locale = nearest(order.locale, found.sources, found.default_locale)
        key = f"{STORED}{found.id}:{locale}"
        if not self._renderer.has(key):
            self._renderer.add(key, found.sources[locale])
        return locale, key, select_variables(order.variables, found.variables)

    def _rendered(
        self, order: Order, message: PlannedMessage, key: str, variables: Mapping[str, Any]
    ) -> PlannedMessage:
        try:
            values = _encode({**self._link(order, message.recipient), **variables}).decode()
            parts = self._renderer.render(key, values)
        except TemplateError as fault:
            return replace(message, error=str(fault))
        shown = {part: parts[part] for part in in_order(order.channel, parts)}
        size = sum(len(text.encode()) for text in shown.values())
        return replace(message, parts=shown, bytes=size, sms=segments_of(order.channel, shown))

    def _link(self, order: Order, recipient: str) -> dict[str, str]:
        contact = address(order.channel, recipient)
        has_link = order.topic is not None or order.options.get("unsubscribe") is True
        if self._links is None or not has_link or contact.kind != "email":
            return {}
        one = Subscription(self._tenant_id, contact.kind, contact.text, order.topic)
        return {VARIABLE: self._links.url(one)}


def _message(
    order: Order, recipient: str, version: int | None = None, locale: str | None = None, error: str | None = None
) -> PlannedMessage:
    return PlannedMessage(
        channel=order.channel,
        recipient=recipient,
        template=order.template,
        version=version,
        locale=locale,
        parts={},
        bytes=0,
        rendered=True,
        skipped=None,
        error=error,
    )
