"""A browser for measurements: it signs in with a key, keeps the session's cookie, and asks for pages."""

import http.client
import re
import time
from types import TracebackType
from typing import Self
from urllib.parse import urlencode, urlsplit

from bench.measure import BenchError

SECONDS_MAX = 60
_COOKIE = re.compile(r"(dispatcher_console=[^;]*)")


class Browsing:
    """One signed-in visitor on one kept connection."""

    def __init__(self, address: str, key: str) -> None:
        place = urlsplit(address)
        self._connection = http.client.HTTPConnection(place.hostname or "", place.port, timeout=SECONDS_MAX)
        form = {"content-type": "application/x-www-form-urlencoded", "sec-fetch-site": "same-origin"}
        self._connection.request("POST", "/console/signin", urlencode({"key": key}), form)
        answer = self._connection.getresponse()
        answer.read()
        found = _COOKIE.match(answer.getheader("set-cookie", ""))
        if found is None:
            raise BenchError(f"signing in was answered with {answer.status}")
        self._cookie = found[1]

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._connection.close()

    def page(self, path: str) -> tuple[float, str]:
        """Ask for a page; answers the seconds that it took, and the page."""
        begun = time.perf_counter()
        self._connection.request("GET", path, headers={"cookie": self._cookie})
        answer = self._connection.getresponse()
        body = answer.read()
        elapsed = time.perf_counter() - begun
        if answer.status != http.client.OK:
            raise BenchError(f"{path} was answered with {answer.status}")
        return elapsed, body.decode(errors="replace")

    def stream(self) -> http.client.HTTPResponse:
        """Open the live stream; the connection is its own from then on."""
        self._connection.request("GET", "/console/live", headers={"cookie": self._cookie})
        return self._connection.getresponse()
