"""The transport: one call over HTTP, repeated where that is safe, until it is answered, refused or out of time.

It follows no redirect, since the key would go along; takes no proxy from the environment; verifies certificates; and
reads no more of an answer than `ANSWER_BYTES_MAX`.
"""

import asyncio
import math
import os
import random
import ssl
import time
from collections.abc import Awaitable, Callable, Mapping
from errno import errorcode
from typing import Any, Literal, TypeVar
from urllib.parse import quote, urlencode, urlsplit
from uuid import uuid4

import aiohttp
import msgspec
from msgspec import Struct
from yarl import URL

from dispatcher.base.errors import Fault
from dispatcher.base.version import VERSION
from dispatcher.client.encoding import json_of, refused
from dispatcher.client.errors import ClientError, Closed, NotFound, Refused, TimedOut, Unavailable, Unexpected
from dispatcher.client.problems import problem

CALL_SECONDS_MAX = 60.0
# Over the server's own limit for a request: the server is to say that it was too slow.
ATTEMPT_SECONDS_MAX = 20.0
CONNECT_SECONDS_MAX = 10.0
ATTEMPTS_MAX = 5
# The first wait between two attempts; each one after is twice as long, up to the longest.
WAIT_SECONDS = 0.2
WAIT_SECONDS_MAX = 5.0
# Over the longest page of anything.
ANSWER_BYTES_MAX = 64 * 1024 * 1024
# Shorter than servers and proxies keep theirs.
KEEP_SECONDS = 4.0

# What changes a thing by its name (PUT, PATCH, DELETE) is not repeated.
REPEATED = ("GET", "POST")

Method = Literal["GET", "POST", "PUT", "PATCH", "DELETE"]
Query = Mapping[str, str | int | None]
T = TypeVar("T")


class Reply(Struct, frozen=True):
    """An answer. Names of headers are in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    def read(self, kind: type[T]) -> T:
        """Return its JSON as a value of this type."""
        try:
            return msgspec.json.decode(self.body, type=kind)
        except (msgspec.ValidationError, RecursionError) as fault:
            raise Unexpected(f"the answer is not what was expected: {fault}", status=self.status) from None
        except (msgspec.MsgspecError, UnicodeDecodeError):
            words = f"{self.status}, and its body is not JSON, or is cut off; is the address right?"
            raise Unexpected(words, status=self.status) from None


class Octets(Struct, frozen=True):
    """A body of bytes."""

    content: bytes


def segment(name: str) -> str:
    """A name as a part of a path. Raises Refused; and NotFound where the path would be that of the whole list."""
    if not name:
        raise NotFound("there is nothing without a name")
    try:
        return quote(name, safe="")
    except UnicodeEncodeError:
        raise _unwritable("$") from None


class Transport:
    """Calls one server with one key, from one event loop. `seconds` is for a call with all its attempts and waits."""

    def __init__(
        self,
        url: str,
        key: str,
        *,
        seconds: float = CALL_SECONDS_MAX,
        tls: ssl.SSLContext | None = None,
        pause: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self.url = _base(url)
        self._headers = _headers(key)
        self._seconds = seconds
        self._tls = tls
        self._pause = pause
        self._session: aiohttp.ClientSession | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._closed = False

    async def aclose(self) -> None:
        """Close all connections; the transport cannot be used again."""
        self._closed = True
        if self._session is not None:
            await self._session.close()

    async def ask(
        self,
        method: Method,
        path: str,
        *,
        query: Query | None = None,
        body: Any = None,  # noqa: ANN401 - whatever JSON can say
        keyed: bool = True,
        traceparent: str | None = None,
    ) -> Reply:
        """Return the answer to a request, or raise a ClientError.

        `path` is below the server's address, with its names as `segment` writes them. `body` becomes JSON; bytes are
        JSON already, and Octets go as they are. All attempts of a POST have one Idempotency-Key, unless it changes
        nothing (`keyed`): the server would keep the answer for a day.
        """
        headers = dict(self._headers)
        if method == "POST" and keyed:
            headers["Idempotency-Key"] = uuid4().hex
        if traceparent is not None:
            headers["traceparent"] = traceparent
        content = None
        if isinstance(body, Octets):
            content = body.content
            headers["Content-Type"] = "application/octet-stream"
        elif body is not None:
            content = json_of(body)
            headers["Content-Type"] = "application/json"
        url = URL(self.url + path + _query_string(query), encoded=True)
        seconds_max = ATTEMPT_SECONDS_MAX if method in REPEATED else math.inf
        end = time.monotonic() + self._seconds
        for attempt in range(1, ATTEMPTS_MAX + 1):
            if self._closed:
                raise Closed
            seconds = min(end - time.monotonic(), seconds_max)
            answer = await self._attempt(method, url, content, headers, seconds)
            if isinstance(answer, Reply):
                return answer
            wait = (answer.retry_after or 0.0) + _backoff(attempt)
            last = attempt == ATTEMPTS_MAX or not (method in REPEATED and answer.passing)
            if last or time.monotonic() + wait >= end:
                raise answer
            await self._pause(wait)
        raise AssertionError("the last attempt has raised or returned")

    async def _attempt(
        self, method: Method, url: URL, content: bytes | None, headers: Mapping[str, str], seconds: float
    ) -> Reply | ClientError:
        """Errors are values here: what aiohttp raises can have the request's headers in it, and the key is one."""
        try:
            async with (
                asyncio.timeout(seconds),
                self._open().request(
                    method,
                    url,
                    data=content,
                    headers=headers,
                    allow_redirects=False,
                    ssl=True if self._tls is None else self._tls,
                ) as response,
            ):
                answered = {name.lower(): value for name, value in response.headers.items()}
                body = await _whole(response)
        except TimeoutError:
            return TimedOut(f"{self.url} has not answered within {seconds:.3g} s")
        except (aiohttp.ClientSSLError, aiohttp.InvalidURL, aiohttp.ClientResponseError) as fault:
            return Unexpected(f"{self.url}: {_words(fault)}")
        except (aiohttp.ClientError, OSError) as fault:
            return Unavailable(f"{self.url}: {_words(fault)}")
        if body is None:
            return Unexpected(f"the answer is over {ANSWER_BYTES_MAX} bytes", status=response.status)
        if response.status in range(200, 300):
            return Reply(response.status, answered, body)
        return problem(response.status, answered, body)

    def _open(self) -> aiohttp.ClientSession:
        if self._session is None:
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(keepalive_timeout=KEEP_SECONDS),
                timeout=aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_SECONDS_MAX),
                cookie_jar=aiohttp.DummyCookieJar(),
                trust_env=False,
            )
            # By itself it repeats requests without a key, such as a PUT, and has no public switch for that.
            self._session._retry_connection = False
            self._loop = asyncio.get_running_loop()
        if self._loop is not asyncio.get_running_loop():
            raise RuntimeError("this client was first used in another event loop: make a client for each loop")
        return self._session


