"""Connections: HTTP/1.1 within bounds of time and size, and only requests that can be read in one way.

It handles what uvicorn and llhttp leave open: a head that never ends, repeated fields, trailers that would count as
fields of the head, upgrades, half-closed connections, and callers that do not read their answer.
"""

import asyncio
import time
from typing import Any
from uuid import uuid4

import httptools
from uvicorn.config import Config
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol, RequestResponseCycle
from uvicorn.server import ServerState

from dispatcher.http.problems import CROWDED, FAULTY, HEAD_TOO_LARGE, MEDIA_TYPE, TIMED_OUT, Problem

HEAD_BYTES_MAX = 64 * 1024
FIELDS_MAX = 100
# Of a connection that is kept.
KEEP_ALIVE_SECONDS = 30.0
# From its head on; endpoints have narrower limits.
BODY_SECONDS_MAX = 60.0
# For the caller to read an answer.
ANSWER_SECONDS_MAX = 60.0
# For the rest of a request that was refused, or answered before all of it had arrived.
LINGER_SECONDS = 5.0
SWEEP_SECONDS = 0.5
# Fields that may not be repeated: a proxy might have read the other one.
ONCE = frozenset(
    (b"host", b"authorization", b"content-type", b"content-encoding", b"expect", b"idempotency-key", b"if-match")
)
_BROKEN = "it is no HTTP/1.1"


