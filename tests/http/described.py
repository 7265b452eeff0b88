"""Described answers: an answer that the document does not have for its operation fails the test that gets it."""

import json
import re
from functools import cache
from typing import Any

from dispatcher.endpoints import ENDPOINTS
from dispatcher.http.openapi.document import document
from dispatcher.http.problems import KIND_PREFIX, MEDIA_TYPE


@cache
def _operations() -> list[tuple[str, re.Pattern[str], str, dict[str, Any]]]:
    """Each operation: its method, its path, its name and its answers. What is called by its name comes first."""
    found = [
        (method.upper(), re.compile(re.sub(r"\{\w+\}", "[^/]+", path)), one["operationId"], one["responses"])
        for path, methods in sorted(document(ENDPOINTS)["paths"].items(), key=lambda each: each[0].count("{"))
        for method, one in methods.items()
    ]
    assert len(found) == len(ENDPOINTS)
    return found


def check(method: str, path: str, status: int, media_type: str, body: bytes) -> None:
    """Fail where an operation has no such answer."""
    for known, pattern, operation, answers in _operations():
        if known == method and pattern.fullmatch(path.partition("?")[0]):
            said = answers.get(str(status))
            assert said is not None, f"{operation} is not described to answer {status}: {body[:500]!r}"
            if media_type == MEDIA_TYPE:
                kind = json.loads(body)["type"].removeprefix(KIND_PREFIX)
                assert kind in said["content"][MEDIA_TYPE]["examples"], f"{operation} is not described to be {kind}"
            return
