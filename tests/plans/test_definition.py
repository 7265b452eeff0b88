"""Definitions: every clause of what is refused, with its place, and what a good one becomes."""

import copy
import re
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from dispatcher.plans.definition.definition import EDGES_MAX, NODES_MAX, Known, compile_definition, read_definition
from dispatcher.plans.plan import (
    Branch,
    Call,
    Delay,
    Digest,
    Edge,
    Join,
    Plan,
    RequiredVariable,
    Send,
    TemplateUse,
    Wait,
)

KNOWN = Known(
    ("email", "sms", "whatsapp", "push", "voice", "social", "chat", "pager", "http"),
    ("charge", "enrich", "warehouse"),
)
FOLDER = Path(__file__).resolve().parents[2] / "ops" / "workflows"
Definition = dict[str, Any]


def graph(*nodes: Definition, edges: list[Definition] | None = None, **header: Any) -> Definition:
    """A graph; without edges of its own a line through the nodes."""
    line = [{"from": one["id"], "to": two["id"]} for one, two in pairwise(nodes)]
    made = {"name": "x", "entryNodeId": nodes[0]["id"], "nodes": list(nodes), "edges": line if edges is None else edges}
    return made | header


def steps(*several: Definition, **header: Any) -> Definition:
    return {"name": "x", "steps": list(several), **header}


def node(name: str = "a", kind: str = "join", **fields: Any) -> Definition:
    return {"id": name, "type": kind, **fields}


def edge(start: str, end: str, condition: str | None = None) -> Definition:
    return {"from": start, "to": end} | ({} if condition is None else {"condition": condition})


def mail(name: str = "a", **fields: Any) -> Definition:
    return node(name, "email", **({"to": "{{ email }}", "template": "t"} | fields))


def plan(definition: object) -> Plan:
    made = compile_definition(definition, KNOWN)
    assert isinstance(made, Plan), made
    return made


def refused(definition: object) -> list[tuple[str, str]]:
    made = compile_definition(definition, KNOWN)
    assert isinstance(made, list)
    return [(fault.path, fault.message) for fault in made]


def lacks(definition: Definition, *keys: str | int) -> Definition:
    """The definition without one thing."""
    made = copy.deepcopy(definition)
    holder: Any = made
    for key in keys[:-1]:
        holder = holder[key]
    del holder[keys[-1]]
    return made


GRAPHS: list[tuple[Definition, str, str]] = [
    (graph(node(), entryNodeId="b"), "$.entryNodeId", 'there is no node "b"'),
    (lacks(graph(node()), "entryNodeId"), "$.entryNodeId", "is required"),
    (graph(node("here"), node("there"), entryNodeId="her"), "$.entryNodeId", 'did you mean "here"?'),
    (graph(node("abc"), edges=[edge("abc", "abd")]), "$.edges[0].to", 'no node "abd"; did you mean "abc"?'),
    (graph(node(), edges=[edge("q", "a")]), "$.edges[0].from", 'there is no node "q"'),
    (graph(node(), edges=[{"from": "a"}]), "$.edges[0].to", "is required"),
    (
        graph(node("a"), node("b"), edges=[edge("a", "b"), edge("b", "a")]),
        "$.edges[1]",
        "closes a circle, so that a run would never end: a -> b -> a",
    ),
    (graph(node("a"), edges=[edge("a", "a")]), "$.edges[0]", "a -> a"),
    (graph(node("a"), node("b"), edges=[]), "$.nodes[1]", 'cannot be reached from the entry "a"'),
    (graph(node("a"), node("a"), edges=[]), "$.nodes[1].id", "a is the id of $.nodes[0] too"),
    (graph(node("a b")), "$.nodes[0].id", "is not an id"),
    (graph(node("x" * 101)), "$.nodes[0].id", "is not an id"),
    (graph(node("step_7_result")), "$.nodes[0].id", "is where the result of another node goes"),
    (graph(node(), node("b"), edges=[edge("a", "b", "x")]), "$.edges[0].condition", "only the edges of a branch"),
    (graph(node(), node("b"), edges=[edge("a", "b")] * 2), "$.edges[1]", "leads from a to b once more"),
    (graph(node("a", "branch")), "$.nodes[0]", "a branch with nothing to choose from"),
    (graph(node("a", "branch", condition="x"), node("b")), "$.nodes[0].condition", "stands on the edges"),
    (
        graph(node("a", "branch"), node("b"), node("c"), edges=[edge("a", "b"), edge("a", "c", "x")]),
        "$.edges[0]",
        "put it last of those of a",
    ),
    (
        graph(node("a", "branch"), node("b"), node("c"), edges=[edge("a", "b"), edge("a", "c")]),
        "$.edges[0]",
        "is a second edge of a without a condition",
    ),
    *(
        (graph(node("a", "branch"), node("b"), edges=[edge("a", "b", wrong)]), "$.edges[0].condition", words)
        for wrong, words in [
            ("{{ x }}", "without {{ }} or {% %}"),
            ("x %}{% endif %}{% if y", "without {{ }} or {% %}"),
            ("x ==", "line 1: "),
            ("  ", "is empty"),
        ]
    ),
    ({"name": "x"}, "$", "has neither nodes, as a graph, nor steps, as a list"),
    (graph(node(), steps=[]), "$.nodes", "is given beside steps"),
    (graph(node(), nodes=[]), "$.nodes", "expected a list of objects, got an empty one"),
    (graph(node(), nodes={"a": node()}), "$.nodes", "expected a list of objects, got an object"),
    (graph(node(), edges="a"), "$.edges", "expected a list of objects, got a text"),  # type: ignore[arg-type]  # as it is
    (graph(node(), nodes=[node(), 7]), "$.nodes[1]", "expected an object, got a number"),
    (graph(node(), edge=[]), "$.edge", 'unknown key; did you mean "edges"?'),
]

