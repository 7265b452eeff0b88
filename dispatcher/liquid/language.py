"""Liquid within bounds: python-liquid's dialect without its clock, and with a budget for what one rendering may do.

The library bounds a nest of loops, but not one loop after another, and neither what a filter makes nor how often one is
called. Each bound here stops a bomb that passed the library's own.
"""

import re
import time
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from functools import lru_cache, wraps
from io import StringIO
from typing import Any, TextIO

from dateutil.parser import ParserError  # type: ignore[import-untyped]  # as the library does
from dateutil.parser import parse as parse_date
from liquid import DictLoader, Environment, RenderContext, StrictUndefined, Token, TokenStream
from liquid.ast import BlockNode, Node
from liquid.builtin.expressions import LoopExpression
from liquid.builtin.tags.for_tag import ForNode, ForTag
from liquid.builtin.tags.tablerow_tag import TablerowNode, TablerowTag
from liquid.exceptions import FilterArgumentError, LiquidError, LoopIterationLimitError, OutputStreamLimitError
from liquid.template import BoundTemplate
from liquid.undefined import UNDEFINED
from liquid.utils.chain_map import ReadOnlyChainMap

from dispatcher.base.errors import NeedsWorker
from dispatcher.liquid.render_limits import (
    ITEMS_COMPARED_MAX,
    ITEMS_MAX,
    LOOP_ITERATIONS_MAX,
    WORKER_LIMITS,
    RenderLimits,
    iterations_max,
)

FILTER_CALLS_MAX = 20_000
# Nesting of scopes, and of blocks in the source.
CONTEXT_DEPTH_MAX = 20
BLOCK_DEPTH_MAX = 50
# What a filter may be given or make, beside texts, which may be as long as the output.
NUMBER_BITS_MAX = 4_096
# Longer texts are not dates.
DATE_CHARACTERS_MAX = 100
CLOCK_WORDS = ("now", "today")
# Two days that have nothing in common: what is the same on both was filled up from neither.
_ONE_DAY = datetime(2001, 1, 1)
_ANOTHER_DAY = datetime(2002, 2, 2)
# What a template may have, in the source: 5,000 nodes take the parser 50 ms.
NODES_MAX = 5_000
# For a raw block without an end the lexer reads to the end of the source, for each of them again.
UNCLOSED_MAX = 10
# The net under all of these: one look at the clock in so many steps, and so much of a processor's time for all of them.
# What is rendered in earnest takes a thousandth.
STEPS_PER_LOOK = 16


class WorkLimitError(LiquidError):
    """A template did more than one rendering may do."""

    def __init__(self, what: str) -> None:
        super().__init__(what, token=None)


class TimeLimitError(WorkLimitError):
    """A rendering took too much of a processor's time, in whatever way."""


class Work:
    """The remaining budget of one rendering."""

    def __init__(self, limits: RenderLimits = WORKER_LIMITS) -> None:
        self.limits = limits
        self.iterations = 0
        self.filters = 0
        self._steps = 0
        self._started = 0.0

    def begin(self, nodes: int) -> None:
        """A template of so many nodes is about to be rendered."""
        self.iterations = iterations_max(nodes, self.limits)
        self.filters = FILTER_CALLS_MAX
        self._steps = 0

    def step(self) -> None:
        """A variable is about to be read, or a loop's body to be rendered."""
        self._steps += 1
        if self._steps % STEPS_PER_LOOK == 0:
            self._look()

    def _look(self) -> None:
        now = time.thread_time()
        if self._steps == STEPS_PER_LOOK:
            self._started = now
        elif now - self._started > self.limits.cpu_seconds:
            if self.limits.on_event_loop:
                raise NeedsWorker
            raise TimeLimitError("work limit reached")

    def loop(self, length: int) -> None:
        """A loop is about to begin."""
        self.iterations -= length
        if self.iterations < 0:
            if self.limits.on_event_loop:
                raise NeedsWorker
            raise LoopIterationLimitError("loop iteration limit reached, all loops together", token=None)

    def filter(self) -> None:
        """A filter is about to be called."""
        self.step()
        self.filters -= 1
        if self.filters < 0:
            raise WorkLimitError("filter call limit reached")


class _Output(StringIO):
    """An output of limited size that keeps every character, as the library's output without a limit does.

    The library's limited output turns CR and CRLF into LF, and cannot count half of a surrogate pair.
    """

    def __init__(self, bytes_max: int) -> None:
        super().__init__()
        self.bytes_left = bytes_max

    def write(self, text: str, /) -> int:
        self.bytes_left -= len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))
        if self.bytes_left < 0:
            raise OutputStreamLimitError("output stream limit reached", token=None)
        return super().write(text)


