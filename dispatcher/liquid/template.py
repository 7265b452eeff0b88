"""Rendering: python-liquid's dialect, strict about variables, compiled once per source and cached."""

import time
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any

import msgspec
from msgspec import Struct

from dispatcher.base.errors import NeedsWorker, TemplateError
from dispatcher.liquid.compiler.filters import filters_of
from dispatcher.liquid.language import BoundedEnvironment, Partials, count_nodes
from dispatcher.liquid.render_limits import WORKER_LIMITS, RenderLimits
from dispatcher.liquid.sources import (
    ESCAPED_PARTS,
    RAW_HTML,
    Fault,
    SourceReader,
    Sources,
    excess,
    faults,
    literal,
    parse,
    variables,
)
from dispatcher.liquid.template_part import RENDERED_BEFORE_COMPILED, Part, is_larger

__all__ = ["RAW_HTML", "Fault", "Renderer", "Sources", "faults", "literal", "variables"]

# Parsed nodes of all templates that are not compiled. Python's collector looks at seven objects of each, 3 us a node,
# in one go.
NODES_CACHED_MAX = 5_000
ROOM_SHARE = 0.75
COUNTED_MAX = 10_000
# A message has no more of them. Where there are more, the clock is looked at between them, which would cost a message a
# twentieth of its rendering; and none is compiled, since all of them would be in the same moment.
UNWATCHED_PARTS_MAX = 3

_decode_source = msgspec.json.Decoder(dict[str, str]).decode
_decode_object = msgspec.json.Decoder(dict[str, Any]).decode
_EMPTY: dict[str, Any] = {}


class _CachedTemplate:
    """A cached template: its parts, None where even parsing them is for the worker process."""

    def __init__(self, sources: Sources, parts: tuple[Part, ...] | None) -> None:
        self.sources = sources
        self.parts = parts
        # Its last rendering was too much for the event loop: the next one is not tried there.
        self.is_slow = parts is None

    @property
    def nodes(self) -> int:
        """How many parsed nodes are cached."""
        return sum(part.nodes_cached for part in self.parts or ())


class Bounds(Struct, frozen=True):
    """How large what goes in and comes out may be, and how many templates are cached."""

    template_bytes_max: int
    variables_bytes_max: int
    rendered_bytes_max: int
    templates_cached_max: int

    @classmethod
    def of(cls, limits: object) -> "Bounds":
        """The bounds of a configuration, which has them under the same names."""
        return msgspec.convert(limits, cls, from_attributes=True)