NODES: list[tuple[Definition, str, str]] = [
    (lacks(node(), "type"), ".type", "is required"),
    (node(kind="emial"), ".type", 'there is no type or channel "emial"; did you mean "email"?'),
    (node(kind="fax"), ".type", "known are chat, email"),
    (node(kind="wait_for_event"), ".type", 'did you mean "wait"?'),
    (mail(to=None), ".to", "is required"),
    (mail(to=[]), ".to", "has no recipients"),
    (mail(to=["{{ a }}", 7]), ".to[1]", "expected a text, got a number"),
    (mail(to=["a@b.c"] * 1_001), ".to", "has 1001 recipients, over 1000"),
    (mail(to={"a": 1}), ".to", "expected a text, got an object"),
    (mail(template=None), "", "has nothing to send"),
    (mail(template="no name!"), ".template", "is not the name of a template"),
    (mail(template="{{ a }}-{{ b }}"), ".template", "exactly one variable"),
    (mail(template="{{ a | upcase }}"), ".template", "exactly one variable"),
    (mail(text="x"), ".text", "is given beside template"),
    (mail(parts={"text": "x"}), ".parts", "is given beside template"),
    (mail(template=None, text="x"), "", "needs subject"),
    (mail(template=None, parts={"subject": "x", "text": "y", "bod": "z"}), ".parts.bod", "is no part of email"),
    (mail(template=None, parts={"subject": "x", "text": 7}), ".parts.text", "expected a text, got a number"),
    (mail(template=None, parts={"subject": "x", "text": "a\n{{ b | nope }}"}), ".parts.text", "line 2: unknown filter"),
    (mail(template=None, subject="{% nope %}", text="y"), ".subject", "line 1: "),
    (mail(template=None, subject="x", html="{{ a | safe }}"), ".html", "needs the right raw_html"),
    (mail(template=None, subject="x", html="{% render 'p' %}"), ".html", "there is no partial 'p'"),
    (mail(variables={"a": [{"b c": "{{"}]}), '.variables.a[0]["b c"]', "line 1: "),
    (mail(variables="{{ a }}"), ".variables", "expected an object, got a text"),
    (mail(locale="deutsch, bitte"), ".locale", "is not a locale"),
    (mail(topic="No Topic"), ".topic", "expected 1 to 64 characters"),
    (mail(lane="bulky"), ".lane", 'got "bulky"; did you mean "bulk"?'),
    (mail(expires_in="soon"), ".expires_in", "is no duration"),
    (mail(on_failure="ignore"), ".on_failure", "expected one of retry, continue, abort"),
    (mail(max_attempts=0), ".max_attempts", "expected a whole number from 1 to 100, got 0"),
    (mail(max_attempts=True), ".max_attempts", "got true"),
    (mail(max_attempts=10**5_000), ".max_attempts", "too large a number"),
    (mail(description="x" * 2_001), ".description", "has 2001 characters, over 2000"),
    (mail(templat="x"), ".templat", 'unknown key; did you mean "template"?'),
    (node(zzz=1), ".zzz", "unknown key; known here are description, id, max_attempts, on_failure, type"),
    (node("a", "http", action="x"), ".function", "is required"),
    (node("a", "http", function="charge"), ".action", "is required"),
    (node("a", "http", function="chrage", action="x"), ".function", 'did you mean "charge"?'),
    (node("a", "http", function="charge", action="{{ x }}"), ".action", "Liquid is not rendered here"),
    (node("a", "function", function="charge", action="x", payload={"a": "{% if"}), ".payload.a", "line 1: "),
    (node("a", "delay"), "", "has no delay: give delayMs or duration, or until"),
    (node("a", "delay", delayMs=-1), ".delayMs", "expected a whole number from 0"),
    (node("a", "delay", delayMs="5"), ".delayMs", 'got "5"'),
    (node("a", "delay", delayMs=1.5), ".delayMs", "got 1.5"),
    (node("a", "delay", delayMs=10**14), ".delayMs", "expected a whole number from 0"),
    (node("a", "delay", duration="tomorrow"), ".duration", '"tomorrow" is no duration: expected ISO 8601'),
    (node("a", "delay", duration="P1M"), ".duration", "years or months"),
    (node("a", "delay", duration="9999999d"), ".duration", "is longer than 3660 days"),
    (node("a", "delay", duration="3d", delayMs=3), ".duration", "is given beside delayMs"),
    (node("a", "delay", until="2030-01-31"), ".until", "is not a time: expected RFC 3339"),
    (node("a", "delay", until="{{ x"), ".until", "line 1: "),
    (node("a", "wait"), ".event", "is required"),
    (node("a", "wait", event="x", timeout="0s"), ".timeout", "is not longer than 0"),
    (node("a", "digest", window="1h"), ".key", "is required"),
    (node("a", "digest", key="x"), ".window", "is required"),
    (node("a", "digest", key="x", window="1h", max_items=10_001), ".max_items", "from 1 to 10000"),
]