class _Context(RenderContext):
    """A context that counts all loops, and in which `now` and `today` are ordinary names: a retry renders the same."""

    def __init__(self, template: BoundTemplate, **options: Any) -> None:  # noqa: ANN401 - the library's own
        super().__init__(template, **options)
        self.scope = ReadOnlyChainMap(self.locals, self.globals, self.counters)

    def get_buffer(self, buf: TextIO | None = None) -> StringIO:
        """The output of a block. What was written before the block counts too."""
        return _Output(buf.bytes_left) if isinstance(buf, _Output) else self.template._get_buffer()

    def raise_for_loop_limit(self, length: int = 1) -> None:
        _work(self).loop(length)
        super().raise_for_loop_limit(length)

    def get(self, path: list[object], *, token: Token | None, default: object = UNDEFINED) -> object:
        _work(self).step()
        return super().get(path, token=token, default=default)


def _work(context: RenderContext) -> "Work":
    environment = context.env
    return environment.work if isinstance(environment, BoundedEnvironment) else Work()


class _Body(BlockNode):
    """The body of a loop, counted."""

    __slots__ = ()

    def render_to_output(self, context: RenderContext, buffer: TextIO) -> int:
        _work(context).step()
        return super().render_to_output(context, buffer)


class _Loop(LoopExpression):
    """A loop's head that walks over no more items than there may be."""

    __slots__ = ()

    def _slice(
        self,
        it: Iterator[object],
        length: int,
        context: RenderContext,
        *,
        limit: int | None,
        offset: int | str | None,
    ) -> tuple[Iterator[object], int]:
        # The library steps over what an offset leaves out, and makes a list of what is reversed.
        start = offset if isinstance(offset, int) else length if offset else 0
        if min(length, start + (length if limit is None else limit)) > ITEMS_MAX:
            raise LoopIterationLimitError("loop iteration limit reached, all loops together", token=None)
        return super()._slice(it, length, context, limit=limit, offset=offset)


def _bound_loop(node: Node) -> Node:
    """The loop with its head and its body exchanged for the bounded ones."""
    if isinstance(node, ForNode | TablerowNode):
        head = node.expression
        node.expression = _Loop(
            head.token,
            head.identifier,
            head.iterable,
            limit=head.limit,
            offset=head.offset,
            reversed_=head.reversed,
            cols=head.cols,
        )
        node.block = _Body(node.block.token, node.block.nodes)
    return node


class _For(ForTag):
    def parse(self, stream: TokenStream) -> Node:
        return _bound_loop(super().parse(stream))


class _Tablerow(TablerowTag):
    def parse(self, stream: TokenStream) -> TablerowNode:
        node = super().parse(stream)
        _bound_loop(node)
        return node


class Partials(DictLoader):
    """The partials of one version, a closed set, each parsed once."""

    def __init__(self, texts: Mapping[str, str]) -> None:
        super().__init__(dict(texts))
        self._parsed: dict[str, BoundTemplate] = {}

    def load(self, env: Environment, name: str, **options: Any) -> BoundTemplate:  # noqa: ANN401 - the library's own
        parsed = self._parsed.get(name)
        if parsed is None:
            parsed = self._parsed[name] = super().load(env, name, **options)
        return parsed

    def forget(self) -> None:
        """Parse them again when they are asked for again."""
        self._parsed.clear()


NO_PARTIALS = Partials({})


class _Template(BoundTemplate):
    """A template that is rendered in our context, into our output."""

    context_class = _Context

    def _get_buffer(self) -> StringIO:
        limit = self.env.output_stream_limit
        return super()._get_buffer() if limit is None else _Output(limit)


