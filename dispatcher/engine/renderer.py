"""The renderer: turns claimed deliveries into messages, or into the reason why there is none."""

import asyncio
import time
from collections import deque
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import suppress
from typing import Any

import anyio
import msgspec
from anyio.streams.memory import MemoryObjectReceiveStream

from dispatcher.base import fault_points
from dispatcher.base.errors import NeedsWorker, TemplateError
from dispatcher.base.loop_yielder import LoopYielder
from dispatcher.base.metrics import Metrics
from dispatcher.base.values.addresses import address
from dispatcher.engine.rules.life import STORED, Back, Claimed, Failed, Lane, Skipped
from dispatcher.engine.rules.unsubscribe_links import VARIABLE, Links, Subscription
from dispatcher.engine.streams import Inbox, Rendered, unless
from dispatcher.engine.tracing.traces import Traces
from dispatcher.liquid.template import Renderer as Templates
from dispatcher.liquid.template import Sources

# Rendering holds the loop, and yields after so long. One rendering may take twice as long.
HOLD_SECONDS_MAX = 0.005
# What is rendered of a lane in a turn is marked together.
TURN_SECONDS_MAX = 0.005
# Deliveries whose versions are loaded at once.
BATCH_MAX = 100

Load = Callable[[Sequence[str]], Awaitable[Mapping[str, Sources]]]

_decode_options = msgspec.json.Decoder(dict[str, Any]).decode
_NO_OPTIONS: Mapping[str, Any] = {}


class Renderer:
    """Renders batches of a lane in the order of their claims and sends each to its lane.

    `load` returns stored versions, and waits while Postgres is away. Once `draining` is set, deliveries whose versions
    are not loaded go back. `slow` takes what would hold the loop.
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
        # The links by which recipients unsubscribe; None where they are not configured.
        self.links: Links | None = None
        # None: nothing is traced.
        self.traces: Traces | None = None

    async def run(self, batches: MemoryObjectReceiveStream[Sequence[Any]]) -> None:
        """Render until the claimer has closed its end: some parts of each lane in turn, so that no lane waits for all
        that was claimed of another."""
        waiting: dict[Lane, deque[Sequence[Claimed]]] = {lane: deque() for lane in Lane}
        async for batch in batches:
            _queue(waiting, batch)
            while any(waiting.values()):
                for parts in waiting.values():
                    if parts:
                        await self._render_parts(parts, waiting, batches)

    async def _render_parts(
        self,
        parts: deque[Sequence[Claimed]],
        waiting: Mapping[Lane, deque[Sequence[Claimed]]],
        batches: MemoryObjectReceiveStream[Sequence[Any]],
    ) -> None:
        """Render parts of a channel's lane for a while, or until another lane waits, and hand them on together.

        One mark of a thousand costs less than ten.
        """
        end, channel = time.monotonic() + TURN_SECONDS_MAX, parts[0][0].channel
        rendered = await self._render_part(parts.popleft())
        # What is handed on together goes to one sender: never the deliveries of two channels.
        while parts and parts[0][0].channel == channel and time.monotonic() < end:
            await asyncio.sleep(0)
            _queue_waiting(waiting, batches)
            if any(other for other in waiting.values() if other is not parts):
                break
            rendered += await self._render_part(parts.popleft())
        if rendered:
            self._send(rendered)
        await asyncio.sleep(0)
        _queue_waiting(waiting, batches)

    async def _render_part(self, part: Sequence[Claimed]) -> list[Rendered]:
        began = 0.0 if self.traces is None else self.traces.now()
        rendered = await self.run_once(part)
        if self.traces is not None:
            self.traces.step("render", [one.item for one in rendered], began)
        if fault_points.ARMED:
            fault_points.passing("render.done")
        return rendered

    async def run_once(self, batch: Sequence[Claimed]) -> list[Rendered]:
        """Render some deliveries of one lane; those that cannot be rendered get their results here."""
        rendered: list[Rendered] = []
        rest = batch
        while rest:
            # Read in each round: a reload may have replaced them by empty ones.
            templates = self._templates()
            stored = {item.template for item in rest if item.template.startswith(STORED)}
            asked = sorted(key for key in stored if not templates.has(key))
            loaded = await unless(self.draining, self._load(asked)) if asked else {}
            if loaded is None:
                for item in rest:
                    self._inbox.put(item, Back(0.0, "draining"))
                break
            with self._metrics.render_seconds.time():
                versions = {**dict.fromkeys(asked), **loaded}
                rest = rest[self._render(templates, rest, stored, versions, rendered) :]
            if rest:
                await asyncio.sleep(0)
        return rendered

    def _render(
        self,
        templates: Templates,
        batch: Sequence[Claimed],
        stored: Collection[str],
        loaded: Mapping[str, Sources | None],
        rendered: list[Rendered],
    ) -> int:
        """Render until the loop must be yielded, or until a version is missing that was cached when the others were
        loaded, and had to make room for them; return the number that is done."""
        breaks = LoopYielder(HOLD_SECONDS_MAX)
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


def _queue(waiting: Mapping[Lane, deque[Sequence[Claimed]]], batch: Sequence[Claimed]) -> None:
    """Queue a batch, all of one lane, in parts."""
    waiting[batch[0].lane].extend(batch[start : start + BATCH_MAX] for start in range(0, len(batch), BATCH_MAX))


def _queue_waiting(
    waiting: Mapping[Lane, deque[Sequence[Claimed]]], batches: MemoryObjectReceiveStream[Sequence[Any]]
) -> None:
    with suppress(anyio.WouldBlock, anyio.EndOfStream):
        while True:
            _queue(waiting, batches.receive_nowait())


def _learn(templates: Templates, key: str, sources: Sources | None) -> None:
    if sources is None:
        raise TemplateError("template_name", "was not published, or its version does not exist")
    templates.add(key, sources)


def _unsubscribable(links: Links, item: Claimed, options: Mapping[str, Any]) -> tuple[str, Mapping[str, Any]]:
    """Return variables and options of a mail with its unsubscribe link; what was given stays."""
    contact = address(item.channel, item.recipient)
    if contact.kind != "email":
        return item.variables, options
    url = links.url(Subscription(item.tenant_id, contact.kind, contact.text, item.topic))
    # Put first: of a key that is there twice, the last value counts.
    rest = item.variables[1:]
    variables = f'{{"{VARIABLE}":"{url}"{"" if rest == "}" else ","}{rest}'
    return variables, {"list_unsubscribe": url} | dict(options)


def _options(text: str) -> Mapping[str, Any]:
    try:
        return _decode_options(text)
    except (msgspec.MsgspecError, RecursionError) as fault:
        raise TemplateError("options", f"cannot be read: {fault}") from fault