STEP = {"name": "s", "function": "charge", "action": "run"}
EMAIL = {"name": "s", "function": "send-email", "action": "send"}
SLACK = {"name": "s", "function": "slack", "action": "faq_inquiry"}
STEPS: list[tuple[Definition, str, str]] = [
    (lacks(STEP, "name"), ".name", "is required"),
    (STEP | {"payload": {}}, ".payload", 'unknown key; did you mean "payload_template"?'),
    (STEP | {"function": "send-mail"}, ".function", 'did you mean "send-email"?'),
    (EMAIL, ".payload_template", "is required"),
    (EMAIL | {"action": "sned"}, ".action", "send-email knows the action send"),
    (EMAIL | {"payload_template": []}, ".payload_template", "expected an object, got a list"),
    (EMAIL | {"payload_template": {"template_id": "t"}}, ".payload_template.to_email", "is required"),
    (EMAIL | {"payload_template": {"to_email": "x"}}, ".payload_template", "has nothing to send: give template_id, or"),
    (EMAIL | {"payload_template": {"to_email": "x", "subject": "y"}}, ".payload_template", "needs text or html"),
    (
        EMAIL | {"payload_template": {"to_email": "x", "template_id": "t", "subject": "t"}},
        ".payload_template.subject",
        "is given beside template_id",
    ),
    (
        EMAIL | {"payload_template": {"to_email": "x", "template_id": "t", "to": "y"}},
        ".payload_template.to",
        "unknown key",
    ),
    (SLACK | {"payload_template": {"message": "x"}}, ".payload_template.channel", "is required"),
    (SLACK | {"payload_template": {"channel": "x"}}, ".payload_template.message", "is required"),
    (
        SLACK | {"payload_template": {"channel": "x", "message": "{% nope %}"}},
        ".payload_template.message",
        "line 1: ",
    ),
    (
        SLACK | {"payload_template": {"channel": "x", "message": "{{ a | safe }}"}},
        ".payload_template.message",
        "is not escaped",
    ),
    (
        SLACK | {"payload_template": {"channel": "x", "message": "y", "text": 1}},
        ".payload_template.text",
        "unknown key",
    ),
    *(
        (STEP | {"payload_template": {"deep": [{"er": text}]}}, ".payload_template.deep[0].er", words)
        for text, words in [
            ("{{ step_1_result.id }}", "step 1 (s_2) is this step itself"),
            ("{{ step_2_error }}", "step_2_error: there is no step 2: they are counted from 0, and the last one is 1"),
            ("{% if a == step_7_result.x %}{% endif %}", "step_7_result: there is no step 7"),
            ("{{ a[step_7_result.x].b }}", "step_7_result: there is no step 7"),
            ("{% for x in step_7_result.recipients %}{% endfor %}", "step_7_result: there is no step 7"),
            ("{{ a | default: step_7_error }}", "step_7_error: there is no step 7"),
        ]
    ),
]