class BoundedEnvironment(Environment):
    """Parses and renders within the bounds above. One rendering at a time: the budget is the environment's."""

    template_class = _Template
    loop_iteration_limit = LOOP_ITERATIONS_MAX
    context_depth_limit = CONTEXT_DEPTH_MAX
    block_nesting_limit = BLOCK_DEPTH_MAX

    def __init__(self, *, autoescape: bool, text_max: int, limits: RenderLimits = WORKER_LIMITS) -> None:
        super().__init__(undefined=StrictUndefined, autoescape=autoescape)
        self.work = Work(limits)
        self.text_max = text_max
        # The library declares it for classes; an instance's own is read just as well.
        setattr(self, "output_stream_limit", text_max)  # noqa: B010 - what is assigned plainly is refused by the types
        self.filters = {name: self._bounded(name, call) for name, call in self.filters.items()}
        self.add_tag(_For)
        self.add_tag(_Tablerow)

    def run(self, template: BoundTemplate, nodes: int, variables: Mapping[str, Any], partials: Partials) -> str:
        """Render a template of about so many nodes."""
        self.work.begin(nodes)
        self.loader = partials
        return template.render(variables)

    def _bounded(self, name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(call)
        def within(*given: Any, **options: Any) -> Any:  # noqa: ANN401 - whatever a template has
            self.work.filter()
            for value in given:
                self._measure(name, value)
            if name == "date":
                _refuse_clock(given)
            elif name == "uniq" and given and isinstance(given[0], list | range):
                self._refuse_comparing(len(given[0]))
            length = self._would_make(name, given)
            if length > self.text_max:
                raise WorkLimitError(f"{name}: makes more than {self.text_max} characters")
            self._require_worker(length, 0)
            made = call(*given, **options)
            self._measure(name, made)
            return made

        return within

    def _measure(self, name: str, value: object) -> None:
        if isinstance(value, str):
            if len(value) > self.text_max:
                raise WorkLimitError(f"{name}: a text of more than {self.text_max} characters")
            self._require_worker(len(value), 0)
        elif isinstance(value, int):
            if value.bit_length() > NUMBER_BITS_MAX:
                raise WorkLimitError(f"{name}: a number of more than {NUMBER_BITS_MAX} bits")
        elif isinstance(value, list | tuple | range):
            if len(value) > ITEMS_MAX:
                raise WorkLimitError(f"{name}: a list of more than {ITEMS_MAX} items")
            self._require_worker(0, len(value))

    def _refuse_comparing(self, items: int) -> None:
        if items > ITEMS_COMPARED_MAX:
            raise WorkLimitError(f"uniq: a list of more than {ITEMS_COMPARED_MAX} items")
        if items > self.work.limits.compared_max:
            raise NeedsWorker

    def _require_worker(self, characters: int, items: int) -> None:
        """Raise where one call of a filter would take too long here."""
        limits = self.work.limits
        if characters > limits.characters_max or items > limits.items_max:
            raise NeedsWorker

    def _would_make(self, name: str, given: tuple[Any, ...]) -> int:
        """The length of the text that `replace` or `join` would make: a product of the lengths of their arguments."""
        match name, given:
            case "replace", (str(text), str(old), str(new)):
                return len(text) + max(text.count(old), 1) * max(len(new) - len(old), 0)
            case "join", (list(items), str(separator)):
                return len(items) * len(separator)
            case _:
                return 0


def _refuse_clock(given: tuple[Any, ...]) -> None:
    """Refuse what would send another text when it is sent again."""
    if isinstance(given[0], str) and len(given[0]) > DATE_CHARACTERS_MAX:
        raise WorkLimitError(f"date: a text of more than {DATE_CHARACTERS_MAX} characters")
    if isinstance(given[0], str) and not _is_whole_date(given[0]):
        raise FilterArgumentError(
            "date: a template does not read the clock, a retry would send another text", token=None
        )
    if isinstance(given[0], float):
        # The library keeps what it made of the last few, and takes 1.0 and 1 for one.
        raise FilterArgumentError("date expected datetime.datetime, found float", token=None)


@lru_cache(maxsize=1_000)
def _is_whole_date(text: str) -> bool:
    """Whether the library, which fills up from today what a date leaves open, finds nothing to fill up."""
    if text in CLOCK_WORDS:
        return False
    try:
        return text.isdigit() or parse_date(text, default=_ONE_DAY) == parse_date(text, default=_ANOTHER_DAY)
    except (ParserError, OverflowError):
        return True  # and is left as it is, or refused in the library's words


def refuse_bombs(source: str) -> None:
    """Raise for a source that takes too long to parse."""
    if count_nodes(source) > NODES_MAX:
        raise WorkLimitError(f"more than {NODES_MAX} tags, outputs and filters")
    for kind in ("raw", "doc"):
        ends = [end.end() for end in re.finditer(rf"{{%-?\s*end{kind}\b", source)]
        opened = re.findall(rf"{{%-?\s*{kind}\b", source[ends[-1] if ends else 0 :])
        if len(opened) > UNCLOSED_MAX:
            raise WorkLimitError(f"{len(opened)} {kind} tags have no end")


def count_nodes(source: str) -> int:
    """About how many nodes a template has: tags, outputs, filters, and the lines of a `liquid` tag."""
    lines = source.count("\n") if "liquid" in source else 0
    return 1 + source.count("{%") + source.count("{{") + source.count("|") + lines