async def _whole(response: aiohttp.ClientResponse) -> bytes | None:
    """The body; None where it is too long."""
    chunks, size = [], 0
    async for chunk in response.content.iter_any():
        size += len(chunk)
        if size > ANSWER_BYTES_MAX:
            return None
        chunks.append(chunk)
    return b"".join(chunks)


def _backoff(attempt: int) -> float:
    """Return the seconds to wait after an attempt: longer each time, with jitter."""
    longest: float = min(WAIT_SECONDS * 2 ** (attempt - 1), WAIT_SECONDS_MAX)
    return longest * random.uniform(0.5, 1.0)  # noqa: S311 - it is not a secret


def _words(fault: Exception) -> str:
    """Return a message for an error of the library."""
    match fault:
        case aiohttp.ClientResponseError():
            return "its answer is not HTTP"
        case aiohttp.ClientPayloadError():
            return "its answer breaks off, or cannot be unpacked"
        case aiohttp.ClientConnectorCertificateError(certificate_error=ssl.SSLCertVerificationError() as wrong):
            return f"its certificate is not good: {wrong.verify_message}"
        case aiohttp.ClientConnectorError(os_error=cause):
            return _unconnected(cause)
        case _:
            return str(fault) or type(fault).__name__


def _unconnected(cause: OSError) -> str:
    """Return why there is no connection. TLS and name servers have error numbers of their own."""
    match cause:
        case ssl.SSLError(reason="WRONG_VERSION_NUMBER"):
            return "it does not speak TLS there; are the scheme and the port right?"
        case OSError(errno=int(number)) if number in errorcode and not isinstance(cause, ssl.SSLError):
            return os.strerror(number)
        case _:
            return cause.strerror or str(cause)


def _unwritable(path: str) -> Refused:
    return refused([Fault(path, "has half of a surrogate pair, which UTF-8 cannot encode")])


def _base(url: str) -> str:
    """An address without its last slash. Raises Refused."""
    try:
        place = urlsplit(url)
        sound = place.scheme in ("http", "https") and bool((place.hostname or "").encode("idna")) and place.port != 0
    except ValueError:
        sound = False
    if not sound:
        raise refused([Fault("url", "expected https://HOST, with a port and a path where there are any")])
    if set(url) & set("@?#"):
        raise refused([Fault("url", "has to be without user, query and fragment")])
    return url.rstrip("/")


def _headers(key: str) -> Mapping[str, str]:
    if not (key and key.isascii() and key.isprintable() and " " not in key):
        raise refused([Fault("key", "expected printable characters without spaces")])
    return {
        "Authorization": f"Bearer {key}",
        "Accept": "application/json",
        "User-Agent": f"dispatcher/{VERSION}",
    }


def _query_string(query: Query | None) -> str:
    given = {name: str(value) for name, value in (query or {}).items() if value is not None}
    try:
        return "?" + urlencode(given) if given else ""
    except UnicodeEncodeError:
        raise _unwritable("query") from None