HEADERS: list[tuple[Definition, str, str]] = [
    ({"name": "no name!"}, "$.name", "is not a name"),
    ({"name": 7}, "$.name", "expected a text, got a number"),
    ({"name": None}, "$.name", "is required"),
    ({"max_retries": 0}, "$.max_retries", "1 means no retry"),
    ({"max_retries": 101}, "$.max_retries", "from 1 to 100"),
    ({"timeout_seconds": 0}, "$.timeout_seconds", "expected a number over 0"),
    ({"timeout_seconds": float("nan")}, "$.timeout_seconds", "is not a JSON number"),
    ({"visibility_timeout": "60"}, "$.visibility_timeout", 'got "60"'),
    ({"required_fields": "a"}, "$.required_fields", "expected a list"),
    ({"required_fields": ["a", 1, "", "a"]}, "$.required_fields[1]", "expected a name, got a number"),
    ({"required_fields": ["a", 1, "", "a"]}, "$.required_fields[3]", '"a" is named twice'),
    ({"description": "a\0b"}, "$.description", "has a NUL character"),
    ({"description": "\udfff"}, "$.description", "half of a surrogate pair"),
    ({"description": b"x"}, "$.description", "is not JSON: bytes"),
]


@pytest.mark.parametrize(("definition", "place", "words"), GRAPHS)
def test_a_graph_that_no_run_could_walk_is_refused(definition: Definition, place: str, words: str) -> None:
    assert any(path == place and words in said for path, said in refused(definition)), refused(definition)


@pytest.mark.parametrize(("wrong", "place", "words"), NODES)
def test_a_node_whose_fields_do_not_fit_its_type_is_refused(wrong: Definition, place: str, words: str) -> None:
    found = refused(graph(mail("first"), wrong))
    assert [path for path, said in found if words in said] == [f"$.nodes[1]{place}"], found


@pytest.mark.parametrize(("wrong", "place", "words"), STEPS)
def test_a_step_without_a_call_is_refused(wrong: Definition, place: str, words: str) -> None:
    found = refused(steps(STEP, wrong))
    assert [path for path, said in found if words in said] == [f"$.steps[1]{place}"], found


@pytest.mark.parametrize(("wrong", "place", "words"), HEADERS)
@pytest.mark.parametrize("definition", [graph(node()), steps(STEP)])
def test_a_wrong_header_is_refused_in_both_forms(
    definition: Definition, wrong: Definition, place: str, words: str
) -> None:
    found = refused(definition | wrong)
    assert any(path == place and words in said for path, said in found), found
    assert not [path for path, _ in found if not path.startswith(f"$.{next(iter(wrong))}")]


def test_every_fault_is_named_at_once() -> None:
    definition = graph(
        mail("a", to="{{ x | nope }}"),
        node("b", "delay"),
        node("c", "fax"),
        node("d", "http", function="none", action="x"),
        node("e"),
        edges=[edge("a", "b"), edge("b", "a"), edge("a", "z")],
        entryNodeId="q",
        name="",
    )
    assert [path for path, _ in refused(definition)] == [
        "$.name",
        "$.nodes[0].to",
        "$.nodes[1]",
        "$.nodes[2].type",
        "$.nodes[3].function",
        "$.edges[2].to",
        "$.entryNodeId",
        "$.edges[1]",
    ]


