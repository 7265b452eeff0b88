"""The OpenAPI document: it says what there is, answers keep to it, and the page needs nothing from elsewhere."""

import re
from typing import Any

import msgspec
import pytest

from dispatcher.api import models, reading, run_models
from dispatcher.api.examples import EXAMPLES
from dispatcher.api.interface import ENDPOINTS
from dispatcher.store.intake import ALIASES, FIELDS
from tests.api.caller import Caller, delivery
from tests.api.test_matrix import ABOUT


def _references(value: Any) -> set[str]:
    match value:
        case dict():
            return {value["$ref"]} if "$ref" in value else set().union(*map(_references, value.values()))
        case list():
            return set().union(*map(_references, value))
        case _:
            return set()


async def test_every_endpoint_is_in_it_with_its_answers_and_an_example(admin: Caller) -> None:
    document = Caller(admin.program, None).get("/openapi.json").json
    assert document["openapi"] == "3.1.0"
    operations = [one for path in document["paths"].values() for one in path.values()]
    assert sorted(one["operationId"] for one in operations) == sorted(ABOUT)
    for one in operations:
        assert {"400", "401", "403", "429", "500", "503"} <= set(one["responses"])
        if "requestBody" in one:
            assert one["requestBody"]["content"]["application/json"]["example"]
            assert {"413", "415", "422"} <= set(one["responses"])
    names = {f"#/components/schemas/{name}" for name in document["components"]["schemas"]}
    assert _references(document) <= names


async def test_the_page_has_everything_and_fetches_nothing(admin: Caller) -> None:
    answer = Caller(admin.program, None).get("/reference")
    page = answer.body.decode()
    assert answer.headers["content-type"].startswith("text/html")
    assert not re.search(r"<script|<link|<img|src=|https?://|@import|url\(", page)
    assert "default-src 'none'" in answer.headers["content-security-policy"]
    for operation in ABOUT:
        assert f'id="{operation}"' in page


@pytest.mark.parametrize("one", [one for one in ENDPOINTS if one.given], ids=lambda one: one.operation)
def test_every_example_is_sound(one: Any) -> None:
    assert reading.read(msgspec.json.encode(one.example), one.given)


@pytest.mark.parametrize("one", ENDPOINTS, ids=lambda one: one.operation)
def test_every_answer_has_an_example_of_its_model(one: Any) -> None:
    assert type(msgspec.convert(EXAMPLES[one.answer], one.answer)) is one.answer


async def test_answers_keep_to_what_is_described(admin: Caller) -> None:
    """Every field of an answer is one of its model, and none is missing."""
    number = admin.post("/deliveries", delivery("described")).json["id"]
    for path, model in (
        ("/deliveries", models.Deliveries),
        (f"/deliveries/{number}", models.WholeDelivery),
        ("/runs", run_models.Runs),
        ("/held", models.HeldDeliveries),
        ("/dead-letters/runs", models.Letters),
    ):
        answer = admin.get(path)
        assert set(answer.json) == {field.encode_name for field in msgspec.structs.fields(model)}
        msgspec.json.decode(answer.body, type=model)


def test_a_delivery_is_described_with_the_fields_that_are_read() -> None:
    described = set(models.NewDelivery.__struct_fields__)
    assert described == {*FIELDS, *ALIASES} - {"tenant_id", "workspace_id"}
