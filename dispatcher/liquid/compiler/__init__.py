"""Templates as Python code: what python-liquid parsed becomes one function of the variables.

The function answers what the library would render, or raises. It never decides what a fault is: whatever it raises, the
library renders the part again, within its bounds, and either has the fault in its own words or another opinion. That is
why nothing here tells errors apart, and why it may count too much but never too little.
"""

import warnings
from collections.abc import Callable, Mapping
from typing import Any, Final

from liquid.exceptions import LiquidError
from liquid.template import BoundTemplate

from dispatcher.liquid.compiler.scopes import NotCompiled
from dispatcher.liquid.compiler.statements import Statements
from dispatcher.liquid.language import BoundedEnvironment, Partials

# Python's compiler takes some 60 µs a node, and blocks the event loop meanwhile.
NODES_COMPILED_MAX: Final = 500

Function = Callable[[Mapping[str, Any]], str]


def compiled(
    template: BoundTemplate,
    environment: BoundedEnvironment,
    filters: Mapping[str, Callable[..., Any]],
    partials: Partials,
    nodes: int,
) -> Function | None:
    """The function of a template of about so many nodes; None where it is left to the library."""
    if nodes > NODES_COMPILED_MAX:
        return None

    def load(name: str) -> BoundTemplate | None:
        try:
            return partials.load(environment, name)
        except LiquidError:
            return None

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # what Python finds odd in a template that compares 1 with itself
            return Statements(environment, filters, load, nodes).function(template.nodes)
    except (NotCompiled, SyntaxError, RecursionError, MemoryError):
        return None  # left to the library, or nested deeper than Python allows