@pytest.mark.parametrize(
    ("definition", "place", "words"),
    [
        (graph(*(node(f"n{n}") for n in range(NODES_MAX + 1))), "$.nodes", "has 1001 nodes, over 1000"),
        (graph(node(), edges=[edge("a", "a")] * (EDGES_MAX + 1)), "$.edges", "has 5001 edges, over 5000"),
        (steps(*[STEP] * (NODES_MAX + 1)), "$.steps", "has 1001 steps, over 1000"),
        (mail(variables={"a": "x" * 2**20}), "$", "has more than 1048576 bytes"),
        (mail(variables={"a": [0] * 100_000}), "$", "has more than 100000 values"),
        (graph(mail(variables={"a": ["{{ a }}"] * 10_000})), "$", "has more than 10000 texts of Liquid"),
        (mail(variables={1: 2}), "$.variables", "has a key that is not a text: int"),
    ],
)
def test_exceeded_limits_are_refused_by_name(definition: Definition, place: str, words: str) -> None:
    ((path, said),) = refused(definition)
    assert path == place
    assert words in said


def test_too_deep_nesting_is_refused() -> None:
    deep: Any = {}
    for _ in range(900):
        deep = {"a": [deep]}
    assert refused(mail(variables=deep)) == [("$", "is nested deeper than 64")]
    for opening in ('{"a":', "["):
        for depth in (100, 100_000):
            ((place, words),) = refused('{"name":' + opening * depth)
            assert place == "$"
            assert "is not JSON" in words if depth == 100 else "nested deeper than 64" in words


def test_a_definition_that_contains_itself_is_refused() -> None:
    knot: Any = {}
    knot["a"] = knot
    assert refused(mail(variables=knot)) == [("$", "is nested deeper than 64")]


def test_of_very_many_faults_the_first_are_named() -> None:
    found = refused(mail() | {f"key{n}": n for n in range(5_000)})
    assert len(found) == 1_001
    assert found[-1] == ("$", "has more than these 1000 faults")


def test_a_thousand_nodes_in_a_circle_are_named_in_short() -> None:
    nodes = [node(f"n{n}") for n in range(NODES_MAX)]
    definition = graph(*nodes)
    definition["edges"].append(edge("n999", "n0"))
    ((path, words),) = refused(definition)
    assert path == "$.edges[999]"
    assert words.endswith("n0 -> n1 -> n2 -> n3 -> n4 -> n5 -> … -> n995 -> n996 -> n997 -> n998 -> n999 -> n0")


def test_a_list_is_a_graph_in_a_line() -> None:
    made = plan(steps(STEP | {"name": "Mail it!"}, STEP | {"name": "Mail_it"}, STEP | {"name": "step_1_result"}))
    assert (made.entry, made.merges_data, made.timeout_seconds, made.call_seconds_max) == ("Mail_it", True, 300, 60)
    assert list(made.nodes) == ["Mail_it", "Mail_it_2", "step_2"]
    assert made.edges == {"Mail_it": (Edge("Mail_it_2"),), "Mail_it_2": (Edge("step_2"),)}
    assert made.nodes["step_2"] == Call(step=2, function="charge", action="run", payload={})


def test_steps_of_one_name_are_told_apart() -> None:
    names = ["mail", "mail_2", "mail", "mail", "!"]
    assert list(plan(steps(*(STEP | {"name": name} for name in names))).nodes) == [
        "mail",
        "mail_2",
        "mail_3",
        "mail_4",
        "step_4",
    ]


def test_of_what_is_no_text_no_more_is_said_than_that() -> None:
    found = refused(graph(mail(template="no name\0", to="\ud800{{"), name="a\0b"))
    assert [path for path, _ in found] == ["$.name", "$.nodes[0].to", "$.nodes[0].template"]


def test_a_graph_has_no_timeout_and_merges_nothing() -> None:
    made = plan(graph(node()))
    assert (made.merges_data, made.timeout_seconds, made.call_seconds_max) == (False, None, 60)


def test_attempts_are_the_workflows_unless_a_failure_is_to_act_at_once() -> None:
    several: list[Definition] = [
        {},
        {"on_failure": "continue"},
        {"on_failure": "abort"},
        {"on_failure": "abort", "max_attempts": 7},
    ]
    nodes = [mail(f"n{number}", **fields) for number, fields in enumerate(several)]
    assert [one.attempts for one in plan(graph(*nodes)).nodes.values()] == [3, 1, 1, 7]
    assert [one.attempts for one in plan(graph(*nodes, max_retries=9)).nodes.values()] == [9, 1, 1, 7]


