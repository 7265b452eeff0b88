"""The OpenAPI document: it says what there is, answers keep to it, and the page needs nothing from elsewhere."""

import re
from base64 import b64encode
from collections.abc import Iterator
from hashlib import sha256
from typing import Any

import jsonschema_rs
import msgspec
import pytest

from dispatcher.endpoints import ENDPOINTS
from dispatcher.features.dead_letters import models as dead_letters
from dispatcher.features.deliveries import models as deliveries
from dispatcher.features.deliveries.intake import ALIASES, FIELDS
from dispatcher.features.held import models as held
from dispatcher.features.runs import models as run_models
from dispatcher.http import reading
from dispatcher.http.endpoints import Endpoint
from dispatcher.http.openapi.document import document, example_of
from tests.http.test_matrix import ABOUT
from tests.support.caller import Caller, delivery

# As the requirements write them.
CAMEL_CASE = {
    *("entryNodeId", "delayMs"),
    # Those of sequences are all so, as their contract has some of them.
    *("addedAt", "anchor", "contactId", "contactIds", "createdAt", "currentStepIndex", "contentSnapshot", "dayOffset"),
    *("enrolledAt", "enrolledCount", "finishedAt", "isChanged", "isSending", "nextStep", "nextStepAt", "onFailure"),
    *("pausedAt", "sendHour", "sentAt", "skippedCount", "stepId", "stepOrder", "stopIf", "stopOn", "timeZone"),
    *("updatedAt", "updatedBy", "useContactTimeZone", "userId"),
}
SNAKE_CASE = re.compile(r"[a-z][a-z0-9_]*")
OPERATIONS_OF = {one.operation: one for one in ENDPOINTS}


def _references(value: Any) -> set[str]:
    match value:
        case dict():
            return {value["$ref"]} if "$ref" in value else set().union(*map(_references, value.values()))
        case list():
            return set().union(*map(_references, value))
        case _:
            return set()


async def test_every_endpoint_is_in_it_with_its_answers_and_an_example(admin: Caller) -> None:
    described = Caller(admin.program, None).get("/openapi.json").json
    assert described["openapi"] == "3.1.0"
    operations = [one for path in described["paths"].values() for one in path.values()]
    assert sorted(one["operationId"] for one in operations) == sorted(ABOUT)
    for one in operations:
        assert {"400", "401", "403", "408", "429", "431", "500", "503", "504"} <= set(one["responses"])
        if "requestBody" in one:
            assert one["requestBody"]["content"]["application/json"]["example"]
            assert {"413", "415"} <= set(one["responses"])
        named = {parameter["name"] for parameter in one["parameters"]}
        assert ("422" in one["responses"]) == ("Idempotency-Key" in named)
    names = {f"#/components/schemas/{name}" for name in described["components"]["schemas"]}
    assert _references(described) <= names


async def test_the_page_has_everything_and_fetches_nothing(admin: Caller) -> None:
    answer = Caller(admin.program, None).get("/reference")
    # What is written in an example is looked at, and not fetched.
    page = re.sub(r"<pre>.*?</pre>", "", answer.body.decode(), flags=re.DOTALL)
    assert answer.headers["content-type"].startswith("text/html")
    assert not re.search(r"<script .|<link|<img|src=|https?://|@import|url\(", page)
    policy = answer.headers["content-security-policy"].split("; ")
    assert {"default-src 'none'", "frame-ancestors 'none'"} <= set(policy)
    for kind in ("style", "script"):
        (text,) = re.findall(rf"<{kind}>(.*?)</{kind}>", page, flags=re.DOTALL)
        assert f"{kind}-src 'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'" in policy
    # What every operation may answer is said once.
    assert page.count("<td>429</td>") == 1
    for operation in ABOUT:
        assert f'id="{operation}"' in page


@pytest.mark.parametrize("one", [one for one in ENDPOINTS if one.given], ids=lambda one: one.operation)
def test_every_example_is_sound(one: Any) -> None:
    assert reading.read(msgspec.json.encode(one.example), one.given)


@pytest.mark.parametrize("one", ENDPOINTS, ids=lambda one: one.operation)
def test_every_answer_has_an_example_of_its_model(one: Any) -> None:
    assert type(msgspec.json.decode(msgspec.json.encode(example_of(one)), type=one.answer)) is one.answer


def _exemplified(value: Any) -> Iterator[tuple[Any, Any]]:
    """Each example of a content, beside its schema."""
    if not isinstance(value, dict):
        return
    if "schema" in value:
        shown = [value["example"]] if "example" in value else []
        shown += [one["value"] for one in value.get("examples", {}).values()]
        yield from ((value["schema"], one) for one in shown)
    else:
        for inner in value.values():
            yield from _exemplified(inner)


def test_every_example_keeps_to_its_schema() -> None:
    described = document(ENDPOINTS)
    found = list(_exemplified(described["paths"]))
    assert len(found) > len(ENDPOINTS) * 10
    # Each error has one schema, whichever operation it is of.
    validators: dict[str, jsonschema_rs.Draft202012Validator] = {}
    for schema, example in found:
        known = repr(schema)
        if known not in validators:
            whole = {**schema, "components": described["components"]}
            validators[known] = jsonschema_rs.Draft202012Validator(whole)
        assert not list(validators[known].iter_errors(example)), example


def test_names_are_in_snake_case_but_for_those_that_are_agreed_upon() -> None:
    described = document(ENDPOINTS)
    names = {name for one in described["components"]["schemas"].values() for name in one.get("properties", {})}
    for methods in described["paths"].values():
        for one in methods.values():
            names |= {parameter["name"] for parameter in one["parameters"] if parameter["in"] != "header"}
    assert len(names) > 100
    assert {name for name in names if not SNAKE_CASE.fullmatch(name)} <= CAMEL_CASE


@pytest.mark.parametrize("one", [one for one in ENDPOINTS if one.makes], ids=lambda one: one.operation)
def test_created_resources_link_to_their_operations(one: Endpoint) -> None:
    answers = document(ENDPOINTS)["paths"][one.path][one.method.lower()]["responses"]
    assert one.makes is not None
    name, field = one.makes
    assert field in {known.encode_name for known in msgspec.structs.fields(one.answer)}
    for status in {"200", str(one.status)}:
        links = answers[status]["links"]
        assert {OPERATIONS_OF[link["operationId"]].names[0] for link in links.values()} == {name}
        assert one.operation not in links


async def test_answers_keep_to_what_is_described(admin: Caller) -> None:
    """Every field of an answer is one of its model, and none is missing."""
    number = admin.post("/deliveries", delivery("described")).json["id"]
    for path, model in (
        ("/deliveries", deliveries.Deliveries),
        (f"/deliveries/{number}", deliveries.WholeDelivery),
        ("/runs", run_models.Runs),
        ("/held", held.HeldDeliveries),
        ("/dead-letters/runs", dead_letters.DeadLetters),
    ):
        answer = admin.get(path)
        assert set(answer.json) == {field.encode_name for field in msgspec.structs.fields(model)}
        msgspec.json.decode(answer.body, type=model)


def test_a_delivery_is_described_with_the_fields_that_are_read() -> None:
    described = set(deliveries.NewDelivery.__struct_fields__)
    assert described == {*FIELDS, *ALIASES} - {"tenant_id", "workspace_id"}
