"""The variables that a text reads, as the parser understands it, and whether it is a single variable."""

from functools import lru_cache

from liquid.static_analysis import Variable
from msgspec import Struct

from dispatcher.liquid.language import BoundedEnvironment, refuse_bombs
from dispatcher.liquid.sources import SourceReader
from dispatcher.plans.definition.paths import ROOT, Faults
from dispatcher.plans.plan import RequiredVariable
from dispatcher.plans.texts import known_steps, single_variable_path

# The text between the braces.
SINGLE_VARIABLE_CHARACTERS_MAX = 500
# Ten of each node: reading them takes a second.
TEXTS_MAX = 10_000
CONDITION_WORDS = "is a Liquid expression without {{ }} or {% %} around it, such as: order.total > 100"
_ENVIRONMENT = BoundedEnvironment(autoescape=False, text_max=SINGLE_VARIABLE_CHARACTERS_MAX)


class VariableRead(Struct, frozen=True):
    """A variable that a text reads, and the place of that text."""

    read: RequiredVariable
    place: str

    @property
    def name(self) -> str:
        """The top-level name."""
        return self.read.at[0]


class Reader:
    """Reads the Liquid of one definition: what is wrong with it goes to the faults, by place."""

    def __init__(self, faults: Faults) -> None:
        self._faults = faults
        self._sources = SourceReader()
        self._count = 0

    def text(self, place: str, text: str, part: str = "text") -> list[VariableRead]:
        """The variables that a text reads. The part says whether it is escaped."""
        self._count += "{" in text
        if self._count > TEXTS_MAX:
            if self._count == TEXTS_MAX + 1 and "{" in text:
                self._faults.add(ROOT, f"has more than {TEXTS_MAX} texts of Liquid: cut the workflow in two")
            return []
        found, variables = self._sources.read(part, text)
        for fault in found:
            self._faults.add(place, str(fault))
        return [VariableRead(read, place) for read in _reads(variables)]

    def condition(self, place: str, text: str) -> list[VariableRead]:
        """The variables of a condition: a Liquid expression as it stands between `{% if` and `%}`."""
        if any(sign in text for sign in ("{{", "{%", "%}", "}}")):
            self._faults.add(place, CONDITION_WORDS)
            return []
        if not text.strip():
            self._faults.add(place, "is empty: leave the condition out for the edge that is taken otherwise")
            return []
        return self.text(place, f"{{% if {text} %}}1{{% endif %}}")


def _reads(variables: tuple[Variable, ...]) -> list[RequiredVariable]:
    """The variables that are read, in order of appearance."""
    found: dict[tuple[str, ...], RequiredVariable] = {}
    for variable in sorted(variables, key=lambda one: one.span.index):
        # Behind a step that is itself a variable nothing is known before there is a value.
        steps = known_steps(variable.segments)
        if steps:
            at = tuple(map(str, steps))
            found.setdefault(at, RequiredVariable(str(Variable([*steps], variable.span)), at))
    return list(found.values())


@lru_cache(maxsize=1_000)
def single_variable(text: str) -> tuple[str | int, ...] | None:
    """The steps to the variable that a text is, if it is nothing else: no filter, no words around it."""
    text = text.strip()
    if not (text.startswith("{{") and text.endswith("}}")) or len(text) > SINGLE_VARIABLE_CHARACTERS_MAX:
        return None
    try:
        refuse_bombs(text)
        nodes = _ENVIRONMENT.from_string(text).nodes
    except Exception:  # the library raises what it pleases; what does not parse is said elsewhere
        return None
    return single_variable_path(nodes) or None
