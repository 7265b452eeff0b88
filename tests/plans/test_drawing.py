"""Plans as people look at them: drawn, as Mermaid, and beside what they were before."""

import copy
import json
from typing import Any

from dispatcher.plans.definition.definition import compile_definition
from dispatcher.plans.definition.difference import difference
from dispatcher.plans.drawing.mermaid import mermaid
from dispatcher.plans.drawing.terminal import drawing
from dispatcher.plans.plan import Plan
from tests.plans.definitions import KNOWN

DEFINITION: dict[str, Any] = {
    "name": "x",
    "entryNodeId": "hello",
    "nodes": [
        {"id": "hello", "type": "email", "to": "{{ email }}", "template": "welcome"},
        {"id": "which", "type": "branch"},
        {"id": "pay", "type": "http", "function": "charge", "action": "card", "on_failure": "abort"},
        {"id": "soon", "type": "delay", "duration": "36h"},
        {"id": "meet", "type": "join"},
        {"id": "paid", "type": "wait", "event": "paid", "timeout": "3d"},
        {"id": "all", "type": "digest", "key": "{{ k }}", "window": "1h"},
    ],
    "edges": [
        {"from": "hello", "to": "which"},
        {"from": "which", "to": "pay", "condition": 'kind == "card" or paid < 1'},
        {"from": "which", "to": "soon"},
        {"from": "pay", "to": "meet"},
        {"from": "soon", "to": "meet"},
        {"from": "meet", "to": "paid"},
        {"from": "meet", "to": "all"},
    ],
}


def plan(definition: dict[str, Any] = DEFINITION) -> Plan:
    made = compile_definition(definition, KNOWN)
    assert isinstance(made, Plan), made
    return made


def test_ways_are_indented_where_they_part_and_come_back_where_they_meet() -> None:
    expected = """\
● hello  email to {{ email }}: welcome
│
● which  branch
├─ if kind == "card" or paid < 1
│  ● pay  http charge/card (abort)
│  ╰→ meet
├─ otherwise
│  ● soon  delay 1d12h
│  ╰→ meet
▼
● meet  join
├─ and
│  ● paid  wait for paid, 3d at most
╰─ and
   ● all  digest by {{ k }}, 1h
"""
    assert drawing(plan()) == expected


def test_an_edge_that_leads_past_others_names_where_it_goes() -> None:
    definition = copy.deepcopy(DEFINITION)
    definition["edges"].append({"from": "hello", "to": "meet"})
    lines = drawing(plan(definition)).splitlines()
    assert lines[:3] == ["● hello  email to {{ email }}: welcome", "├─ and", "│  ● which  branch"]
    assert lines[lines.index("├─ and → meet") + 1 :][:2] == ["▼", "● meet  join"]


def test_a_line_of_a_thousand_nodes_and_a_nest_of_hundreds_can_be_drawn() -> None:
    nodes = [{"id": f"n{n}", "type": "join"} for n in range(1_000)]
    line = [{"from": f"n{n}", "to": f"n{n + 1}"} for n in range(999)]
    assert len(drawing(plan({"name": "x", "entryNodeId": "n0", "nodes": nodes, "edges": line})).splitlines()) == 1_999
    nest = [{"from": f"n{n // 2 * 2}", "to": f"n{n + 1}"} for n in range(999)]
    drawn = drawing(plan({"name": "x", "entryNodeId": "n0", "nodes": nodes, "edges": nest}))
    assert all(f"● n{n}  " in drawn for n in range(1_000))


def test_mermaid_has_a_shape_for_each_type_and_escapes_what_would_end_a_text() -> None:
    lines = mermaid(plan()).splitlines()
    assert lines[0] == "flowchart TD"
    assert lines[1:8] == [
        '    n1["hello<br/>email to {{ email }}: welcome"]',
        '    n2{"which<br/>branch"}',
        '    n3[["pay<br/>http charge/card (abort)"]]',
        '    n4(["soon<br/>delay 1d12h"])',
        '    n5(("meet<br/>join"))',
        '    n6[/"paid<br/>wait for paid, 3d at most"/]',
        '    n7[("all<br/>digest by {{ k }}, 1h")]',
    ]
    assert lines[8:11] == [
        "    n1 --> n2",
        '    n2 -->|"kind == #34;card#34; or paid #60; 1"| n3',
        '    n2 -->|"otherwise"| n4',
    ]


def test_control_characters_are_not_drawn() -> None:
    definition = copy.deepcopy(DEFINITION)
    definition["nodes"][0]["to"] = "a\x1b[31m\u202e" + "b" * 200
    drawn = drawing(plan(definition)) + mermaid(plan(definition))
    assert "\x1b" not in drawn
    assert "\u202e" not in drawn
    assert "b" * 80 not in drawn


def test_a_difference_names_what_came_went_changed_and_moved() -> None:
    after = copy.deepcopy(DEFINITION)
    after["max_retries"] = 4
    after["nodes"][0]["to"] = ["{{ email }}"]
    after["nodes"][3] |= {"delayMs": 5}
    del after["nodes"][3]["duration"]
    after["nodes"][5]["id"] = "payed"
    after["edges"][5]["to"] = "payed"
    after["edges"][1:3] = reversed(after["edges"][1:3])
    assert list(map(str, difference(DEFINITION, after))) == [
        '~ $.nodes.hello.to: "{{ email }}" -> ["{{ email }}"]',
        "+ $.nodes.soon.delayMs: 5",
        '- $.nodes.soon.duration: "36h"',
        '+ $.nodes.payed: {"id": "payed", "type": "wait", "event": "paid", "timeout":…',
        '- $.nodes.paid: {"id": "paid", "type": "wait", "event": "paid", "timeout": …',
        '+ $.edges["meet -> payed"]: {"from": "meet", "to": "payed"}',
        '- $.edges["meet -> paid"]: {"from": "meet", "to": "paid"}',
        "~ $.edges: in another order",
        "+ $.max_retries: 4",
    ]
    assert difference(DEFINITION, json.loads(json.dumps(DEFINITION, sort_keys=True))) == []


def test_steps_go_by_their_names() -> None:
    step = {"name": "a", "function": "charge", "action": "x"}
    before = {"name": "x", "steps": [step, step | {"name": "b"}, step]}
    after = {"name": "x", "steps": [step | {"name": "b", "action": "y"}, step, step]}
    assert list(map(str, difference(before, after))) == [
        '~ $.steps.b.action: "x" -> "y"',
        "~ $.steps: in another order",
    ]
