"""Ending: whoever has been let in is answered, and whoever comes later finds nobody, instead of a half-closed house."""

import asyncio
import http.client
import json
import signal
from urllib.parse import urlsplit

from tests.support.caller import delivery, make_key
from tests.support.program import Program
from tests.support.scene import Connection
from tests.support.waits import until

CALLERS = 16


def _call_on(program: Program, key: str, number: int) -> list[int]:
    """One request after the other on one connection, until that is closed; the statuses of their answers."""
    place = urlsplit(program.address)
    connection = http.client.HTTPConnection(place.hostname or "", place.port, timeout=30)
    head = {"authorization": f"Bearer {key}", "content-type": "application/json"}
    statuses: list[int] = []
    try:
        while True:
            body = json.dumps(delivery(f"ending-{number}-{len(statuses)}"))
            connection.request("POST", "/deliveries", body, head)
            answer = connection.getresponse()
            answer.read()
            statuses.append(answer.status)
            if answer.getheader("connection") == "close":
                return statuses
    except (http.client.HTTPException, OSError):
        return statuses
    finally:
        connection.close()


async def test_at_the_end_each_is_answered_or_not_let_in(program: Program, connection: Connection) -> None:
    await program.start()
    key = make_key(program)
    calling = [asyncio.create_task(asyncio.to_thread(_call_on, program, key, number)) for number in range(CALLERS)]

    async def written() -> bool:
        return int(await connection.fetchval("SELECT count(*) FROM dispatcher.deliveries")) > 5 * CALLERS

    await until(written, "they are being served")
    program.signal(signal.SIGTERM)
    assert await program.ended() == 0
    statuses = [status for one in await asyncio.gather(*calling) for status in one]
    assert set(statuses) == {201}
    assert await connection.fetchval("SELECT count(*) FROM dispatcher.deliveries") == len(statuses)
    assert not program.events("api.unavailable")