class Renderer:
    """Renders the parts of a template; what a source compiles to is cached, least used out first.

    On the event loop it raises NeedsWorker for what would take too long there.
    """

    def __init__(self, bounds: Bounds, limits: RenderLimits = WORKER_LIMITS) -> None:
        self.bounds = bounds
        self._limits = limits
        self._cached: OrderedDict[str, _CachedTemplate] = OrderedDict()
        self._nodes_cached = 0
        # How often those that had to make room are still to be rendered before they are compiled; by the hash of the
        # key, since a template is long.
        self._renderings_left: OrderedDict[int, int] = OrderedDict()
        # What was checked, with its fault.
        self._checked: dict[str, TemplateError | None] = {}
        self._reader = SourceReader()
        self._plain = BoundedEnvironment(autoescape=False, text_max=bounds.rendered_bytes_max, limits=limits)
        self._escaping = BoundedEnvironment(autoescape=True, text_max=bounds.rendered_bytes_max, limits=limits)
        self._filters = {one: filters_of(one) for one in (self._plain, self._escaping)}

    def render(self, source: str, variables: str) -> dict[str, str]:
        """Render every part of a template with `variables` (a JSON object).

        `source` is a JSON object of Liquid by part, or a key under which a version was added; one that was not, or
        was forgotten since, is refused like any text that is not JSON.
        """
        cached = self._cached.get(source)
        if cached is None:
            cached = self._cache(source, self._read(source))
        else:
            self._cached.move_to_end(source)
        parts = self.require_event_loop(source)
        values = _EMPTY if variables == "{}" else self._variables(variables)
        try:
            if len(parts) > UNWATCHED_PARTS_MAX:
                return _watched(parts, values, self._limits)
            return {part.name: part.render(values) for part in parts}
        except NeedsWorker:
            cached.is_slow = True
            raise

    def require_event_loop(self, key: str) -> tuple[Part, ...]:
        """The parts of a cached template; raises NeedsWorker where they would take too long here."""
        cached = self._cached[key]
        if cached.is_slow or cached.parts is None:
            raise NeedsWorker
        return cached.parts

    def sources(self, key: str) -> Sources:
        """The sources of a cached template."""
        return self._cached[key].sources

    def mark_quick(self, key: str) -> None:
        """The last rendering took the worker no longer than it would take here: the next one is tried here again."""
        cached = self._cached.get(key)
        if cached is not None:
            cached.is_slow = cached.parts is None

    def has(self, key: str) -> bool:
        """Whether a version is there to be rendered; what was rendered longest ago is forgotten when there are many."""
        return key in self._cached

    def add(self, key: str, sources: Sources) -> None:
        """Cache a version under a short key, which is not a JSON object; raises where a part does not parse."""
        if key.startswith("{"):
            raise ValueError(f"{key[:50]!r} looks like a template: use a short key")
        self.cache(key, sources)

    def cache(self, key: str, sources: Sources) -> None:
        """Cache a template under its source, or a version under its key; raises where a part does not parse."""
        for part, text in [*sources.parts.items(), *sources.partials.items()]:
            if is_larger(text, self.bounds.template_bytes_max):
                raise TemplateError(f"template.{part}", f"larger than {self.bounds.template_bytes_max} bytes")
        self._cache(key, sources)

    def check(self, source: str) -> None:
        """Raise unless a JSON object of Liquid by part can be rendered, given its variables. On the event loop,
        NeedsWorker has the template that takes too long there."""
        # Looking for every fault takes half a millisecond, and most deliveries say what others have said.
        if source not in self._checked:
            self.checked(source, self._fault(source))
        fault = self._checked[source]
        if fault is not None:
            raise TemplateError(fault.field, fault.reason)

    def checked(self, source: str, fault: TemplateError | None) -> None:
        """Remember what a check has found."""
        if len(self._checked) >= self.bounds.templates_cached_max:
            self._checked.clear()
        self._checked[source] = fault

    def _fault(self, source: str) -> TemplateError | None:
        try:
            sources = self._read(source)
            _require_few(sources)
            if self._parts(source, sources) is None:
                raise NeedsWorker(template=source)
        except TemplateError as fault:
            return fault
        for one in self._reader.faults(sources):
            return TemplateError(f"template.{one.part}", str(one))
        return None

    def _variables(self, variables: str) -> Mapping[str, Any]:
        if is_larger(variables, self.bounds.variables_bytes_max):
            raise TemplateError("variables", f"larger than {self.bounds.variables_bytes_max} bytes")
        try:
            return _decode_object(variables)
        except (msgspec.MsgspecError, RecursionError) as fault:
            raise TemplateError("variables", f"not a JSON object: {fault}") from fault

    def _read(self, source: str) -> Sources:
        if is_larger(source, self.bounds.template_bytes_max):
            raise TemplateError("template", f"larger than {self.bounds.template_bytes_max} bytes")
        try:
            return Sources(_decode_source(source))
        except msgspec.MsgspecError as fault:
            raise TemplateError("template", f"not an object of texts: {fault}") from fault

    def _cache(self, key: str, sources: Sources) -> _CachedTemplate:
        _require_few(sources)
        self._cached[key] = cached = _CachedTemplate(sources, self._parts(key, sources))
        self._nodes_cached += cached.nodes
        self._make_room()
        return cached

    def _make_room(self) -> None:
        """Forget what was used least lately, where there is more than may be cached."""
        if len(self._cached) > self.bounds.templates_cached_max:
            self._forget(next(iter(self._cached)))
        if self._nodes_cached <= NODES_CACHED_MAX:
            return
        # The nodes of what was compiled meanwhile are gone.
        self._nodes_cached = sum(one.nodes for one in self._cached.values())
        for key in list(self._cached)[:-1]:
            if self._nodes_cached <= NODES_CACHED_MAX * ROOM_SHARE:
                break
            if self._cached[key].nodes > len(self._cached[key].parts or ()):
                self._nodes_cached -= self._cached[key].nodes
                self._forget(key)

    def _forget(self, key: str) -> None:
        left = [part.renderings_left for part in self._cached.pop(key).parts or ()]
        self._renderings_left[hash(key)] = min(left, default=0)
        if len(self._renderings_left) > COUNTED_MAX:
            self._renderings_left.popitem(last=False)

    def _parts(self, key: str, sources: Sources) -> tuple[Part, ...] | None:
        """A version, parsed; None where that takes too long here."""
        texts = [*sources.parts.values(), *sources.partials.values()]
        if sum(map(count_nodes, texts)) > self._limits.nodes_max:
            return None
        partials = {one: Partials(sources.partials) for one in (self._plain, self._escaping)}
        left = self._renderings_left.get(hash(key), RENDERED_BEFORE_COMPILED)
        parts = []
        for part, text in sources.parts.items():
            environment = self._escaping if part in ESCAPED_PARTS else self._plain
            around = environment, self._filters[environment], partials[environment]
            parse_it = partial(parse, part, text, environment, sources, partials[environment])
            made = Part(part, parse_it, *around, left if len(sources.parts) <= UNWATCHED_PARTS_MAX else 0)
            if made.nodes > self._limits.nodes_max:
                return None
            parts.append(made)
        return tuple(parts)


def _require_few(sources: Sources) -> None:
    if (many := excess(sources)) is not None:
        raise TemplateError(f"template.{many.part}", many.words)


def _watched(parts: Iterable[Part], values: Mapping[str, Any], limits: RenderLimits) -> dict[str, str]:
    """The texts of many parts, within the time limit of one."""
    began, texts = time.thread_time(), dict[str, str]()
    for part in parts:
        if time.thread_time() - began > limits.cpu_seconds:
            if limits.on_event_loop:
                raise NeedsWorker
            raise TemplateError(f"template.{part.name}", "work limit reached, with the parts before it")
        texts[part.name] = part.render(values)
    return texts
