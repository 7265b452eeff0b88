"""The corpus: sound and unsound requests for every operation of an OpenAPI document, made once by Schemathesis."""

import importlib.util
import json
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote, urlencode

from msgspec import Struct

from bench.measure import BenchError

# Made of one seed: the same document gives the same corpus.
SEED = 17
HEADERS = ("Idempotency-Key", "If-Match", "Content-Type")
JSON = "application/json"


class Asked(Struct, frozen=True):
    """One request, before its key and what is done to it."""

    operation: str
    method: str
    path: str
    query: str
    headers: Sequence[tuple[str, str]]
    body: bytes | None


def available() -> bool:
    """Whether Schemathesis is installed: it comes with the extra `dev`."""
    return importlib.util.find_spec("schemathesis") is not None


def corpus(document: Mapping[str, Any], examples: int) -> list[Asked]:
    """So many of both kinds for every operation, and its example."""
    import schemathesis  # noqa: PLC0415 - it takes a second, and belongs to the extra `dev`
    from schemathesis.core.result import Err  # noqa: PLC0415 - as above
    from schemathesis.generation import GenerationMode  # noqa: PLC0415 - as above

    made: list[Asked] = []
    for found in schemathesis.openapi.from_dict(dict(document)).get_all_operations():
        if isinstance(found, Err):
            raise BenchError(f"the document has faults: {found.err()}")
        operation = found.ok()
        name = str(operation.definition.raw["operationId"])
        made.append(_example(name, operation.method.upper(), operation.path, operation.definition.raw))
        for mode in (GenerationMode.POSITIVE, GenerationMode.NEGATIVE):
            made += [_asked(name, one) for one in _drawn(operation.as_strategy(generation_mode=mode), examples)]
    return made


def _drawn(strategy: Any, examples: int) -> list[Any]:  # noqa: ANN401 - Schemathesis says no more of it
    from hypothesis import HealthCheck, Phase, given, seed, settings  # noqa: PLC0415 - as Schemathesis

    drawn: list[Any] = []

    @seed(SEED)
    @settings(
        max_examples=examples,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(strategy)
    def draw(case: Any) -> None:  # noqa: ANN401 - as above
        drawn.append(case)

    draw()
    return drawn


def _asked(operation: str, case: Any) -> Asked:  # noqa: ANN401 - as above
    told = case.as_transport_kwargs(base_url="http://x")
    data = told.get("data")
    if "json" in told:
        body = json.dumps(told["json"]).encode()
    elif data is None:
        body = None
    else:
        body = data if isinstance(data, bytes) else str(data).encode("utf-8", "replace")
    pairs = [(name, one) for name, value in (told.get("params") or {}).items() for one in _each(value)]
    headers = [(name, str(value)) for name, value in told["headers"].items() if name in HEADERS]
    path = told["url"].removeprefix("http://x").partition("?")[0]
    return Asked(operation, case.method.upper(), path, urlencode(pairs, errors="replace"), headers, body)


def _each(value: object) -> list[object]:
    return value if isinstance(value, list) else [value]


def _example(name: str, method: str, path: str, raw: Mapping[str, Any]) -> Asked:
    for parameter in raw.get("parameters", ()):
        value = "1" if parameter["schema"].get("type") == "integer" else "bench"
        path = path.replace("{" + parameter["name"] + "}", quote(value))
    content = raw.get("requestBody", {}).get("content", {}).get(JSON)
    if content is None:
        return Asked(name, method, path, "", [], None)
    return Asked(name, method, path, "", [("Content-Type", JSON)], json.dumps(content["example"]).encode())
