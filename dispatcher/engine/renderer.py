"""The renderer: turns claimed deliveries into what they say, or into the reason why they say nothing."""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from typing import Any

import msgspec
from anyio.streams.memory import MemoryObjectReceiveStream

from dispatcher.base import fault_points
from dispatcher.base.errors import NeedsWorker, TemplateError
from dispatcher.base.loop_yielder import LoopYielder
from dispatcher.base.metrics import Metrics
from dispatcher.base.values.addresses import address
from dispatcher.engine.rules.life import STORED, Back, Claimed, Failed, Skipped
from dispatcher.engine.rules.unsubscribe_links import VARIABLE, Links, Subscription
from dispatcher.engine.streams import Inbox, Rendered
from dispatcher.liquid.template import Renderer as Templates
from dispatcher.liquid.template import Sources

# Rendering holds the loop: after so long others get a turn. One rendering may take twice as long.
TURN_SECONDS_MAX = 0.005
# Deliveries whose versions are loaded at once.
TURN_MAX = 100

Load = Callable[[Sequence[str]], Awaitable[Mapping[str, Sources]]]

_decode_options = msgspec.json.Decoder(dict[str, Any]).decode
_NO_OPTIONS: Mapping[str, Any] = {}


class Renderer:
    """Renders batches in the order in which they were claimed and sends each to its lane.

    `load` gives what stored versions say, however long Postgres takes. When `draining` is set nothing is waited for:
    what is not known goes back. What would hold the loop is left to `slow`.
    """

    def __init__(
        self,
        templates: Callable[[], Templates],
        load: Load,
        send: Callable[[Sequence[Rendered]], None],
        slow: Callable[[Claimed, str, Mapping[str, Any], Sources], None],
        inbox: Inbox,
        metrics: Metrics,
    ) -> None:
        self._templates = templates
        self._load = load
        self._send = send
        self._slow = slow
        self._inbox = inbox
        self._metrics = metrics
        self.draining = asyncio.Event()
        # Where recipients can unsubscribe; None where that is not configured.
        self.links: Links | None = None

    async def run(self, batches: MemoryObjectReceiveStream[Sequence[Any]]) -> None:
        """Render until the claimer has closed its end."""
        async for batch in batches:
            for start in range(0, len(batch), TURN_MAX):
                rendered = await self.run_once(batch[start : start + TURN_MAX])
                if fault_points.ARMED:
                    fault_points.passing("render.done")
                if rendered:
                    self._send(rendered)
                await asyncio.sleep(0)

    async def run_once(self, batch: Sequence[Claimed]) -> list[Rendered]:
        """Render some deliveries of one lane; those that cannot be rendered have their result already."""
        rendered: list[Rendered] = []
        rest = batch
        while rest:
            # A reload may put others in their place, which know nothing yet.
            templates = self._templates()
            stored = {item.template for item in rest if item.template.startswith(STORED)}
            asked = sorted(key for key in stored if not templates.has(key))
            loaded = await self._loaded(asked) if asked else {}
            if loaded is None:
                for item in rest:
                    self._inbox.put(item, Back(0.0, "draining"))
                break
            with self._metrics.render_seconds.time():
                rest = rest[self._render(templates, rest, stored, loaded, rendered) :]
            if rest:
                await asyncio.sleep(0)
        return rendered

    async def _loaded(self, keys: Sequence[str]) -> Mapping[str, Sources | None] | None:
        """What each of these stored versions says, if it exists; None where the drain begins before Postgres has
        answered."""
        loading = asyncio.ensure_future(self._load(keys))
        draining = asyncio.ensure_future(self.draining.wait())
        try:
            await asyncio.wait((loading, draining), return_when=asyncio.FIRST_COMPLETED)
            return {**dict.fromkeys(keys), **loading.result()} if loading.done() else None
        finally:
            loading.cancel()
            draining.cancel()

    def _render(
        self,
        templates: Templates,
        batch: Sequence[Claimed],
        stored: Collection[str],
        loaded: Mapping[str, Sources | None],
        rendered: list[Rendered],
    ) -> int:
        """Render until others are to have their turn, or until a version is missing that was known when the others were
        loaded, and had to make room for one of them; says how many are through."""
        breaks = LoopYielder(TURN_SECONDS_MAX)
        for through, item in enumerate(batch):
            if through and breaks.is_due():
                return through
            if item.expired:
                self._inbox.put(item, Skipped("expired"))
                continue
            key, variables, options = item.template, item.variables, _NO_OPTIONS
            try:
                if key in stored and not templates.has(key):
                    if key not in loaded:
                        return through
                    _learn(templates, key, loaded[key])
                if item.options != "{}":
                    options = _options(item.options)
                if self.links is not None and (item.topic is not None or options.get("unsubscribe") is True):
                    variables, options = _unsubscribable(self.links, item, options)
                parts = templates.render(key, variables)
            except NeedsWorker:
                self._slow(item, variables, options, templates.sources(key))
                continue
            except TemplateError as fault:
                self._inbox.put(item, Failed(str(fault)))
                continue
            rendered.append(Rendered(item, parts, options))
        return len(batch)


def _learn(templates: Templates, key: str, sources: Sources | None) -> None:
    if sources is None:
        raise TemplateError("template_name", "was not published, or its version does not exist")
    templates.add(key, sources)


def _unsubscribable(links: Links, item: Claimed, options: Mapping[str, Any]) -> tuple[str, Mapping[str, Any]]:
    """Variables and options of a mail with the link by which its recipient unsubscribes; what was given stays."""
    contact = address(item.channel, item.recipient)
    if contact.kind != "email":
        return item.variables, options
    url = links.url(Subscription(item.tenant_id, contact.kind, contact.text, item.topic))
    # Put first: where the key is there twice, the last one counts.
    rest = item.variables[1:]
    variables = f'{{"{VARIABLE}":"{url}"{"" if rest == "}" else ","}{rest}'
    return variables, {"list_unsubscribe": url} | dict(options)


def _options(text: str) -> Mapping[str, Any]:
    try:
        return _decode_options(text)
    except (msgspec.MsgspecError, RecursionError) as fault:
        raise TemplateError("options", f"cannot be read: {fault}") from fault
