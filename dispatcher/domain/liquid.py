"""Liquid within bounds: python-liquid's dialect without its clock, and with a budget for what one rendering may do.

The library bounds a nest of loops, but not one loop after another, and neither what a filter makes nor how often one is
called. Each bound here stops a bomb that passed the library's own.
"""

from collections.abc import Callable, Mapping
from functools import wraps
from typing import Any

from liquid import Environment, RenderContext, StrictUndefined
from liquid.exceptions import FilterArgumentError, LiquidError, LoopIterationLimitError
from liquid.template import BoundTemplate
from liquid.utils.chain_map import ReadOnlyChainMap

# Iterations of all loops of one rendering together, and less of them the more stands in the template: about so many
# nodes are rendered at the most.
LOOP_ITERATIONS_MAX = 20_000
NODES_RENDERED_MAX = 200_000
FILTER_CALLS_MAX = 20_000
# Nesting of scopes, and of blocks in the source.
CONTEXT_DEPTH_MAX = 20
BLOCK_DEPTH_MAX = 50
# What a filter may be given or make, beside texts, which may be as long as the output.
ITEMS_MAX = 100_000
NUMBER_BITS_MAX = 4_096
CLOCK_WORDS = ("now", "today")


class WorkLimitError(LiquidError):
    """A template did more than one rendering may do."""

    def __init__(self, what: str) -> None:
        super().__init__(what, token=None)


class Work:
    """What one rendering has left of its budget."""

    def __init__(self) -> None:
        self.iterations = 0
        self.filters = 0

    def begin(self, nodes: int) -> None:
        """A template of so many nodes is about to be rendered."""
        self.iterations = min(LOOP_ITERATIONS_MAX, NODES_RENDERED_MAX // max(nodes, 1))
        self.filters = FILTER_CALLS_MAX

    def loop(self, length: int) -> None:
        """A loop is about to begin."""
        self.iterations -= length
        if self.iterations < 0:
            raise LoopIterationLimitError("loop iteration limit reached, all loops together", token=None)

    def filter(self) -> None:
        """A filter is about to be called."""
        self.filters -= 1
        if self.filters < 0:
            raise WorkLimitError("filter call limit reached")


class _Context(RenderContext):
    """A context that counts all loops, and in which `now` and `today` are ordinary names: a retry renders the same."""

    def __init__(self, template: BoundTemplate, **options: Any) -> None:  # noqa: ANN401 - the library's own
        super().__init__(template, **options)
        self.scope = ReadOnlyChainMap(self.locals, self.globals, self.counters)

    def raise_for_loop_limit(self, length: int = 1) -> None:
        environment = self.env
        if isinstance(environment, BoundedEnvironment):
            environment.work.loop(length)
        super().raise_for_loop_limit(length)


class _Template(BoundTemplate):
    """A template that is rendered in our context."""

    context_class = _Context


class BoundedEnvironment(Environment):
    """Parses and renders within the bounds above. One rendering at a time: the budget is the environment's."""

    template_class = _Template
    loop_iteration_limit = LOOP_ITERATIONS_MAX
    context_depth_limit = CONTEXT_DEPTH_MAX
    block_nesting_limit = BLOCK_DEPTH_MAX

    def __init__(self, *, autoescape: bool, text_max: int) -> None:
        super().__init__(undefined=StrictUndefined, autoescape=autoescape)
        self.work = Work()
        self.text_max = text_max
        # The library declares it for classes; an instance's own is read just as well.
        setattr(self, "output_stream_limit", text_max)  # noqa: B010 - what is assigned plainly is refused by the types
        self.filters = {name: self._bounded(name, call) for name, call in self.filters.items()}

    def run(self, template: BoundTemplate, nodes: int, variables: Mapping[str, Any]) -> str:
        """Render a template of about so many nodes."""
        self.work.begin(nodes)
        return template.render(variables)

    def _bounded(self, name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(call)
        def within(*given: Any, **options: Any) -> Any:  # noqa: ANN401 - whatever a template has
            self.work.filter()
            for value in given:
                self._measure(name, value)
            _refuse_clock(name, given)
            if self._would_make(name, given) > self.text_max:
                raise WorkLimitError(f"{name}: makes more than {self.text_max} characters")
            made = call(*given, **options)
            self._measure(name, made)
            return made

        return within

    def _measure(self, name: str, value: object) -> None:
        if isinstance(value, str):
            if len(value) > self.text_max:
                raise WorkLimitError(f"{name}: a text of more than {self.text_max} characters")
        elif isinstance(value, int):
            if value.bit_length() > NUMBER_BITS_MAX:
                raise WorkLimitError(f"{name}: a number of more than {NUMBER_BITS_MAX} bits")
        elif isinstance(value, list | tuple | range) and len(value) > ITEMS_MAX:
            raise WorkLimitError(f"{name}: a list of more than {ITEMS_MAX} items")

    def _would_make(self, name: str, given: tuple[Any, ...]) -> int:
        """How long a text these filters would make: the only ones whose result is a product of what they are given."""
        match name, given:
            case "replace", (str(text), str(old), str(new)):
                return len(text) + max(text.count(old), 1) * max(len(new) - len(old), 0)
            case "join", (list(items), str(separator)):
                return len(items) * len(separator)
            case _:
                return 0


def _refuse_clock(name: str, given: tuple[Any, ...]) -> None:
    if name == "date" and given and given[0] in CLOCK_WORDS:
        raise FilterArgumentError(
            "date: a template does not read the clock, a retry would send another text", token=None
        )


def count_nodes(source: str) -> int:
    """About how many nodes a template has: tags, outputs, filters, and the lines of a `liquid` tag."""
    lines = source.count("\n") if "liquid" in source else 0
    return 1 + source.count("{%") + source.count("{{") + source.count("|") + lines
