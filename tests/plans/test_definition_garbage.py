"""Whatever comes in is a plan or a precise refusal; and a good definition becomes a plan with all that it has."""

import json
from typing import Any

import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dispatcher.base.errors import InputError
from dispatcher.plans.definition.definition import compile_definition
from dispatcher.plans.definition.difference import difference
from dispatcher.plans.drawing.mermaid import mermaid
from dispatcher.plans.drawing.terminal import drawing
from dispatcher.plans.plan import Plan, decode, encode
from tests.plans.definitions import KNOWN, Definition, definitions, graphs, spoilt
from tests.support.examples import examples

no_deadline = settings(deadline=None, suppress_health_check=list(HealthCheck))


def plan_of(definition: object) -> Plan:
    """The plan of what has no faults."""
    made = compile_definition(definition, KNOWN)
    assert isinstance(made, Plan), made
    return made


@no_deadline
@given(graphs())
def test_the_plan_of_a_graph_has_every_node_and_every_edge(definition: Definition) -> None:
    plan = plan_of(definition)
    assert list(plan.nodes) == [node["id"] for node in definition["nodes"]]
    assert [node.step for node in plan.nodes.values()] == list(range(len(plan.nodes)))
    for start in plan.nodes:
        written = [(edge["to"], edge.get("condition")) for edge in definition.get("edges", ()) if edge["from"] == start]
        assert [(edge.to, edge.condition) for edge in plan.edges.get(start, ())] == written


@no_deadline
@given(definitions)
def test_a_definition_is_equal_in_every_notation(definition: Definition) -> None:
    plan = plan_of(definition)
    assert plan_of(json.dumps(definition)) == plan
    assert plan_of(json.dumps(definition, indent=2).encode()) == plan
    assert plan_of(yaml.safe_dump(definition, allow_unicode=True, sort_keys=False)) == plan
    assert decode(encode(plan)) == plan


@no_deadline
@given(definitions)
def test_every_node_is_drawn(definition: Definition) -> None:
    plan = plan_of(definition)
    lines = drawing(plan).splitlines()
    for name in plan.nodes:
        assert sum(f"● {name}  " in line for line in lines) == 1
    assert mermaid(plan).count("-->") == sum(map(len, plan.edges.values()))


@no_deadline
@given(definitions, spoilt())
def test_equal_definitions_have_no_difference(one: Definition, other: Any) -> None:
    assert difference(one, one) == []
    if isinstance(compile_definition(other, KNOWN), Plan) and compile_definition(other, KNOWN) != plan_of(one):
        assert difference(one, other)


@settings(no_deadline, max_examples=examples(100, 600))
@given(spoilt())
def test_a_mutated_definition_is_a_plan_or_is_refused_precisely(definition: Definition) -> None:
    made = compile_definition(definition, KNOWN)
    if isinstance(made, Plan):
        assert decode(encode(made)) == made
        return
    assert made
    for fault in made:
        assert fault.path.startswith("$")
        assert fault.message
    # What is refused has to reach who wrote it, also as JSON.
    json.dumps([fault.path + fault.message for fault in made], ensure_ascii=False).encode()
    assert str(InputError(made))


@no_deadline
@given(
    st.one_of(
        st.text(),
        st.binary(),
        st.text(alphabet="{}[]:,-\"'#&*!|>%@`? \n\tab01.~<"),
        st.recursive(
            st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text()),
            lambda inner: st.one_of(st.lists(inner), st.dictionaries(st.text(), inner)),
        ),
    )
)
def test_garbage_is_refused(garbage: object) -> None:
    assert isinstance(compile_definition(garbage, KNOWN), list)


@settings(no_deadline, max_examples=examples(60, 300))
@given(definitions, st.data())
def test_a_text_that_was_cut_or_changed_is_a_plan_or_is_refused(definition: Definition, data: st.DataObject) -> None:
    text = data.draw(st.sampled_from([json.dumps(definition), yaml.safe_dump(definition)]))
    at = data.draw(st.integers(0, len(text)))
    to = data.draw(st.integers(at, len(text)))
    made = compile_definition(text[:at] + data.draw(st.text(max_size=3)) + text[to:], KNOWN)
    assert isinstance(made, Plan) or made
