"""What is taken for granted of a run that has not been: what its nodes will read of results that nobody knows yet."""

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from dispatcher.liquid.sample_variables import samples
from dispatcher.liquid.sources import Sources, variables
from dispatcher.plans.plan import Call, Delay, Digest, Node, Plan, Send, Wait
from dispatcher.plans.texts import has_liquid
from dispatcher.plans.walk.missing_steps import step_of

_ROOT_ENDS: Final = re.compile(r"[.\[]")


class Assumptions:
    """Made up for one plan, from how its texts use them."""

    def __init__(self, plan: Plan, given: Mapping[str, Mapping[str, Any]]) -> None:
        self._plan = plan
        self._given = given
        self._by_step = {node.step: name for name, node in plan.nodes.items()}
        self._made_up: Mapping[str, Any] | None = None

    def data(self, name: str) -> Mapping[str, Any]:
        """What a function answers, or an event brings: as it is given, else what the plan's texts want of it."""
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
        """Whether somebody has said what comes."""
        return name in self._given

    def depends_on(self, name: str) -> tuple[str, ...]:
        """The nodes whose results a node's texts read."""
        found: dict[str, None] = {}
        for path in variables(_sources(_texts(self._plan, name))):
            root = _ROOT_ENDS.split(path, maxsplit=1)[0]
            step = step_of(root)
            other: str | None = root if step is None else self._by_step.get(step)
            if other is not None and other in self._plan.nodes:
                found[other] = None
        return tuple(sorted(found, key=lambda one: self._plan.nodes[one].step))


def _sources(texts: Iterator[str]) -> Sources:
    return Sources({str(place): text for place, text in enumerate(text for text in texts if has_liquid(text))})


def _texts(plan: Plan, name: str) -> Iterator[str]:
    """Every text of a node, and the conditions on its edges."""
    for edge in plan.edges.get(name, ()):
        if edge.condition is not None:
            yield f"{{% if {edge.condition} %}}{{% endif %}}"
    yield from _of_node(plan.nodes[name])


def _of_node(node: Node) -> Iterator[str]:
    match node:
        case Send():
            yield from _inside([*node.to, node.to_name, node.template, node.locale])
            yield from _inside([node.parts, node.variables, node.options])
        case Call():
            yield from _inside(node.payload)
        case Delay():
            yield from _inside(node.until)
        case Digest():
            yield node.key
        case _:
            pass


def _inside(value: Any) -> Iterator[str]:  # noqa: ANN401 - JSON
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for inner in value.values():
            yield from _inside(inner)
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from _inside(inner)


def is_event_assumed(node: Wait) -> bool:
    """Whether an event is taken for granted: it is, unless the run is made to go on without it."""
    return node.timeout_seconds is None or node.on_failure != "continue"