class Connection(HttpToolsProtocol):
    """One connection, and since when it has been waiting."""

    head_seconds_max = 10.0
    connections_max = 500

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self.since = time.monotonic()
        self.served = 0
        self.fault: Problem | None = None
        # Some of a head is there.
        self.in_head = False
        self.head_bytes = 0
        # Its message is under way: what follows a head belongs to it.
        self.in_message = False
        # Nothing more is read.
        self.ignores_input = False
        # A parser is being told what another one has read already.
        self.primed = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn has it
        """Accept a connection; if there are too many, close the one that has been longest without a request."""
        super().connection_made(transport)
        if len(self.connections) <= self.connections_max:
            return
        waiting = [one for one in self.connections if isinstance(one, Connection) and one.is_without_request]
        if others := [one for one in waiting if one is not self]:
            min(others, key=lambda one: (one.served > 0 and not one.in_message, one.since)).transport.abort()
        else:
            self._refuse(Problem(CROWDED, "no connection is free"))

    @property
    def newest(self) -> RequestResponseCycle | None:
        """Return the newest request, or None, although uvicorn's annotation has none."""
        return self.cycle

    @property
    def is_idle(self) -> bool:
        newest = self.newest
        return newest is None or newest.response_complete or newest.disconnected

    @property
    def is_without_request(self) -> bool:
        """Whether closing it loses nothing. The rest of a body whose request is answered counts as nothing."""
        return self.is_idle and not self.transport.is_closing()

    def data_received(self, data: bytes) -> None:
        if self.ignores_input:
            return
        if self.in_head:
            self.head_bytes += len(data)
        self._feed(data)
        if self.in_head and self.head_bytes > HEAD_BYTES_MAX and not self.ignores_input:
            self.fault = _large()
            self.send_400_response("")

    def _feed(self, data: bytes) -> None:
        self._unset_keepalive_if_required()
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserUpgrade as upgrade:
            # Upgrades are not supported: it goes on in HTTP/1.1.
            self._go_on(data[upgrade.args[0] :])
        except httptools.HttpParserError:
            self.send_400_response("")

    def _go_on(self, rest: bytes) -> None:
        """Read what follows a head that asked for an upgrade, its body and further requests, as if it had not."""
        length = next((value for name, value in self.headers if name == b"content-length"), b"0")
        coded = any(name == b"transfer-encoding" for name, _ in self.headers)
        self.parser = httptools.HttpRequestParser(self)
        self.parser.set_dangerous_leniencies(lenient_data_after_close=True)
        if coded or int(length):
            kind = b"transfer-encoding: chunked" if coded else b"content-length: " + length
            self.primed = True
            self.parser.feed_data(b"POST / HTTP/1.1\r\n" + kind + b"\r\n\r\n")
            self.primed = False
        else:
            self.on_message_complete()
        if rest:
            self._feed(rest)

    def eof_received(self) -> bool | None:  # type: ignore[override]  # asyncio reads what is answered
        """Handle a caller that sends nothing more: after a whole request it may still read the answer."""
        newest = self.newest
        if newest is None or newest.response_complete or newest.more_body or self.ignores_input:
            return None
        newest.keep_alive = False
        self.ignores_input = True
        return True

    # Called by the parser

    def on_message_begin(self) -> None:
        if self.primed:
            return
        super().on_message_begin()
        self.in_head, self.head_bytes, self.since = True, 0, time.monotonic()

    def on_url(self, url: bytes) -> None:
        if not self.primed:
            super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take a field of the head; one behind a body (a trailer) is ignored."""
        if not self.primed and not self.in_message:
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """Serve a request whose head can be read in one way only."""
        if self.primed:
            return
        self.fault = self._fault()
        if self.fault is not None:
            raise ValueError(self.fault.detail)
        self.in_head, self.in_message, self.since = False, True, time.monotonic()
        super().on_headers_complete()
        self.cycle.transport = _Lingering(self, self.transport)  # type: ignore[assignment]  # all of one that it uses

    def _fault(self) -> Problem | None:
        version = self.parser.get_http_version()
        names = [name for name, _ in self.headers]
        size = len(self.url) + sum([len(name) + len(value) + 4 for name, value in self.headers])
        codings = [value.lower() for name, value in self.headers if name == b"transfer-encoding"]
        twice = sorted(name.decode() for name in ONCE if names.count(name) > 1) if len(set(names)) < len(names) else []
        if version not in ("1.0", "1.1"):
            return Problem(FAULTY, f"HTTP/{version} is not spoken here")
        if size > HEAD_BYTES_MAX or len(self.headers) > FIELDS_MAX:
            return _large()
        if twice:
            return Problem(FAULTY, f"{' and '.join(twice)} stands twice in its head")
        if version == "1.1" and b"host" not in names:
            return Problem(FAULTY, "its head has no host")
        if codings and (codings != [b"chunked"] or version == "1.0"):
            return Problem(FAULTY, "its transfer-encoding is not chunked")
        return None

    def on_body(self, body: bytes) -> None:
        if not self.ignores_input:
            super().on_body(body)

    def on_message_complete(self) -> None:
        """End a request, except for what follows a head that asked for an upgrade."""
        if self.primed or self.parser.should_upgrade():
            return
        self.in_message = False
        super().on_message_complete()

    def on_response_complete(self) -> None:
        self.since = time.monotonic()
        self.served += 1
        super().on_response_complete()

    # Answers

    def send_400_response(self, msg: str) -> None:  # noqa: ARG002 - its signature is uvicorn's
        """Refuse what cannot be read; requests before it are answered first, and nothing after it."""
        self.ignores_input = True
        if self.in_message and not self.is_idle:
            # The newest request waits for a body that will not come.
            self.cycle.disconnected = True
            self.cycle.message_event.set()
        if self.is_idle and not self.pipeline:
            self._refuse(self.fault or Problem(FAULTY, _BROKEN))
        else:
            self.cycle.keep_alive = False

    def _refuse(self, problem: Problem) -> None:
        called = uuid4().hex
        body = problem.document(called)
        head = f"content-type: {MEDIA_TYPE}\r\nx-request-id: {called}\r\ncontent-length: {len(body)}\r\n"
        self.ignores_input = True
        line = STATUS_LINE[problem.kind.status]
        self.transport.write(line + head.encode() + b"connection: close\r\n\r\n" + body)
        self.linger()

    def linger(self) -> None:
        """Close after reading and dropping what is being sent: otherwise its sender may not read the answer."""
        self.ignores_input, self.since = True, time.monotonic()
        self.pipeline.clear()
        self._unset_keepalive_if_required()
        if self.transport.can_write_eof():
            self.flow.resume_reading()
            self.transport.write_eof()
        else:
            self.transport.close()

    def sweep(self, now: float) -> None:
        """Close the connection if it has been waiting for too long."""
        waited = now - self.since
        if self.in_message and not self.ignores_input:
            if waited > (LINGER_SECONDS if self.is_idle else BODY_SECONDS_MAX):
                self.transport.abort()
        elif not self.is_idle:
            pass  # The endpoint has a limit.
        elif self.transport.get_write_buffer_size():
            if waited > ANSWER_SECONDS_MAX:
                self.transport.abort()
        elif self.ignores_input or self.transport.is_closing():
            if waited > LINGER_SECONDS:
                self.transport.abort()
        elif self.in_head:
            if waited > self.head_seconds_max:
                self._refuse(Problem(TIMED_OUT, f"its head was not there within {self.head_seconds_max:g} s"))
        elif waited > (KEEP_ALIVE_SECONDS if self.served else self.head_seconds_max):
            self.transport.close()


class _Lingering:
    """A transport that is closed slowly if the request has not arrived completely."""

    def __init__(self, connection: Connection, transport: asyncio.Transport) -> None:
        self._connection = connection
        self.write = transport.write
        self.is_closing = transport.is_closing

    def close(self) -> None:
        """Close after the last answer."""
        if self._connection.in_message and not self.is_closing():
            self._connection.linger()
        else:
            self._connection.transport.close()


def _large() -> Problem:
    return Problem(HEAD_TOO_LARGE, f"its head has over {HEAD_BYTES_MAX} bytes or {FIELDS_MAX} fields")
