"""The names that nodes provide: a trigger need not bring what an earlier node gives.

A node's result goes by its id and as `step_N_result`, its error as `step_N_error`, with N counted from 0.
"""

from collections.abc import Iterable, Mapping

from dispatcher.engine.rules.unsubscribe_links import VARIABLE as LINK
from dispatcher.plans.definition.graph import Order
from dispatcher.plans.definition.paths import Faults
from dispatcher.plans.definition.variables_read import VariableRead
from dispatcher.plans.plan import Call, Digest, Node, Send, Wait
from dispatcher.plans.walk.missing_steps import is_error, step_of


class Provided:
    """The names that each node of a plan can read because earlier nodes give them."""

    def __init__(self, nodes: Mapping[str, Node], order: Order, *, is_list: bool) -> None:
        self._nodes = nodes
        self._order = order
        self._is_list = is_list
        self._ids = tuple(nodes)

    def has(self, node: str, name: str) -> bool:
        """Whether a node has this name without the trigger: an earlier node gives it, or each message has it."""
        if step_of(name) is not None or (name == LINK and isinstance(self._nodes.get(node), Send)):
            return True
        return _gives(self._nodes.get(name)) and self._order.is_before(name, node)

    def check(self, reads: Mapping[str, Iterable[VariableRead]], faults: Faults) -> None:
        """Refuse results by number that no earlier step gives."""
        for node, several in reads.items():
            for place, name in dict.fromkeys((one.place, one.name) for one in several):
                words = self._wrong(node, name)
                if words is not None:
                    faults.add(place, f"{name}: {words}")

    def steps_before(self, node: str) -> int:
        """How many of the first steps a stored template of a node may read by number."""
        return self._nodes[node].step if self._is_list else len(self._nodes)

    def _wrong(self, node: str, name: str) -> str | None:
        """The fault of a name; None where it is not a step's, or that of a step before."""
        step = step_of(name)
        if step is None:
            return None
        if step >= len(self._ids):
            return f"there is no step {step}: they are counted from 0, and the last one is {len(self._ids) - 1}"
        other = self._ids[step]
        if not self._order.is_before(other, node):
            which = "is this step itself" if other == node else "does not come before this one"
            return f"step {step} ({other}) {which}: read the result of an earlier step (they are counted from 0)"
        if not (self._is_list or is_error(name) or _gives(self._nodes[other])):
            return f"step {step} ({other}) has no result: messages, calls, waits and digests have one"
        return None


def _gives(node: Node | None) -> bool:
    """Whether a node has a result."""
    return isinstance(node, Send | Call | Wait | Digest)
