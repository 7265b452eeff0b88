"""Properties of the intake: what a line of `send --file` may be, and every fault that it is told."""

import contextlib
import json
from datetime import UTC, datetime

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dispatcher.base.errors import InputError
from dispatcher.base.values.durations import instant
from dispatcher.config.settings import Config
from dispatcher.engine.rules.life import Lane
from dispatcher.features.deliveries.intake import FIELDS, intake
from dispatcher.features.deliveries.store import New

GOOD = {"idempotency_key": "k", "channel": "sms", "recipient": "+49155", "body": "Hello {{ name }}"}
INTAKE = intake(Config(), hurried=False)


def read(line: object) -> New:
    return INTAKE.read(line if isinstance(line, bytes) else json.dumps(line).encode())


def faults(line: object) -> dict[str, str]:
    with pytest.raises(InputError) as caught:
        read(line)
    return {fault.path: fault.message for fault in caught.value.faults}


def test_omitted_fields_get_the_schemas_defaults() -> None:
    assert read(GOOD) == New(
        idempotency_key="k", channel="sms", recipient="+49155", template='{"body":"Hello {{ name }}"}'
    )


def test_every_field_arrives() -> None:
    line = {
        "idempotency_key": "k",
        "channel": "email",
        "to": "a@example.org",
        "template": {"subject": "S", "text": "T"},
        "variables": {"a": [1]},
        "options": {"o": True},
        "lane": "bulk",
        "scheduled_for": "2030-01-01T02:00:00+02:00",
        "expires_at": "2030-01-02T00:00:00Z",
        "max_attempts": 7,
        "tenant_id": "t",
        "workspace_id": "w",
    }
    assert read(line) == New(
        idempotency_key="k",
        channel="email",
        recipient="a@example.org",
        template='{"subject": "S", "text": "T"}',
        variables='{"a": [1]}',
        options='{"o": true}',
        lane=Lane.BULK,
        scheduled_for=datetime(2030, 1, 1, tzinfo=UTC),
        expires_at=datetime(2030, 1, 2, tzinfo=UTC),
        max_attempts=7,
        tenant_id="t",
        workspace_id="w",
    )


def test_every_fault_is_named_at_once() -> None:
    found = faults({"channel": "fax", "recipient": 5, "lane": "express", "max_attempts": 0, "colour": "red"})
    assert found.keys() == {"idempotency_key", "channel", "recipient", "template", "lane", "max_attempts", "colour"}
    assert "known are: chat, email" in found["channel"]


@pytest.mark.parametrize(
    ("change", "path", "words"),
    [
        ({"channel": "emial"}, "channel", 'did you mean "email"?'),
        ({"recipent": "x"}, "recipent", 'did you mean "recipient"?'),
        ({"to": "x"}, "to", "beside recipient"),
        ({"template": {"body": "x"}}, "body", "beside template"),
        ({"body": "{{ name"}, "template.body", "does not parse"),
        ({"body": "{% if %}"}, "template.body", "does not parse"),
        ({"body": None, "template": {}}, "template", "has no parts"),
        ({"body": None, "template": {"body": 5}}, "template", "not an object of texts"),
        ({"body": None, "template": "x"}, "template", "expected an object, got a text"),
        ({"body": "x" * 300_000}, "template", "larger than"),
        ({"variables": {"v": "x" * 300_000}}, "variables", "over 262144"),
        ({"variables": []}, "variables", "expected an object, got a list"),
        ({"variables": {"a": [{"b": "\0"}]}}, "variables.a.0.b", "NUL"),
        ({"options": {"\0": 1}}, 'options."\\u0000"', "NUL"),
        ({"recipient": "a\0b"}, "recipient", "NUL"),
        ({"recipient": ""}, "recipient", "is empty"),
        ({"recipient": "x" * 2_001}, "recipient", "over 2000"),
        ({"idempotency_key": ""}, "idempotency_key", "is empty"),
        ({"idempotency_key": "x" * 256}, "idempotency_key", "over 255"),
        ({"tenant_id": ""}, "tenant_id", "is empty"),
        ({"idempotency_key": "𝄞" * 255, "tenant_id": "𝄞" * 255, "workspace_id": "𝄞" * 255}, "idempotency_key", "bytes"),
        ({"scheduled_for": "tomorrow"}, "scheduled_for", "RFC 3339"),
        ({"scheduled_for": 5}, "scheduled_for", "expected a text, got a number"),
        ({"expires_at": "2030-01-01T00:00:00"}, "expires_at", "zone"),
        ({"expires_at": "9999-12-31T23:00:00-14:00"}, "expires_at", "out of range"),
        ({"max_attempts": 101}, "max_attempts", "1 to 100"),
        ({"max_attempts": True}, "max_attempts", "1 to 100"),
        ({"lane": 0}, "lane", "expected a text"),
    ],
)
def test_a_fault_has_its_path(change: dict[str, object], path: str, words: str) -> None:
    found = faults(GOOD | change)
    assert list(found) == [path]
    assert words in found[path]


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (b'{"channel": "\xff"}', "not UTF-8 at byte 14"),
        (b"{", "not a JSON object"),
        (b"[1]", "not a JSON object"),
        (b'{"a": "\\ud800"}', "not a JSON object"),
        (b'{"a": ' + b"[" * 100_000, "nested too deep"),
    ],
)
def test_a_line_other_than_an_object_is_refused_with_the_reason(line: bytes, words: str) -> None:
    assert words in faults(line)["line"]


