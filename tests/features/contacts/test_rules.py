"""Contacts: what may be said of one, in which form it is kept, and every fault with its path."""

from typing import Any

import pytest

from dispatcher.base.errors import Fault
from dispatcher.features.contacts.rules import (
    ADDRESSES_MAX,
    ATTRIBUTES_BYTES_MAX,
    ATTRIBUTES_DEPTH_MAX,
    TAGS_MAX,
    ContactInput,
    read,
)


def _sound(**fields: Any) -> ContactInput:
    said = read({"key": "a", **fields}, whole=False)
    assert isinstance(said, ContactInput), said
    return said


def _faults(**fields: Any) -> dict[str, str]:
    found = read({"key": "a", **fields}, whole=False)
    assert isinstance(found, list)
    return {fault.path: fault.message for fault in found}


def test_everything_is_kept_in_its_one_form() -> None:
    said = _sound(
        name=" Ann Lee ",
        locale="pt_br",
        tags=["b", "a", "b"],
        addresses=[
            {"kind": "email", "address": "Ann.Lee@Example.ORG"},
            {"address": "0049 (0) 170 12345"},
            {"kind": "email", "address": "ann.lee@example.org."},
            {"kind": "push", "address": "token-1"},
        ],
    )
    assert (said.fields["name"], said.fields["locale"], said.fields["tags"]) == ("Ann Lee", "pt-BR", ["a", "b"])
    assert said.fields["addresses"] == [
        {"kind": "email", "address": "ann.lee@example.org", "written": "Ann.Lee@example.org"},
        {"kind": "phone", "address": "+4917012345", "written": "+4917012345"},
        {"kind": "push", "address": "token-1", "written": "token-1"},
    ]


def test_omitted_fields_are_emptied_by_put_and_unchanged_by_patch() -> None:
    whole = read({"name": "Ann"}, key="a")
    assert isinstance(whole, ContactInput)
    assert whole.fields == {
        "name": "Ann",
        "company": None,
        "status": "active",
        "time_zone": None,
        "locale": None,
        "tags": [],
        "attributes": {},
        "addresses": [],
    }
    assert _sound(name="Ann").fields == {"name": "Ann"}
    assert _sound(company=None, tags=None).fields == {"company": None, "tags": []}


@pytest.mark.parametrize(
    ("fields", "path", "words"),
    [
        ({"nam": "x"}, "$.nam", 'did you mean "name"'),
        ({"key": "a b"}, "$.key", "expected 1 to 200"),
        ({"key": ""}, "$.key", "expected 1 to 200"),
        ({"name": 7}, "$.name", "expected a text"),
        ({"name": " "}, "$.name", "1 to 200"),
        ({"name": "x" * 201}, "$.name", "1 to 200"),
        ({"name": "a\0b"}, "$.name", "NUL"),
        ({"name": "\ud800"}, "$.name", "surrogate"),
        ({"time_zone": "Mars/Base"}, "$.time_zone", "no such time zone"),
        ({"time_zone": "europe/berlin"}, "$.time_zone", "is written Europe/Berlin"),
        ({"locale": "!"}, "$.locale", "not a locale"),
        ({"tags": "a"}, "$.tags", "expected a list"),
        ({"tags": ["a"] * (TAGS_MAX + 1)}, "$.tags", "items, over"),
        ({"tags": ["ok", ""]}, "$.tags[1]", "1 to 100"),
        ({"attributes": []}, "$.attributes", "expected an object"),
        ({"attributes": {"x": "y" * ATTRIBUTES_BYTES_MAX}}, "$.attributes", "bytes"),
        ({"attributes": {"x": [{"\0": 1}]}}, "$.attributes", "NUL"),
        ({"attributes": {"x": float("inf")}}, "$.attributes", "out of range"),
        ({"addresses": [{"kind": "email"}]}, "$.addresses[0]", "expected {"),
        ({"addresses": [{"address": "ann"}]}, "$.addresses[0].address", "name its kind"),
        ({"addresses": [{"kind": "fax", "address": "ann"}]}, "$.addresses[0].address", "name its kind"),
        ({"addresses": [{"kind": "phone", "address": "+1"}]}, "$.addresses[0].address", "no phone number"),
        ({"addresses": [{"kind": "push", "address": "x" * 501}]}, "$.addresses[0].address", "500"),
        ({"addresses": [{}] * (ADDRESSES_MAX + 1)}, "$.addresses", "items, over"),
    ],
)
def test_every_fault_has_its_path(fields: dict[str, Any], path: str, words: str) -> None:
    assert words in _faults(**fields)[path]


def test_all_faults_are_reported_at_once() -> None:
    assert list(_faults(time_zone="x", tags=[1, "ok", 2], addresses=[{"address": "?"}])) == [
        "$.time_zone",
        "$.tags[0]",
        "$.tags[2]",
        "$.addresses[0].address",
    ]
    assert read([], "$[3]") == [Fault("$[3]", "expected an object")]


def test_attributes_are_as_deep_as_they_may_be() -> None:
    deep: Any = 1
    for _ in range(ATTRIBUTES_DEPTH_MAX - 1):
        deep = {"x": deep}
    assert _sound(attributes=deep).fields["attributes"] == deep
    assert "nested" in _faults(attributes={"x": deep})["$.attributes"]
