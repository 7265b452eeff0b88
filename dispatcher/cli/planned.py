"""Planned messages: what the orders of a simulated run would become, rendered, and who would not get them."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Struct

from dispatcher.config import Config
from dispatcher.domain.addresses import address
from dispatcher.domain.life import STORED, Lane
from dispatcher.domain.locales import nearest
from dispatcher.domain.parts import in_order
from dispatcher.domain.plans.freezing import cut
from dispatcher.domain.plans.run import Order
from dispatcher.domain.plans.simulation import Step
from dispatcher.domain.template import Renderer
from dispatcher.domain.unsubscribe import VARIABLE, Links, Subscription
from dispatcher.errors import TemplateError
from dispatcher.store import barring, templates
from dispatcher.store.barring import Candidate
from dispatcher.store.database import Database
from dispatcher.store.templates import PUBLISHED, Found, Workspace

_encode = msgspec.json.Encoder().encode


class Message(Struct, frozen=True, kw_only=True):
    """One delivery that would be written, and what its provider would be given; or why it would not."""

    channel: str
    recipient: str
    template: str | None
    version: int | None
    locale: str | None
    parts: Mapping[str, str] = {}
    bytes: int = 0
    skipped: str | None = None
    error: str | None = None


class Stage(Struct, frozen=True):
    """A node that would be visited, with its messages."""

    step: Step
    messages: Sequence[Message]

    @property
    def fails(self) -> str | None:
        """Why it would fail: as a whole, or because none of its messages can be rendered."""
        errors = [one.error for one in self.messages if one.error is not None]
        return self.step.error or (errors[0] if errors and len(errors) == len(self.messages) else None)


class Rendering:
    """Renders orders as the dispatcher would, under one configuration."""

    def __init__(self, config: Config, workspace: Workspace, stored: Mapping[str, Found]) -> None:
        limits = config.limits
        self._renderer = Renderer(
            limits.template_bytes_max,
            limits.variables_bytes_max,
            limits.rendered_bytes_max,
            limits.templates_cached_max,
        )
        self._links = Links.of(config.unsubscribe.public_url, config.unsubscribe.secrets)
        self._workspace = workspace
        self._stored = stored

    def messages(self, order: Order) -> list[Message]:
        """What the recipients of an order would get."""
        found = self._stored.get(order.template) if order.template is not None else None
        if order.template is not None and (found is None or found.channel != order.channel):
            words = f"template: there is no published template {order.template} for {order.channel}"
            return [self._message(order, one, None, None, error=words) for one in order.recipients]
        try:
            locale, key, variables = self._source(order, found)
        except TemplateError as fault:
            return [self._message(order, one, found, None, error=str(fault)) for one in order.recipients]
        return [self._rendered(order, one, found, locale, key, variables) for one in order.recipients]

    def _source(self, order: Order, found: Found | None) -> tuple[str | None, str, Mapping[str, Any]]:
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
        found: Found | None,
        locale: str | None,
        key: str,
        variables: Mapping[str, Any],
    ) -> Message:
        try:
            values = _encode({**self._link(order, recipient), **variables}).decode()
            parts = self._renderer.render(key, values)
        except TemplateError as fault:
            return self._message(order, recipient, found, locale, error=str(fault))
        shown = {part: parts[part] for part in in_order(order.channel, parts)}
        return self._message(order, recipient, found, locale, parts=shown)

    def _link(self, order: Order, recipient: str) -> dict[str, str]:
        contact = address(order.channel, recipient)
        has_link = order.topic is not None or order.options.get("unsubscribe") is True
        if self._links is None or not has_link or contact.kind != "email":
            return {}
        one = Subscription(self._workspace.tenant_id, contact.kind, contact.text, order.topic)
        return {VARIABLE: self._links.url(one)}

    @staticmethod
    def _message(
        order: Order,
        recipient: str,
        found: Found | None,
        locale: str | None,
        parts: Mapping[str, str] | None = None,
        error: str | None = None,
    ) -> Message:
        return Message(
            channel=order.channel,
            recipient=recipient,
            template=order.template,
            version=None if found is None else found.number,
            locale=locale,
            parts=parts or {},
            bytes=sum(len(text.encode()) for text in (parts or {}).values()),
            error=error,
        )


async def stages(database: Database, config: Config, workspace: Workspace, steps: Sequence[Step]) -> list[Stage]:
    """The steps with their messages. It only reads."""
    orders = [step.order for step in steps if step.order is not None]
    names = sorted({order.template for order in orders if order.template is not None})
    stored = await templates.find(database, workspace, names, PUBLISHED) if names else {}
    rendering = Rendering(config, workspace, stored)
    made = [Stage(step, [] if step.order is None else rendering.messages(step.order)) for step in steps]
    why = await barring.reasons(database, _candidates(workspace, orders))
    found: list[Stage] = []
    number = 0
    for stage in made:
        messages = []
        for message in stage.messages:
            messages.append(msgspec.structs.replace(message, skipped=why.get(number)))
            number += 1
        found.append(Stage(stage.step, messages))
    return found


def _candidates(workspace: Workspace, orders: Sequence[Order]) -> list[Candidate]:
    """All messages as deliveries, numbered in their order."""
    every = [(order, recipient) for order in orders for recipient in order.recipients]
    return [
        Candidate(
            number,
            workspace.tenant_id,
            order.channel,
            Lane.NORMAL if order.lane is None else Lane(order.lane),
            recipient,
            order.topic,
        )
        for number, (order, recipient) in enumerate(every)
    ]