def test_every_type_of_node_is_what_the_walk_needs_of_it() -> None:
    made = plan((FOLDER / "order_placed.yaml").read_bytes()).nodes
    assert {type(one) for one in made.values()} == {Send, Call, Delay, Branch, Join, Wait, Digest}
    assert made["text_message"] == Send(
        step=3,
        on_failure="continue",
        attempts=1,
        channel="sms",
        to=("{{ customer.phone }}",),
        parts={"body": "{{ order.id }} leaves us today."},
        reads=("order",),
        expires_seconds=43_200,
    )
    assert made["two_days"] == Delay(step=8, seconds=172_800)
    assert made["morning"] == Delay(step=9, until="{{ order.review_at }}")
    assert made["shipped"] == Wait(
        step=7, on_failure="continue", attempts=1, event="shipped", timeout_seconds=864_000.0
    )
    assert made["several"] == Digest(step=12, key="{{ customer.id }}", window_seconds=3_600, items_max=100)


def test_a_social_post_needs_no_recipient() -> None:
    post = plan(graph(node("a", "social", body="x"))).nodes["a"]
    assert isinstance(post, Send)
    assert post.to == ()


def test_the_function_send_email_is_a_message() -> None:
    payload: Definition = {"to_email": ["{{ a }}", "b@c.de"], "to_name": "{{ n }}", "template_id": "{{ t }}"}
    payload |= {"variables": {"n": "{{ m }}"}, "locale": "pt_br", "topic": "news"}
    (made,) = plan(steps(EMAIL | {"payload_template": payload})).nodes.values()
    assert made == Send(
        step=0,
        channel="email",
        to=("{{ a }}", "b@c.de"),
        to_name="{{ n }}",
        template="{{ t }}",
        variables={"n": "{{ m }}"},
        locale="pt-BR",
        topic="news",
    )


def test_the_function_slack_is_a_message_and_nothing_else() -> None:
    payload = {"channel": "team", "message": "Look: {{ m }}"}
    (made,) = plan(graph(node("a", "http", function="slack", action="any", payload=payload))).nodes.values()
    assert made == Send(step=0, channel="chat", to=("team",), parts={"body": "Look: {{ m }}"}, escapes=True)


@pytest.mark.parametrize("name", ["send-email", "slack"])
def test_a_configured_function_wins_over_the_one_that_is_built_in(name: str) -> None:
    made = compile_definition(steps(STEP | {"function": name}), Known(["http"], {name: True}))
    assert isinstance(made, Plan)
    assert made.nodes["s"] == Call(step=0, function=name, action="run", payload={})


@pytest.mark.parametrize(
    ("at", "text", "words"),
    [
        ("$.nodes[0].body", "{{ step_0_result.status }}", "step_0_result: step 0 (a) is this step itself"),
        ("$.nodes[0].body", "{{ step_2_result.status }}", "step 2 (c) does not come before this one"),
        ("$.nodes[2].body", "{{ step_3_error }}", "step 3 (d) does not come before this one"),
        ("$.nodes[2].body", "{{ step_1_result }}", "step 1 (b) has no result"),
        ("$.nodes[2].to", "{{ step_4_result.x }}", "there is no step 4"),
        ("$.edges[1].condition", "step_2_result.status == 'sent'", "step 2 (c) does not come before this one"),
    ],
)
def test_a_step_reads_by_number_what_comes_before_it(at: str, text: str, words: str) -> None:
    nodes = [node("a", "sms", to="x", body="y"), node("b", "branch")]
    nodes += [
        node(name, "sms", to="{{ step_0_result.to }}", body="{{ step_0_error }}{{ step_1_error }}") for name in "cd"
    ]
    edges = [edge("a", "b"), edge("b", "c", "step_0_result.status == 'sent'"), edge("b", "d")]
    made = graph(*nodes, edges=edges)
    assert plan(made).reads == ()
    kind, number, key = re.findall(r"\w+", at)
    made[kind][int(number)][key] = text
    ((path, said),) = refused(made)
    assert path == at
    assert words in said


def test_a_built_in_function_needs_its_channel() -> None:
    definition = steps(SLACK | {"payload_template": {"channel": "x", "message": "y"}})
    found = compile_definition(definition, Known(["email"]))
    assert [str(one) for one in found] == [  # type: ignore[union-attr]  # it is refused
        "$.steps[0].function: slack sends on the channel chat, which is not configured"
    ]