def test_numbers_are_kept_to_the_last_digit() -> None:
    line = b'{"idempotency_key":"k","channel":"sms","to":"1","body":"b","variables":{"n":0.10000000000000000000001}}'
    assert read(line).variables == '{"n":0.10000000000000000000001}'


def test_a_literal_backslash_is_not_a_nul() -> None:
    assert read(GOOD | {"variables": {"v": "\\u0000"}}).variables == '{"v": "\\\\u0000"}'


def test_a_social_post_needs_no_recipient_and_a_missing_variable_is_no_fault_of_the_line() -> None:
    assert read({"idempotency_key": "k", "channel": "social", "body": "{{ missing }}"}).recipient == ""


def test_null_is_the_same_as_nothing() -> None:
    assert read(GOOD | dict.fromkeys(set(FIELDS) - GOOD.keys())) == read(GOOD)


@given(st.binary(max_size=200))
def test_garbage_is_refused_and_never_a_crash(line: bytes) -> None:
    assert faults(line)


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


# On a busy machine even small objects take their time.
@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(st.dictionaries(st.sampled_from((*FIELDS, "to", "other")), _JSON))
def test_any_object_is_a_delivery_or_has_faults(line: dict[str, object]) -> None:
    with contextlib.suppress(InputError):
        assert read(line).channel in Config().channels


def test_a_time_is_in_utc() -> None:
    assert instant("2030-01-01T00:00:00.5+01:00") == datetime(2029, 12, 31, 23, 0, 0, 500_000, tzinfo=UTC)


def test_a_stored_template_stands_in_for_one_of_its_own() -> None:
    line = {name: value for name, value in GOOD.items() if name != "body"} | {
        "template_name": "welcome",
        "locale": "de",
    }
    new = read(line)
    assert (new.template, new.template_name, new.locale) == (None, "welcome", "de")


def test_a_template_of_its_own_may_be_named_and_has_no_locale() -> None:
    new = read(GOOD | {"template_name": "welcome"})
    assert (new.template, new.template_name) == ('{"body":"Hello {{ name }}"}', "welcome")
    assert faults(GOOD | {"locale": "de"}) == {"locale": "goes with template_name: a given template has one language"}


@pytest.mark.parametrize("field", ["template_name", "locale"])
@pytest.mark.parametrize("value", ["", "x" * 101, 7, "a\0"])
def test_names_of_templates_and_locales_are_short_texts(field: str, value: object) -> None:
    line = {name: value for name, value in GOOD.items() if name != "body"} | {"template_name": "t", field: value}
    assert field in faults(line)
