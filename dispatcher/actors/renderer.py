"""The renderer: turns claimed deliveries into what they say, or into the reason why they say nothing."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec
from anyio.streams.memory import MemoryObjectReceiveStream

from dispatcher import faultpoints
from dispatcher.actors.streams import Inbox, Rendered
from dispatcher.domain.addresses import address
from dispatcher.domain.life import Claimed, Failed, Skipped
from dispatcher.domain.template import Renderer as Templates
from dispatcher.domain.unsubscribe import Links, Subscription
from dispatcher.errors import TemplateError
from dispatcher.metrics import Metrics

# Rendering holds the loop: after so many deliveries others get a turn.
TURN_MAX = 100
UNSUBSCRIBE_VARIABLE = "unsubscribe_url"

_decode_options = msgspec.json.Decoder(dict[str, Any]).decode
_NO_OPTIONS: Mapping[str, Any] = {}


class Renderer:
    """Renders batches in the order in which they were claimed and sends each to its lane."""

    def __init__(
        self,
        templates: Callable[[], Templates],
        send: Callable[[Sequence[Rendered]], None],
        inbox: Inbox,
        metrics: Metrics,
    ) -> None:
        self._templates = templates
        self._send = send
        self._inbox = inbox
        self._metrics = metrics
        # Where recipients can unsubscribe; None where that is not configured.
        self.links: Links | None = None

    async def run(self, batches: MemoryObjectReceiveStream[Sequence[Any]]) -> None:
        """Render until the claimer has closed its end."""
        async for batch in batches:
            for start in range(0, len(batch), TURN_MAX):
                with self._metrics.render_seconds.time():
                    rendered = self.run_once(batch[start : start + TURN_MAX])
                if faultpoints.ARMED:
                    faultpoints.passing("render.done")
                if rendered:
                    self._send(rendered)
                await asyncio.sleep(0)

    def run_once(self, batch: Sequence[Claimed]) -> list[Rendered]:
        """Render some deliveries of one lane; those that cannot be rendered have their result already."""
        render = self._templates().render
        rendered: list[Rendered] = []
        for item in batch:
            if item.expired:
                self._inbox.put(item, Skipped("expired"))
                continue
            try:
                options = _NO_OPTIONS if item.options == "{}" else _options(item.options)
                variables = item.variables
                if self.links is not None and (item.topic is not None or options.get("unsubscribe") is True):
                    variables, options = _unsubscribable(self.links, item, options)
                parts = render(item.template, variables)
            except TemplateError as fault:
                self._inbox.put(item, Failed(str(fault)))
                continue
            rendered.append(Rendered(item, parts, options))
        return rendered


def _unsubscribable(links: Links, item: Claimed, options: Mapping[str, Any]) -> tuple[str, Mapping[str, Any]]:
    """Variables and options of a mail with the link by which its recipient unsubscribes; what was given stays."""
    contact = address(item.channel, item.recipient)
    if contact.kind != "email":
        return item.variables, options
    url = links.url(Subscription(item.tenant_id, contact.kind, contact.text, item.topic))
    # Put first: where the key is there twice, the last one counts.
    rest = item.variables[1:]
    variables = f'{{"{UNSUBSCRIBE_VARIABLE}":"{url}"{"" if rest == "}" else ","}{rest}'
    return variables, {"list_unsubscribe": url} | dict(options)


def _options(text: str) -> Mapping[str, Any]:
    try:
        return _decode_options(text)
    except (msgspec.MsgspecError, RecursionError) as fault:
        raise TemplateError("options", f"cannot be read: {fault}") from fault
