"""The sources of a template: what is wrong with them, every fault at once, and which variables they read."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

from liquid import Environment, RenderContext, Token, TokenStream
from liquid.ast import Node
from liquid.builtin.content import ContentNode
from liquid.builtin.expressions import StringLiteral
from liquid.builtin.tags.include_tag import IncludeNode
from liquid.builtin.tags.render_tag import RenderNode
from liquid.exceptions import LiquidError
from liquid.static_analysis import Variable
from liquid.template import BoundTemplate
from msgspec import Struct, field

from dispatcher.base.errors import TemplateError
from dispatcher.liquid.language import (
    NO_PARTIALS,
    NODES_MAX,
    BoundedEnvironment,
    Partials,
    WorkLimitError,
    count_nodes,
    refuse_bombs,
)
from dispatcher.liquid.render_limits import NODES_RENDERED_MAX

ESCAPED_PARTS = frozenset({"html"})
# What a template needs to put something out as it is where everything else is escaped, and the filters that do it.
RAW_HTML = "raw_html"
RAW_FILTERS = frozenset({"safe"})
_LEFT_BEHIND = re.compile(r"unexpected tag '(end\w+|else|elsif|when)'")
# A message has ten at most, a custom channel some more. Each takes 0.1 ms of the event loop.
PARTS_MAX = 100
# For what is only looked at and never rendered.
_TEXT_MAX = 1_048_576


class Sources(Struct, frozen=True):
    """A version of a template: Liquid by part, the partials that `render` and `include` may name, and its rights."""

    parts: Mapping[str, str]
    partials: Mapping[str, str] = field(default_factory=dict)
    rights: frozenset[str] = frozenset()


class Fault(Struct, frozen=True):
    """A flaw of a template. The part of a partial is `partials.NAME`; line 0 is the part as a whole."""

    part: str
    line: int
    words: str

    def __str__(self) -> str:
        return f"line {self.line}: {self.words}" if self.line else self.words


class Parsed(Struct, frozen=True):
    """A part as the library understands it, and about how many nodes one rendering of it has, loops aside."""

    template: BoundTemplate
    nodes: int


class SourceReader:
    """Finds the faults of versions, and of texts by themselves, one at a time. Making its environments takes 1 ms."""

    def __init__(self) -> None:
        self._environments: dict[bool, _Collecting] = {}
        self._read: dict[tuple[bool, str], tuple[list[Fault], tuple[Variable, ...]]] = {}

    def faults(self, sources: Sources) -> list[Fault]:
        """Every fault, part by part; a partial is read as if it stood in plain text."""
        if (many := excess(sources)) is not None:
            return [many]
        partials = Partials(sources.partials)
        texts = [*sources.parts.items(), *((f"partials.{name}", text) for name, text in sources.partials.items())]
        return [
            fault
            for part, text in texts
            for fault in _read(part, text, sources, partials, self._environment(part in ESCAPED_PARTS))[0]
        ]

    def read(self, part: str, text: str) -> tuple[list[Fault], tuple[Variable, ...]]:
        """The faults of a text without partials, and, where it has none, the variables that it reads. Cached."""
        key = part in ESCAPED_PARTS, text
        # Without a tag, and without what counts as one in any number.
        if key not in self._read and "{" not in text and "|" not in text:
            self._read[key] = [], ()
        elif key not in self._read:
            self._read[key] = self._faults_and_variables(part, text)
        return self._read[key]

    def _faults_and_variables(self, part: str, text: str) -> tuple[list[Fault], tuple[Variable, ...]]:
        try:
            found, template = _read(part, text, Sources({}), NO_PARTIALS, self._environment(part in ESCAPED_PARTS))
            return found, () if found or template is None else tuple(_globals(template))
        except Exception as fault:  # as in parsing
            return [Fault(part, 0, f"cannot be read: {type(fault).__name__}")], ()

    def _environment(self, escapes: bool) -> "_Collecting":
        if escapes not in self._environments:
            self._environments[escapes] = _Collecting(autoescape=escapes)
        return self._environments[escapes]


def excess(sources: Sources) -> Fault | None:
    """The exceeded limits of a version, all parts counted: many small ones take as long as a large one."""
    if len(sources.parts) > PARTS_MAX:
        part = next(islice(sources.parts, PARTS_MAX, None))
        return Fault(part, 0, f"is one of {len(sources.parts)} parts, over {PARTS_MAX}")
    nodes = 0
    for number, (part, text) in enumerate(sources.parts.items()):
        nodes += count_nodes(text)
        if number and nodes > NODES_MAX:
            return Fault(part, 0, f"has, with the parts before it, more than {NODES_MAX} tags, outputs and filters")
    return None


def faults(sources: Sources) -> list[Fault]:
    """Everything that is wrong with a version."""
    return SourceReader().faults(sources)


def variables(sources: Sources) -> tuple[str, ...]:
    """The paths that a version reads, sorted: `order.items`, `name`. Raises for a version with faults."""
    partials = Partials(sources.partials)
    read: set[str] = set()
    for part, text in sources.parts.items():
        environment = BoundedEnvironment(autoescape=False, text_max=_TEXT_MAX)
        environment.loader = partials
        parsed = parse(part, text, environment, sources, partials)
        try:
            read.update(map(str, _globals(parsed.template)))
        except LiquidError as fault:
            raise TemplateError(f"template.{part}", where(fault)) from fault
    return tuple(sorted(read))


def literal(text: str) -> str:
    """The text that a part has whatever its variables are: without outputs and blocks. Raises for one with faults."""
    if "{" not in text:
        return text
    environment = BoundedEnvironment(autoescape=False, text_max=_TEXT_MAX)
    template = parse("", text, environment, Sources({}), NO_PARTIALS).template
    return "".join(node.text for node in template.nodes if isinstance(node, ContentNode))


def _globals(template: BoundTemplate) -> Iterator[Variable]:
    """The variables that a template reads and does not assign."""
    for several in template.analyze().globals.values():
        yield from several


def parse(part: str, text: str, environment: BoundedEnvironment, sources: Sources, partials: Partials) -> Parsed:
    """Parse a part; raise a TemplateError with its first fault."""
    try:
        refuse_bombs(text)
        template = environment.from_string(text)
        nodes = _Weigher(environment, sources, partials).weigh(text, template.nodes)
        is_checked = environment.autoescape and RAW_HTML not in sources.rights
        raw = next(_raw_filters(part, _everything(template, environment, partials)), None) if is_checked else None
    except LiquidError as fault:
        raise TemplateError(f"template.{part}", f"does not parse: {where(fault)}") from fault
    except Exception as fault:
        # Numbers of thousands of digits, nesting beyond the stack: whatever it is, it is this template's fault.
        raise TemplateError(f"template.{part}", f"does not parse: {type(fault).__name__}") from fault
    if raw is not None:
        raise TemplateError(f"template.{part}", str(raw))
    return Parsed(template, nodes)


def where(fault: LiquidError) -> str:
    """The words of the library without its drawing of the source, and with the line that they are about."""
    return str(_fault("", fault))


def _fault(part: str, fault: LiquidError) -> Fault:
    return Fault(part, _line(fault.token), " ".join(str(fault.message).split()))


def _line(token: Token | None) -> int:
    try:
        position = LiquidError("", token=token).context()
    except ValueError:  # behind the end of the source
        position = None
    return position[0] if position else 0


class _Collecting(BoundedEnvironment):
    """An environment that collects faults instead of stopping at the first."""

    def __init__(self, *, autoescape: bool) -> None:
        super().__init__(autoescape=autoescape, text_max=_TEXT_MAX)
        self.collected: list[LiquidError] = []
        # The tags and outputs that are being read, each inside of the one before it.
        self._inside: list[Token] = []
        for tag in self.tags.values():
            setattr(tag, "get_node", self._tracked(tag.get_node))  # noqa: B010 - the types refuse a method plainly assigned

    def _tracked(self, get_node: Callable[[TokenStream], Node]) -> Callable[[TokenStream], Node]:
        def tracked(stream: TokenStream) -> Node:
            self._inside.append(stream.current)
            try:
                return get_node(stream)
            finally:
                self._inside.pop()

        return tracked

    def error(self, exc: type[LiquidError] | LiquidError, msg: str | None = None, token: Token | None = None) -> None:
        fault = exc if isinstance(exc, LiquidError) else exc(msg, token=token)
        fault.token = fault.token or token
        # The end of an expression has no place of its own.
        if self._inside and (fault.token is None or fault.token.start_index < 0):
            fault.token = self._inside[-1]
        # What an unreadable tag leaves behind is not another fault.
        if not (self.collected and _LEFT_BEHIND.match(str(fault.message))):
            self.collected.append(fault)


def _read(
    part: str, text: str, sources: Sources, partials: Partials, environment: _Collecting
) -> tuple[list[Fault], BoundTemplate | None]:
    """The faults of a part, and its template where it could be parsed."""
    environment.collected = []
    template: BoundTemplate | None = None
    try:
        refuse_bombs(text)
        template = environment.from_string(text)
    except LiquidError as fault:
        environment.collected.append(fault)
    except Exception as fault:  # as in parsing
        return [Fault(part, 0, f"does not parse: {type(fault).__name__}")], None
    nodes = template.nodes if template else []
    found = [_fault(part, one) for one in environment.collected]
    every = list(walk_nodes(nodes, environment))
    found += _unknown_filters(part, every, environment)
    found += _partial_faults(part, every, sources)
    if not found and (sources.partials or (environment.autoescape and RAW_HTML not in sources.rights)):
        found = _weight_faults(part, text, nodes, sources, partials)
    return found, template


def _weight_faults(part: str, text: str, nodes: Sequence[Node], sources: Sources, partials: Partials) -> list[Fault]:
    """The faults of a part with its partials."""
    escaping = BoundedEnvironment(autoescape=part in ESCAPED_PARTS, text_max=_TEXT_MAX)
    try:
        _Weigher(escaping, sources, partials).weigh(text, nodes)
    except LiquidError as fault:
        return [_fault(part, fault)]
    if not escaping.autoescape or RAW_HTML in sources.rights:
        return []
    return list(_raw_filters(part, _everything(escaping.from_string(text), escaping, Partials(sources.partials))))


def walk_nodes(nodes: Sequence[Node], environment: Environment) -> Iterator[Node]:
    """Every node, without those of partials."""
    context = RenderContext(environment.template_class(environment, []))
    waiting = list(reversed(nodes))
    while waiting:
        node = waiting.pop()
        yield node
        waiting.extend(reversed(list(node.children(context, include_partials=False))))


def _everything(template: BoundTemplate, environment: BoundedEnvironment, partials: Partials) -> Iterator[Node]:
    """Every node, those of partials too; a partial once."""
    seen: set[str] = set()
    waiting: list[Sequence[Node]] = [template.nodes]
    while waiting:
        for node in walk_nodes(waiting.pop(), environment):
            yield node
            name = partial_name(node)
            if name is not None and name in partials.templates and name not in seen:
                seen.add(name)
                waiting.append(partials.load(environment, name).nodes)


def partial_name(node: Node) -> str | None:
    """The name of the partial that a node renders, where it is a text in quotes."""
    is_named = isinstance(node, RenderNode | IncludeNode) and isinstance(node.name, StringLiteral)
    return node.name.value if is_named else None  # type: ignore[attr-defined]  # is_named says so


def _filters(nodes: Iterator[Node] | Sequence[Node]) -> Iterator[Any]:
    """Every filter that is called."""
    for node in nodes:
        expressions = list(node.expressions())
        while expressions:
            one = expressions.pop(0)
            yield from getattr(one, "filters", None) or ()
            expressions.extend(one.children())


def _raw_filters(part: str, nodes: Iterator[Node]) -> Iterator[Fault]:
    for one in _filters(nodes):
        if one.name in RAW_FILTERS:
            words = f"{one.name} puts out what is not escaped: it needs the right {RAW_HTML}"
            yield Fault(part, _line(one.token), words)


def _unknown_filters(part: str, nodes: Sequence[Node], environment: BoundedEnvironment) -> Iterator[Fault]:
    for one in _filters(nodes):
        if one.name not in environment.filters:
            yield Fault(part, _line(one.token), f"unknown filter '{one.name}'")


def _partial_faults(part: str, nodes: Sequence[Node], sources: Sources) -> Iterator[Fault]:
    for node in nodes:
        if isinstance(node, RenderNode | IncludeNode):
            name = partial_name(node)
            if name is None:
                yield Fault(part, _line(node.token), "a partial is named in quotes: which ones there are is frozen")
            elif name not in sources.partials:
                yield Fault(part, _line(node.token), f"there is no partial '{name}'")


class _Weigher:
    """Counts the nodes of a part with those of its partials, as often as they are rendered."""

    def __init__(self, environment: BoundedEnvironment, sources: Sources, partials: Partials) -> None:
        self._environment = environment
        self._texts = sources.partials
        self._partials = partials
        self._known: dict[str, int] = {}
        self._around: list[str] = []

    def weigh(self, text: str, nodes: Sequence[Node]) -> int:
        """About how many nodes are rendered, loops aside."""
        count = count_nodes(text)
        if not self._texts:
            return count
        for node in walk_nodes(nodes, self._environment):
            name = partial_name(node)
            if name is not None and name in self._texts:
                count += self._weigh_partial(name, node)
            if count > NODES_RENDERED_MAX:
                raise WorkLimitError(f"renders more than {NODES_RENDERED_MAX} tags and outputs")
        return count

    def _weigh_partial(self, name: str, node: Node) -> int:
        if name in self._around:
            raise LiquidError(f"the partial '{name}' renders itself", token=node.token)
        if name not in self._known:
            self._around.append(name)
            refuse_bombs(self._texts[name])
            partial = self._partials.load(self._environment, name)
            self._known[name] = self.weigh(self._texts[name], partial.nodes)
            self._around.pop()
        return self._known[name]
