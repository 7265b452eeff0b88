"""The gate: so many requests at a time, and probes in any case."""

import asyncio
import json
from typing import Any

from dispatcher.http.server.listener import Gate

PLACES = 3


class _Crowd:
    """An application that answers when it is told to, and what it was asked."""

    def __init__(self) -> None:
        self.go = asyncio.Event()
        self.came: asyncio.Queue[str] = asyncio.Queue()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        self.came.put_nowait(scope["path"])
        await self.go.wait()
        await send({"type": "http.response.start", "status": 200, "headers": [], "trailers": False})
        await send({"type": "http.response.body", "body": b"", "more_body": False})


async def _ask(gate: Gate, path: str) -> list[Any]:
    said: list[Any] = []

    async def send(message: Any) -> None:
        said.append(message)

    async def receive() -> Any:
        return {"type": "http.request", "body": b"", "more_body": False}

    scope: Any = {"type": "http", "path": path, "headers": []}
    await gate(scope, receive, send)
    return said


async def test_over_so_many_requests_the_next_is_refused_and_probes_are_not() -> None:
    crowd = _Crowd()
    gate = Gate(crowd, PLACES)
    asked = [asyncio.create_task(_ask(gate, path)) for path in ["/runs"] * PLACES]
    assert [await crowd.came.get() for _ in asked] == ["/runs"] * PLACES
    refused = await _ask(gate, "/runs")
    assert (refused[0]["status"], dict(refused[0]["headers"])[b"retry-after"]) == (503, b"1")
    assert json.loads(refused[1]["body"])["type"] == "urn:dispatcher:problem:crowded"
    probe = asyncio.create_task(_ask(gate, "/healthz"))
    assert await crowd.came.get() == "/healthz"
    crowd.go.set()
    assert [one[0]["status"] for one in await asyncio.gather(*asked, probe)] == [200] * (PLACES + 1)
    assert (await _ask(gate, "/runs"))[0]["status"] == 200


async def test_answers_are_counted_with_their_status_and_probes_are_not() -> None:
    crowd = _Crowd()
    crowd.go.set()
    counted: list[tuple[int, bool]] = []
    gate = Gate(crowd, PLACES, answered=lambda status, seconds: counted.append((status, seconds >= 0)))
    for path in ("/runs", "/metrics", "/healthz", "/readyz"):
        await _ask(gate, path)
    assert counted == [(200, True)]
    crowd.go.clear()
    asked = [asyncio.create_task(_ask(gate, "/runs")) for _ in range(PLACES + 1)]
    await asked[-1]
    assert counted == [(200, True), (503, True)]
    crowd.go.set()
    await asyncio.gather(*asked)
    assert [status for status, _ in counted] == [200, 503] + [200] * PLACES
