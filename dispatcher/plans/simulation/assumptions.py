"""Assumptions of a simulated run: the results that its nodes will read, made up where the caller gives none."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from dispatcher.liquid.sample_variables import samples
from dispatcher.liquid.sources import Sources, variables
from dispatcher.plans.definition.fields import texts_in
from dispatcher.plans.definition.paths import ROOT
from dispatcher.plans.plan import Call, Delay, Digest, Node, Plan, Send
from dispatcher.plans.texts import has_liquid
from dispatcher.plans.walk.missing_steps import step_of
from dispatcher.plans.walk.used_variables import path_of

_TEXT_FIELDS: Final[Mapping[type[Node], Sequence[str]]] = {
    Send: ("to", "to_name", "template", "locale", "parts", "variables", "options"),
    Call: ("payload",),
    Delay: ("until",),
    Digest: ("key",),
}


class Assumptions:
    """The assumed results of one plan, made up from how its texts use them."""

    def __init__(self, plan: Plan, given: Mapping[str, Mapping[str, Any]]) -> None:
        self._plan = plan
        self._given = given
        self._by_step = {node.step: name for name, node in plan.nodes.items()}
        self._made_up: Mapping[str, Any] | None = None

    def data(self, name: str) -> Mapping[str, Any]:
        """The answer of a function, or data of an event: as given, else with the fields that texts read."""
        if name in self._given:
            return self._given[name]
        if self._made_up is None:
            every = (text for one in self._plan.nodes for text in _texts(self._plan, one))
            self._made_up = samples(_sources(every))
        made: dict[str, Any] = {}
        for root in (f"step_{self._plan.nodes[name].step}_result", name):
            found = self._made_up.get(root)
            made |= found if isinstance(found, dict) else {}
        return made

    def is_given(self, name: str) -> bool:
        """Whether the caller gave the result of a node."""
        return name in self._given

    def depends_on(self, name: str) -> tuple[str, ...]:
        """The nodes whose results a node's texts read."""
        found: dict[str, None] = {}
        for path in variables(_sources(_texts(self._plan, name))):
            root = str(path_of(path)[0])
            step = step_of(root)
            other: str | None = root if step is None else self._by_step.get(step)
            if other is not None and other in self._plan.nodes:
                found[other] = None
        return tuple(sorted(found, key=lambda one: self._plan.nodes[one].step))


def _sources(texts: Iterator[str]) -> Sources:
    return Sources({str(number): text for number, text in enumerate(texts) if has_liquid(text)})


def _texts(plan: Plan, name: str) -> Iterator[str]:
    """Every text of a node, and the conditions on its edges."""
    for edge in plan.edges.get(name, ()):
        if edge.condition is not None:
            yield f"{{% if {edge.condition} %}}{{% endif %}}"
    node = plan.nodes[name]
    values = [getattr(node, field) for field in _TEXT_FIELDS.get(type(node), ())]
    for _, text in texts_in(values, ROOT):
        yield text
