"""The console without a window: what tests ask that look at no page."""

import http.client
import re
from urllib.parse import urlencode, urlsplit

from dispatcher.console import sessions
from tests.support.program import Program

FORM = {"content-type": "application/x-www-form-urlencoded"}


class Browsing:
    """A browser without a window: it keeps one cookie, and follows nothing."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.cookie = ""
        self.headers: dict[str, str] = {}

    def ask(self, method: str, path: str, form: dict[str, str] | None = None, **headers: str) -> tuple[int, str]:
        """One request; answers its status and body."""
        place = urlsplit(self.program.address)
        connection = http.client.HTTPConnection(place.hostname or "", place.port, timeout=30)
        sent = {"cookie": f"{sessions.COOKIE}={self.cookie}"} | {n.replace("_", "-"): v for n, v in headers.items()}
        try:
            connection.request(method, path, urlencode(form or {}), sent | (FORM if form is not None else {}))
            answer = connection.getresponse()
            self.headers = {name.lower(): value for name, value in answer.getheaders()}
            if match := re.match(rf"{sessions.COOKIE}=([^;]*)", self.headers.get("set-cookie", "")):
                self.cookie = match[1]
            return answer.status, answer.read().decode()
        finally:
            connection.close()

    def sign_in(self, key: str, **headers: str) -> int:
        """Sign in with a key; answers the status."""
        return self.ask("POST", "/console/signin", {"key": key}, **{"sec-fetch-site": "same-origin"} | headers)[0]

    def token(self, path: str) -> str:
        """The token of a form."""
        match = re.search(r'name="token" value="([^"]+)"', self.ask("GET", path)[1])
        assert match
        return match[1]


def signed_in(program: Program, key: str) -> str:
    """Sign in with a key; answers the session's cookie."""
    visitor = Browsing(program)
    assert visitor.sign_in(key) == 303
    return visitor.cookie
