"""Garbage: whatever is sent to whichever endpoint, the answer is one that was meant, and never a crash."""

import json
import random
from base64 import urlsafe_b64decode
from collections.abc import Mapping
from copy import deepcopy
from typing import Any
from urllib.parse import quote

import pytest

from dispatcher.endpoints import ENDPOINTS
from dispatcher.http.cursors import ID_MAX, cursor
from dispatcher.http.endpoints import Endpoint
from tests.http.test_schemathesis import KNOWN
from tests.support.caller import Caller
from tests.support.scene import Connection

ROUNDS = 40
VALUES: tuple[Any, ...] = (
    None,
    True,
    0,
    -1,
    2**63,
    10**400,
    1e308,
    "",
    " ",
    "\0",
    "\ud800",
    "x" * 3_000,
    "{{ x",
    "{% for",
    "' OR 1=1 --",
    "2030-01-01T00:00:00Z",
    "0001-01-01T00:00:00+14:00",
    "9999-12-31T23:59:59-14:00",
    [],
    [[]],
    {},
    {"": {}},
    {"a": {"b": [None]}},
    {"body": "{{ x }}"},
)
PLACES = (
    "1",
    "0",
    "-1",
    "x",
    "9" * 19,
    "9" * 40,
    "welcome",
    "%00",
    "%ff",
    "..",
    "%2e%2e",
    "a%2Fb",
    "\u00e4",
    "'",
    "1;",
)

# Where lists with cursors are, and whom two of them ask about.
_WHOM = {"getTimeline": "&address=a@example.org", "exportPerson": "&address=a@example.org"}
LISTS = {
    one.operation: f"{one.path}?cursor={{cursor}}{_WHOM.get(one.operation, '')}"
    for one in ENDPOINTS
    if "query.cursor" in KNOWN.get(one.operation, ())
}


def _mutated(dice: random.Random, example: Mapping[str, Any]) -> bytes:
    """An example in which something is not as it should be."""
    body: Any = json.loads(json.dumps(example))
    for _ in range(dice.randint(1, 3)):
        inside = body
        while isinstance(inside, dict) and inside:
            name = dice.choice(list(inside))
            if isinstance(inside[name], dict) and inside[name] and dice.random() < 0.5:
                inside = inside[name]
            elif dice.random() < 0.2:
                del inside[name]
                break
            elif dice.random() < 0.2:
                inside[str(dice.choice(VALUES))] = deepcopy(dice.choice(VALUES))
                break
            else:
                inside[name] = deepcopy(dice.choice(VALUES))
                break
    text = json.dumps(body).encode()
    if dice.random() < 0.2:
        at = dice.randrange(len(text))
        text = text[:at] + dice.randbytes(dice.randint(0, 4)) + text[at + dice.randint(0, 4) :]
    return text


def _query(dice: random.Random, one: Endpoint) -> str:
    names = [*one.query.__struct_fields__, "x", ""]
    some = [f"{dice.choice(names)}={quote(str(dice.choice(VALUES))[:200], errors='replace')}" for _ in range(2)]
    return "?" + "&".join(some) if dice.random() < 0.7 else ""


@pytest.mark.parametrize("one", ENDPOINTS, ids=lambda one: one.operation)
async def test_no_request_makes_it_crash(one: Endpoint, admin: Caller, inside: Connection) -> None:
    dice = random.Random(one.operation)  # noqa: S311 - the same requests each time
    for _ in range(ROUNDS):
        path = one.path
        for name in one.names:
            path = path.replace(f"{{{name}}}", quote(dice.choice(PLACES), safe="%"))
        path += _query(dice, one) if one.method == "GET" else ""
        body = _mutated(dice, one.example) if one.example is not None else None
        headers = [("idempotency-key", f"{one.operation}-{dice.randrange(5)}")] if dice.random() < 0.3 else []
        answer = admin.call(one.method, path, body, headers)
        assert answer.status < 500, (one.method, path, body, answer)
        if answer.status >= 400 and not one.enveloped:
            assert answer.json["status"] == answer.status
    assert not admin.program.events("api.failed") + admin.program.events("http.failed")


def _numbers(operation: str) -> tuple[str, int]:
    """What the cursor of a list is called, and how many numbers it has."""
    text = KNOWN[operation]["query.cursor"]
    noun, *values = json.loads(urlsafe_b64decode(text + "=" * (-len(text) % 4)))
    return noun, len(values) if all(isinstance(value, int) for value in values) else 0


@pytest.mark.parametrize("number", [1, 2**31, ID_MAX])
@pytest.mark.parametrize("operation", [one for one in LISTS if _numbers(one)[1]])
async def test_no_number_in_a_cursor_makes_it_crash(
    operation: str, number: int, admin: Caller, inside: Connection
) -> None:
    """They are not signed: any text may be tried."""
    noun, count = _numbers(operation)
    told = {
        "run_id": str(admin.post("/workflows/welcome/triggers", {"input": {}}).json["execution_id"]),
        "campaign_run_id": "1",
        "name": "welcome",
        "cursor": cursor(noun, *[number] * count),
    }
    answer = admin.get(LISTS[operation].format_map(told))
    assert answer.status in {200, 400, 404}, answer
    assert answer.status != 400 or list(answer.faults) == ["query.cursor"]
