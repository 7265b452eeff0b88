"""The deliveries that nodes order: recipients, templates, variables and bodies, out of the context."""

from typing import Any

import msgspec
import pytest
from msgspec import structs

from dispatcher.plans.plan import Call
from dispatcher.plans.texts import Bounds
from dispatcher.plans.walk.run import Order
from tests.plans.walks import World, plan, send

NEST: Any = 1
for _ in range(5_000):
    NEST = [NEST]


def ordered(node: Any, given: dict[str, Any] | None = None, bounds: Bounds = Bounds()) -> Order:  # noqa: B008 - frozen
    """The order of a plan of one node."""
    answer = World(plan({"one": node}), given, bounds).walk()
    assert answer.error is None
    (order,) = answer.orders
    return order


def fault(node: Any, given: dict[str, Any] | None = None, bounds: Bounds = Bounds()) -> str:  # noqa: B008 - frozen
    """Why it orders nothing."""
    answer = World(plan({"one": node}), given, bounds).walk()
    assert answer.error is not None
    return answer.error


@pytest.mark.parametrize(
    ("to", "given", "recipients"),
    [
        (("{{ all }}",), {"all": ["a", "b"]}, ("a", "b")),
        ((" {{ all }}\n",), {"all": ["a", "b"]}, ("a", "b")),
        (("{{ user.phones[0] }}",), {"user": {"phones": ["+1", "+2"]}}, ("+1",)),
        (("{{ user.phones.last }}",), {"user": {"phones": ["+1", "+2"]}}, ("+2",)),
        (("{{ number }}",), {"number": 4915}, ("4915",)),
        (("{{ a }}@example.org", "bob"), {"a": "ann"}, ("ann@example.org", "bob")),
        (("ann", " ann ", "{{ all }}"), {"all": ["ann", "", None, "bob"]}, ("ann", "bob")),
    ],
)
def test_recipients_are_texts_numbers_and_lists_of_them_each_once(
    to: tuple[str, ...], given: dict[str, Any], recipients: tuple[str, ...]
) -> None:
    assert ordered(send(1, *to), given).recipients == recipients


@pytest.mark.parametrize(
    ("name", "recipient"),
    [
        ("Ann", '"Ann" <ann@example.org>'),
        (7, '"7" <ann@example.org>'),
        ("Ann\r\nBcc: bob@example.org", '"Ann Bcc: bob@example.org" <ann@example.org>'),
        ('A "B" \\', '"A \\"B\\" \\\\" <ann@example.org>'),
        ("A\u200eB\ud800", '"AB" <ann@example.org>'),
        ("", "ann@example.org"),
        (" \u200d\u200e", "ann@example.org"),
        (None, "ann@example.org"),
        ("x" * 1_000, f'"{"x" * 320}" <ann@example.org>'),
    ],
)
def test_a_name_stands_in_quotes_before_the_address(name: Any, recipient: str) -> None:
    node = structs.replace(send(0, "ann@example.org", "Bob <bob@example.org>"), to_name="{{ name }}")
    assert ordered(node, {"name": name}).recipients == (recipient, "Bob <bob@example.org>")


def test_a_message_for_slack_is_made_when_it_is_ordered_and_its_values_are_escaped() -> None:
    for body in ("{{ name }}", "{{- name -}}", "{{ name | append: '' }}", "{% assign x = name %}{{ x }}"):
        node = structs.replace(send(0, "room", channel="chat", parts={"body": body}), escapes=True)
        order = ordered(node, {"name": '<!channel> & "it\'s"', "secret": 1})
        assert (order.parts, order.variables) == (
            {"body": "{{ body }}"},
            {"body": '&lt;!channel&gt; &amp; "it\'s"'},
        )


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ([], "to: no recipient"),
        (None, "to: no recipient"),
        (" ", "to: no recipient"),
        ([{"email": "a"}], "to: a text is needed, not an object"),
        ([["a"]], "to: a text is needed, not a list"),
        (True, "to: a text is needed, not true or false"),
        (["a", "b", "c", "d"], "to: more than 3 recipients"),
    ],
)
def test_a_send_without_recipients_fails_the_node(given: Any, words: str) -> None:
    assert fault(send(1, "{{ all }}"), {"all": given}, Bounds(recipients_max=3)) == words


def test_a_node_may_have_as_many_recipients_as_it_may() -> None:
    assert len(ordered(send(1, "{{ all }}"), {"all": ["a", "b", "c"]}, Bounds(recipients_max=3)).recipients) == 3


def test_a_post_has_its_channel_for_a_recipient() -> None:
    assert ordered(send(1, channel="social", to=())).recipients == ("social",)


def test_parts_get_what_they_read_with_the_nodes_own_variables_before_the_context() -> None:
    node = send(
        1,
        parts={
            "subject": "{{ name }} {{ greeting }} {{ step_6_result.a }}",
            "text": "{{ step_4_result.recipients[1].status }} {{ step_5_error }}",
        },
        reads=("name", "greeting", "step_4_result"),
        variables={"greeting": "Hello {{ name | upcase }}", "unread": 1},
    )
    order = ordered(node, {"name": "Ann", "greeting": "no", "other": 1, "step_6_result": {"a": 1, "b": 2}})
    assert order.parts == node.parts
    assert order.variables == {
        "name": "Ann",
        "greeting": "Hello ANN",
        "step_4_result": {"recipients": [None, {"status": None}]},
        "step_5_error": None,
        "step_6_result": {"a": 1, "b": 2},
    }