def test_required_variables_are_those_that_no_step_provides() -> None:
    made = plan(
        graph(
            mail(
                "a",
                to=["{{ to[0].mail }}", "{{ step_own.x }}"],
                template=None,
                subject="{{ shop.name }} {{ a.status }} {{ given.x }}",
                text="{% for x in rows %}{{ x.n }}{% endfor %}{% assign y = z %}{{ y }}{{ odd['a b'] }}{{ d[e.f].g }}",
                variables={"given": "{{ inner }}"},
                options={"reply_to": "{{ agent }}"},
                locale="{{ user.locale }}",
            ),
            node("b", "branch"),
            node(
                "c", "http", function="charge", action="x", payload={"n": ["{{ a.message_id }} {{ b.x }} {{ d.size }}"]}
            ),
            node("w", "delay", until="{{ when }}"),
            node("g", "digest", key="{{ w.x }} {{ given.y }}", window="1h"),
            edges=[edge("a", "b"), edge("b", "c", "total > 1"), edge("c", "w"), edge("w", "g")],
        )
    )
    # In order of appearance.
    assert [read.path for read in made.reads] == [
        "to[0].mail",
        "step_own.x",  # no step is called so
        "shop.name",
        "a.status",  # it does not come before itself
        "rows",
        "z",
        "odd['a b']",
        "d",
        "e.f",
        "inner",
        "agent",
        "user.locale",
        "b.x",  # a branch gives nothing
        "d.size",
        "when",
        "w.x",
        "given.y",  # what one node's texts are given no other has
        "total",
    ]
    assert RequiredVariable("to[0].mail", ("to", "0", "mail")) in made.reads
    assert RequiredVariable("odd['a b']", ("odd", "a b")) in made.reads
    first = made.nodes["a"]
    assert isinstance(first, Send)
    assert first.reads == ("a", "d", "e", "given", "odd", "rows", "shop", "z")


def test_the_link_that_each_message_has_need_not_be_brought() -> None:
    body = "{{ unsubscribe_url }} {{ name }}"
    made = plan(
        graph(
            mail("a", template=None, subject="x", text=body),
            node("b", "delay", until="{{ unsubscribe_url }}"),
            edges=[edge("a", "b")],
        )
    )
    assert [read.path for read in made.reads] == ["email", "name", "unsubscribe_url"]
    made = plan(graph(mail("a", template=None, subject="x", text=body)))
    assert [read.path for read in made.reads] == ["email", "name"]


def test_stored_templates_are_named_unless_a_step_names_them() -> None:
    made = plan(
        graph(
            mail("a", template="mail/welcome", variables={"b": 1, "a": 2}),
            mail("b", template="{{- order.template -}}"),
            mail("c", template="{{ a.template }}"),
            mail("d", template="{{ step_1_result.template }}"),
        )
    )
    assert made.templates == (
        TemplateUse("a", "email", steps=4, name="mail/welcome", provides=("a", "b")),
        TemplateUse("b", "email", steps=4, variable=RequiredVariable("order.template", ("order", "template"))),
    )
    several = [EMAIL | {"payload_template": {"to_email": "x", "template_id": f"t{number}"}} for number in range(2)]
    # In a list those before it.
    assert [(one.name, one.steps) for one in plan(steps(*several)).templates] == [("t0", 0), ("t1", 1)]
    assert [read.path for read in made.reads] == ["email", "order.template"]


@pytest.mark.parametrize("path", sorted(FOLDER.iterdir()), ids=lambda path: path.name)
def test_the_examples_are_workflows(path: Path) -> None:
    assert plan(path.read_bytes()).name == path.stem
    assert read_definition(path.read_bytes())["name"] == path.stem  # type: ignore[call-overload]  # it is no list


def test_the_three_workflows_ask_for_what_their_messages_read() -> None:
    accepted = plan((FOLDER / "proposal_accepted.json").read_text())
    assert [read.path for read in accepted.reads] == [
        *("email_template_id", "guest_email", "guest_name", "host_name"),
        *("listing_address", "start_date", "end_date", "monthly_rent"),
    ]
    assert accepted.required_fields == ("guest_email", "guest_name", "email_template_id")
    submitted = plan((FOLDER / "listing_submitted.json").read_text())
    assert [(one.on_failure, one.attempts) for one in submitted.nodes.values()] == [("continue", 1)] * 2
    assert [one.channel for one in submitted.nodes.values() if isinstance(one, Send)] == ["email", "chat"]
    (welcome,) = plan((FOLDER / "user_signup_complete.json").read_text()).nodes.values()
    assert (welcome.on_failure, welcome.attempts) == ("retry", 3)
