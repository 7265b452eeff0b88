"""A caller: what speaks HTTP to the real program, with a key."""

import http.client
import json
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit
from uuid import uuid4

from msgspec import Struct

from tests.http import described
from tests.support.program import Program

WHY = ("--reason", "a test", "--actor", "test")
SECONDS_MAX = 30


class Answer(Struct, frozen=True):
    """An answer. Names of headers are in small letters."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        """It as JSON."""
        return json.loads(self.body)

    @property
    def faults(self) -> dict[str, str]:
        """The faults of a problem by their paths."""
        return {fault["path"]: fault["message"] for fault in self.json["faults"]}


class Caller:
    """Calls one program with one key."""

    def __init__(self, program: Program, key: str | None) -> None:
        self.program = program
        self.key = key

    def call(
        self,
        method: str,
        path: str,
        body: object = None,
        headers: Sequence[tuple[str, str]] = (),
    ) -> Answer:
        """One request on a connection of its own. Bytes are sent as they are, everything else as JSON.

        Whatever is answered has to stand in the document.
        """
        sent = dict[str, str]() if self.key is None else {"authorization": f"Bearer {self.key}"}
        content = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
        if content is not None:
            sent["content-type"] = "application/json"
        place = urlsplit(self.program.address)
        connection = http.client.HTTPConnection(place.hostname or "", place.port, timeout=SECONDS_MAX)
        try:
            connection.request(method, path, content, sent | dict(headers))
            answer = connection.getresponse()
            got = Answer(answer.status, {n.lower(): v for n, v in answer.getheaders()}, answer.read())
            described.check(method, path, got.status, got.headers.get("content-type", ""), got.body)
            return got
        finally:
            connection.close()

    def get(self, path: str, **headers: str) -> Answer:
        """Look at something."""
        return self.call("GET", path, headers=_headers(headers))

    def post(self, path: str, body: object, **headers: str) -> Answer:
        """Ask for something to be done."""
        return self.call("POST", path, body, _headers(headers))


def _headers(given: Mapping[str, str]) -> list[tuple[str, str]]:
    return [(name.replace("_", "-"), value) for name, value in given.items()]


def make_key(program: Program, role: str = "systemAdmin", tenant: str = "default", workspace: str = "default") -> str:
    """A key, as an operator makes one."""
    words = ("--role", role, "--tenant", tenant, "--workspace", workspace, *WHY)
    made = program.run("keys", "create", f"{role}.{uuid4().hex[:8]}", *words)
    assert made.returncode == 0, made.stderr
    return made.stdout.decode().strip()


def delivery(key: str, **fields: object) -> dict[str, Any]:
    """A delivery as a request says it."""
    return {"idempotency_key": key, "channel": "sms", "recipient": "+4917012345", "body": "hello"} | fields


def exact(body: object) -> bytes:
    """JSON in which 1.125 is written as 1.1250, which a program that counts with it would not keep."""
    return json.dumps(body).replace("1.125", "1.1250").encode()
