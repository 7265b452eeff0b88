"""The reference of a definition's fields names exactly those that the reader knows."""

import re
from typing import Any

import pytest

from dispatcher.plans.definition import reference
from dispatcher.plans.definition.definition import Known, compile_definition

KNOWN = Known(channels=("email", "sms", "chat"), functions=("bill",))
# Like no field that there is, so that none is proposed for it.
UNKNOWN = "q" * 16


def known_at(definition: dict[str, Any], place: str) -> set[str]:
    """The fields that the reader says it knows there, of an object with one that it does not."""
    found = compile_definition(definition, KNOWN)
    assert isinstance(found, list)
    (words,) = [fault.message for fault in found if fault.path == f"{place}.{UNKNOWN}"]
    listed = re.search(r"known here are (.*)", words)
    assert listed is not None
    return set(listed[1].split(", "))


def one_node(**fields: Any) -> dict[str, Any]:
    """A graph of one node, with a field that nobody knows."""
    return {"name": "w", "nodes": [{"id": "a", UNKNOWN: 1} | fields], "edges": [], "entryNodeId": "a"}


def properties(schema: dict[str, Any]) -> set[str]:
    return set(schema["properties"])


@pytest.mark.parametrize("kind", sorted(reference.TYPES))
def test_every_field_of_a_node_is_in_the_reference(kind: str) -> None:
    schema = reference.node(kind, *reference.TYPES[kind])
    # A condition is known to a branch only to be refused: it stands on the edges.
    assert known_at(one_node(type=kind), "$.nodes[0]") - {"condition"} == properties(schema)


def test_every_field_of_a_send_is_in_the_reference() -> None:
    found = known_at(one_node(type="sms", parts={"body": "x"}, to="+1"), "$.nodes[0]")
    assert found - {"body"} == properties(reference.node("a channel", *reference.SEND))


@pytest.mark.parametrize(("function", "schema"), [("send-email", reference.SEND_EMAIL), ("slack", reference.SLACK)])
def test_every_field_of_a_built_in_function_is_in_the_reference(function: str, schema: dict[str, Any]) -> None:
    payload = {UNKNOWN: 1}
    step = {"name": "one", "function": function, "action": "send", "payload_template": payload}
    assert known_at({"name": "w", "steps": [step]}, "$.steps[0].payload_template") == properties(schema)


def test_every_field_of_a_step_an_edge_and_a_workflow_is_in_the_reference() -> None:
    step = {"name": "one", "function": "bill", "action": "send", UNKNOWN: 1}
    assert known_at({"name": "w", "steps": [step]}, "$.steps[0]") == properties(reference.STEP)
    graph: dict[str, Any] = {"name": "w", "nodes": [{"id": "a", "type": "join"}], "entryNodeId": "a"}
    edge = {"from": "a", "to": "a", UNKNOWN: 1}
    assert known_at(graph | {"edges": [edge]}, "$.edges[0]") == properties(reference.EDGE)
    assert known_at(graph | {UNKNOWN: 1}, "$") - {"steps"} == properties(reference.GRAPH)
    assert known_at({"name": "w", "steps": [step], UNKNOWN: 1}, "$") - {"nodes"} == properties(reference.LIST)
