"""Rendering: python-liquid's dialect, strict about variables, compiled once per source and kept."""

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
from dispatcher.liquid.sources import ESCAPED_PARTS, RAW_HTML, Fault, Reader, Sources, excess, faults, parse, variables
from dispatcher.liquid.template_part import RENDERED_BEFORE_COMPILED, Part, is_larger

__all__ = ["RAW_HTML", "Fault", "Renderer", "Sources", "faults", "variables"]

# Nodes that are kept parsed, of all templates that are not compiled. Python's collector looks at seven objects of each,
# 3 us a node, in one go.
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
    """A template that is kept: its parts, None where even parsing them is for the worker process."""

    __slots__ = ("is_slow", "parts", "sources")

    def __init__(self, sources: Sources, parts: tuple[Part, ...] | None) -> None:
        self.sources = sources
        self.parts = parts
        # Its last rendering was too much for the event loop: the next one is not tried there.
        self.is_slow = parts is None

    @property
    def nodes(self) -> int:
        """How many parsed nodes are kept."""
        return sum(part.nodes_cached for part in self.parts or ())


class Bounds(Struct, frozen=True):
    """How large what goes in and comes out may be, and how many templates are cached."""

    template_bytes_max: int
    variables_bytes_max: int
    rendered_bytes_max: int
    templates_cached_max: int

    @classmethod
    def of(cls, limits: object) -> "Bounds":
        """Those of a configuration, which has them under the same names."""
        return msgspec.convert(limits, cls, from_attributes=True)


class Renderer:
    """Renders the parts of a template; what a source compiles to is kept, least used out first.

    Hurried, it raises NeedsWorker for what would take too long where it is.
    """

    def __init__(self, bounds: Bounds, limits: RenderLimits = WORKER_LIMITS) -> None:
        self.bounds = bounds
        self._limits = limits
        self._kept: OrderedDict[str, _CachedTemplate] = OrderedDict()
        self._nodes_cached = 0
        # How often those that had to make room are still to be rendered before they are compiled; by the hash of the
        # key, since a template is long.
        self._renderings_left: OrderedDict[int, int] = OrderedDict()
        # What was checked, with its fault.
        self._checked: dict[str, TemplateError | None] = {}
        self._reader = Reader()
        self._plain = BoundedEnvironment(autoescape=False, text_max=bounds.rendered_bytes_max, limits=limits)
        self._escaping = BoundedEnvironment(autoescape=True, text_max=bounds.rendered_bytes_max, limits=limits)
        self._filters = {one: filters_of(one) for one in (self._plain, self._escaping)}

    def render(self, source: str, variables: str) -> dict[str, str]:
        """Render every part of a template with `variables` (a JSON object).

        `source` is a JSON object of Liquid by part, or a key under which a version was added; one that was not, or
        was forgotten since, is refused like any text that is no JSON.
        """
        kept = self._kept.get(source)
        if kept is None:
            kept = self._keep(source, self._read(source))
        else:
            self._kept.move_to_end(source)
        parts = self.require_event_loop(source)
        values = _EMPTY if variables == "{}" else self._variables(variables)
        try:
            if len(parts) > UNWATCHED_PARTS_MAX:
                return _watched(parts, values, self._limits)
            return {part.name: part.render(values) for part in parts}
        except NeedsWorker:
            kept.is_slow = True
            raise

    def require_event_loop(self, key: str) -> tuple[Part, ...]:
        """The parts of a template that is kept; raises NeedsWorker where it is not for this place."""
        kept = self._kept[key]
        if kept.is_slow or kept.parts is None:
            raise NeedsWorker
        return kept.parts

    def sources(self, key: str) -> Sources:
        """What a template that is kept was made of."""
        return self._kept[key].sources

    def retry_on_event_loop(self, key: str) -> None:
        """The last rendering took the worker no longer than it would take here: the next one is tried here again."""
        kept = self._kept.get(key)
        if kept is not None:
            kept.is_slow = kept.parts is None

    def has(self, key: str) -> bool:
        """Whether a version is there to be rendered; what was rendered longest ago is forgotten when there are many."""
        return key in self._kept

    def add(self, key: str, sources: Sources) -> None:
        """Keep a version under a short key, which is no JSON object; raises where a part does not parse."""
        if key.startswith("{"):
            raise ValueError("a key that looks like a template")
        self.keep(key, sources)

    def keep(self, key: str, sources: Sources) -> None:
        """Keep a template under its source, or a version under its key; raises where a part does not parse."""
        for part, text in [*sources.parts.items(), *sources.partials.items()]:
            if is_larger(text, self.bounds.template_bytes_max):
                raise TemplateError(f"template.{part}", f"larger than {self.bounds.template_bytes_max} bytes")
        self._keep(key, sources)

    def check(self, source: str) -> None:
        """Raise unless a JSON object of Liquid by part can be rendered, given its variables. Hurried, NeedsWorker says
        which template is not for this place."""
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
        if len(variables) * 4 > self.bounds.variables_bytes_max and is_larger(
            variables, self.bounds.variables_bytes_max
        ):
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

    def _keep(self, key: str, sources: Sources) -> _CachedTemplate:
        _require_few(sources)
        self._kept[key] = kept = _CachedTemplate(sources, self._parts(key, sources))
        self._nodes_cached += kept.nodes
        self._make_room()
        return kept

    def _make_room(self) -> None:
        """Forget what was used least lately, where there is more than may be kept."""
        if len(self._kept) > self.bounds.templates_cached_max:
            self._forget(next(iter(self._kept)))
        if self._nodes_cached <= NODES_CACHED_MAX:
            return
        # What was compiled meanwhile is kept no more.
        self._nodes_cached = sum(one.nodes for one in self._kept.values())
        for key in list(self._kept)[:-1]:
            if self._nodes_cached <= NODES_CACHED_MAX * ROOM_SHARE:
                break
            if self._kept[key].nodes > len(self._kept[key].parts or ()):
                self._nodes_cached -= self._kept[key].nodes
                self._forget(key)

    def _forget(self, key: str) -> None:
        left = [part.renderings_left for part in self._kept.pop(key).parts or ()]
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
    """The texts of many parts, which have no more time together than one has."""
    began, texts = time.thread_time(), dict[str, str]()
    for part in parts:
        if time.thread_time() - began > limits.cpu_seconds:
            if limits.on_event_loop:
                raise NeedsWorker
            raise TemplateError(f"template.{part.name}", "work limit reached, with the parts before it")
        texts[part.name] = part.render(values)
    return texts
