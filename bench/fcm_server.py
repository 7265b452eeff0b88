"""A server that answers as Google's token endpoint and FCM do, as cheaply as Python can: a process of its own."""

import asyncio
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from itertools import count
from typing import cast

import uvloop
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from bench.measure import BenchError
from bench.process import ROOT

PROJECT = "bench-1"
_length = re.compile(rb"\r\ncontent-length: *([0-9]+)", re.IGNORECASE).search
_HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json; charset=UTF-8\r\nContent-Length: %d\r\n\r\n"
_TOKEN = b'{"access_token": "ya29.bench", "expires_in": 3599, "token_type": "Bearer"}'
_TAKEN = b'{\n  "name": "projects/bench-1/messages/0:%d%%31bd1c9631bd1c96"\n}\n'
_numbers = count(1)


@cache
def account(url: str) -> str:
    """The key file of a service account whose tokens are had at a URL."""
    key = rsa.generate_private_key(65537, 2048).private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    email = "bench@bench-1.iam.gserviceaccount.com"
    file = {"project_id": PROJECT, "client_email": email, "private_key": key.decode(), "token_uri": f"{url}/token"}
    return json.dumps(file)


class Connection(asyncio.Protocol):
    """One kept connection."""

    def __init__(self) -> None:
        self._received = b""
        self._transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # That of uvloop is one by what it does only.
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        """Answer each request that has arrived whole."""
        self._received += data
        while (end := self._received.find(b"\r\n\r\n")) >= 0:
            found = _length(self._received, 0, end)
            behind = end + 4 + (int(found[1]) if found else 0)
            if len(self._received) < behind:
                return
            self._transport.write(_answer(self._received))
            self._received = self._received[behind:]


def _answer(request: bytes) -> bytes:
    if request.startswith(b"HEAD "):
        return _HEAD % 0
    body = _TOKEN if request.startswith(b"POST /token ") else _TAKEN % next(_numbers)
    return _HEAD % len(body) + body


async def _serve() -> None:
    server = await asyncio.get_running_loop().create_server(Connection, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


@contextmanager
def fcm_server() -> Iterator[str]:
    """The URL of a running server."""
    with subprocess.Popen([sys.executable, "-m", __name__], stdout=subprocess.PIPE, cwd=ROOT, text=True) as running:
        try:
            port = running.stdout.readline().strip() if running.stdout else ""
            if not port:
                raise BenchError("the server that answers as FCM does has not started")
            yield f"http://127.0.0.1:{port}"
        finally:
            running.kill()


if __name__ == "__main__":
    uvloop.run(_serve())
