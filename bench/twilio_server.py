"""A server that answers as Twilio does, as cheaply as Python can: a process of its own, which only counts."""

import asyncio
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count

import uvloop

from bench.measure import BenchError
from bench.process import ROOT

ACCOUNT = "AC" + "0" * 32
_length = re.compile(rb"\r\ncontent-length: *([0-9]+)", re.IGNORECASE).search
_HEAD = b"HTTP/1.1 201 CREATED\r\nContent-Type: application/json;charset=utf-8\r\nContent-Length: %d\r\n\r\n"
# The fields of a message as the API has them; the SID takes the place of the percent sign.
_MESSAGE = json.dumps(
    {
        "account_sid": ACCOUNT,
        "api_version": "2010-04-01",
        "body": "Hi Ann, your order A-1 ships on Monday. Track it: https://sms.example/A-1",
        "date_created": "Thu, 24 Aug 2023 05:01:45 +0000",
        "date_sent": None,
        "date_updated": "Thu, 24 Aug 2023 05:01:45 +0000",
        "direction": "outbound-api",
        "error_code": None,
        "error_message": None,
        "from": "+15005550006",
        "num_media": "0",
        "num_segments": "1",
        "price": None,
        "price_unit": "USD",
        "messaging_service_sid": None,
        "sid": "%s",
        "status": "queued",
        "subresource_uris": {"media": f"/2010-04-01/Accounts/{ACCOUNT}/Messages/Media.json"},
        "to": "+4915110000001",
        "uri": f"/2010-04-01/Accounts/{ACCOUNT}/Messages.json",
    }
).encode()
_numbers = count(1)


class Connection(asyncio.Protocol):
    """One kept connection."""

    def __init__(self) -> None:
        self._received = b""
        self._transport: asyncio.Transport

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # a socket's can write
        """Keep what answers go to."""
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        """Answer each request that has arrived whole."""
        self._received += data
        while (end := self._received.find(b"\r\n\r\n")) >= 0:
            found = _length(self._received, 0, end)
            behind = end + 4 + (int(found[1]) if found else 0)
            if len(self._received) < behind:
                return
            body = b"" if self._received.startswith(b"HEAD ") else _MESSAGE % (b"SM%032x" % next(_numbers))
            self._received = self._received[behind:]
            self._transport.write(_HEAD % len(body) + body)


async def _serve() -> None:
    server = await asyncio.get_running_loop().create_server(Connection, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


@contextmanager
def twilio_server() -> Iterator[str]:
    """The URL of a running server."""
    running = subprocess.Popen([sys.executable, "-m", __name__], stdout=subprocess.PIPE, cwd=ROOT, text=True)
    try:
        port = "" if running.stdout is None else running.stdout.readline().strip()
        if not port:
            raise BenchError("the server that answers as Twilio does has not started")
        yield f"http://127.0.0.1:{port}"
    finally:
        running.kill()
        running.wait()


if __name__ == "__main__":
    uvloop.run(_serve())