def test_a_stored_template_gets_everything() -> None:
    node = send(1, parts=None, template="{{ kind }}", variables={"n": "{{ items }}"})
    order = ordered(node, {"kind": "welcome", "items": [1, 2]})
    assert (order.template, order.parts) == ("welcome", None)
    assert order.variables == {"kind": "welcome", "items": [1, 2], "n": [1, 2]}


@pytest.mark.parametrize("kind", ["", None, " "])
def test_a_template_without_a_name_fails_the_node(kind: Any) -> None:
    assert fault(send(1, parts=None, template="{{ kind }}"), {"kind": kind}) == "template: an empty name"


def test_an_order_has_what_its_node_says() -> None:
    node = send(
        1,
        options={"from": "{{ shop }}", "n": 1},
        locale="{{ locale }}",
        topic="news",
        lane=2,
        expires_seconds=60.0,
        attempts=7,
    )
    order = ordered(node, {"shop": "us@example.org", "locale": "de"})
    assert order.options == {"from": "us@example.org", "n": 1}
    assert (order.locale, order.topic, order.lane, order.expires_seconds, order.attempts) == ("de", "news", 2, 60.0, 7)
    assert ordered(node, {"shop": "s", "locale": None}).locale is None


def test_a_call_carries_its_action_and_payload() -> None:
    payload = {
        "user": "{{ user }}",
        "words": ["Hi {{ user.name }}", "{{ step_9_error }}", 1, None],
        "plain": {"a": "b"},
    }
    node = Call(step=1, function="crm", action="add", payload=payload, attempts=5)
    order = ordered(node, {"user": {"name": "Ann", "age": 7}})
    assert (order.channel, order.recipients, order.attempts) == ("http", ("crm",), 5)
    assert order.parts == {"body": "{{ body }}"}
    assert order.options == {"timeout_seconds": 60.0}
    assert msgspec.json.decode(order.variables["body"]) == {
        "action": "add",
        "payload": {"user": {"name": "Ann", "age": 7}, "words": ["Hi Ann", "", 1, None], "plain": {"a": "b"}},
    }


def test_a_payload_has_a_limit_for_all_of_it() -> None:
    node = Call(step=1, function="crm", action="add", payload=["{{ big }}", "{{ big }}"])
    bounds = Bounds(value_bytes_max=1_000)
    assert fault(node, {"big": "x" * 501}, bounds) == "payload: becomes larger than 1000 bytes"
    assert fault(node, {"big": ["x" * 501]}, bounds) == "payload: becomes larger than 1000 bytes"
    ordered(node, {"big": "x" * 500}, bounds)


@pytest.mark.parametrize("value", [NEST, "\ud800", {"a": "\ud800"}])
def test_a_value_that_is_not_json_fails_its_node(value: Any) -> None:
    words = fault(Call(step=1, function="crm", action="add", payload=["{{ odd }}"]), {"odd": value})
    assert words.startswith("payload: cannot be written as JSON: ")


def test_a_missing_variable_is_named_with_its_place() -> None:
    node = Call(step=1, function="crm", action="add", payload={"a": ["x", "{{ user.name | upcase }}"]})
    assert fault(node, {"user": {}}).startswith("payload.a[1]: missing variable: line 1: user.name")
    assert fault(send(1, "{{ size }}"), {}) == "to: missing variable: size"


def test_null_and_an_empty_text_are_there() -> None:
    node = Call(step=1, function="f", action="a", payload=["{{ a }}", "{{ b }}", "{{ a }}!"])
    assert msgspec.json.decode(ordered(node, {"a": None, "b": ""}).variables["body"])["payload"] == [None, "", "!"]


@pytest.mark.parametrize(
    ("text", "given", "rendered"),
    [
        ("{{ step_1_result.a.b }}!", {}, "!"),
        ("{{ step_1_result.a }}!", {"step_1_result": None}, "!"),
        ("{{ step_1_result.a }}!", {"step_1_result": {"a": 1}}, "1!"),
        ("{{ step_1_result.a }}{{ step_1_result.b }}!", {"step_1_result": {"a": 1}}, "1!"),
        ("{{ step_1_result.items[2].a }}!", {"step_1_result": {"items": [{"a": 1}]}}, "!"),
        ("{% for one in step_1_result.items %}{{ one.a }}{% endfor %}!", {}, "!"),
        ("{{ step_1_error | default: 'none' }}!", {}, "none!"),
        ("{% if step_1_error %}bad{% endif %}!", {}, "!"),
        ("{{ step_1_result }}", {}, ""),
        ("{{ step_1_result.a }}", {"step_1_result": {"b": 1}}, ""),
    ],
)
def test_a_variable_that_a_step_did_not_provide_is_empty(text: str, given: dict[str, Any], rendered: str) -> None:
    node, before = Call(step=7, function="f", action="a", payload=text), msgspec.json.encode(given)
    assert msgspec.json.decode(ordered(node, given).variables["body"])["payload"] == rendered
    assert msgspec.json.encode(given) == before


def test_a_text_that_renders_too_much_fails_its_node() -> None:
    words = fault(send(1, "{{ a }}{{ a }}"), {"a": "x" * 60}, Bounds(text_bytes_max=100))
    assert words.startswith("to: ")
