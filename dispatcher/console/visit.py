"""A visit: one request to a page by a key that is signed in, and the answers that a page can give."""

import time
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Protocol
from urllib.parse import quote, urlencode

import msgspec
from msgspec import Struct

from dispatcher.base.workspace import Workspace
from dispatcher.config.settings import Config
from dispatcher.console import sessions
from dispatcher.console.rendering import environment
from dispatcher.console.sessions import Flash, Session
from dispatcher.http.endpoints import Endpoint
from dispatcher.http.roles import Right, may
from dispatcher.http.server.authentication import Key

ROOT = "/console"
HTML = "text/html; charset=utf-8"
POLICY = (
    "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; frame-src 'self'; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
# A message is shown as its recipient would see it, and can do nothing. Only our own pages may frame it.
MESSAGE_POLICY = (
    "sandbox; default-src 'none'; style-src 'unsafe-inline'; img-src data:; form-action 'none'; base-uri 'none'; "
    "frame-ancestors 'self'"
)
# `same-origin`: with `no-referrer` a browser sends its forms with `Origin: null`.
HEADERS = {
    "content-security-policy": POLICY,
    "cross-origin-opener-policy": "same-origin",
    "referrer-policy": "same-origin",
    "x-content-type-options": "nosniff",
    "cache-control": "no-store",
    "x-robots-tag": "noindex",
}


class Answer(Struct, frozen=True):
    """An answer of the console."""

    body: bytes
    status: int = 200
    media_type: str = HTML
    headers: Mapping[str, str] = {}
    cookies: Sequence[str] = ()


class Ask(Protocol):
    """Calls an endpoint for a key."""

    async def __call__(
        self,
        endpoint: Endpoint,
        key: Key,
        names: Mapping[str, str],
        asked: list[tuple[str, str]],
        body: bytes = b"",
        if_match: str | None = None,
    ) -> Any:  # noqa: ANN401 - a struct of the endpoint's own
        """Return the answer. Raises Problem."""


class Visit(Struct, frozen=True, kw_only=True):
    """A request to a page. `path` has the names in the path, `query` and `form` the last value of each parameter."""

    key: Key
    session: Session
    config: Callable[[], Config]
    asking: Ask
    # The drawn overview of the visitor's workspace.
    board: Any
    at: str
    section: str
    groups: Sequence[tuple[str, Sequence[Any]]]
    path: Mapping[str, str] = {}
    query: Mapping[str, str] = {}
    # Every value of a parameter that may stand several times.
    asked: Sequence[tuple[str, str]] = ()
    form: Mapping[str, str] = {}
    flash: Flash | None = None
    https: bool = False
    began: float = msgspec.field(default_factory=time.perf_counter)

    @property
    def workspace(self) -> Workspace:
        return self.key.workspace

    @property
    def now(self) -> datetime:
        return datetime.now(UTC)

    @property
    def milliseconds(self) -> int:
        """Return how long it has taken so far."""
        return round((time.perf_counter() - self.began) * 1000)

    @property
    def token(self) -> str:
        """Return a token for a form."""
        return sessions.form_token(self.session, self.key.hash)

    def may(self, right: Right | str) -> bool:
        """Whether the key has a right."""
        return may(self.key.role, Right(right))

    def reaches(self, section: str) -> bool:
        """Whether a section of the navigation has pages that the key may see."""
        return any(one.at == section for _, sections in self.groups for one in sections)

    async def ask(
        self,
        endpoint: Endpoint,
        *names: object,
        query: Mapping[str, object] | None = None,
        body: Mapping[str, object] | None = None,
        version: str | None = None,
    ) -> Any:  # noqa: ANN401 - a struct of the endpoint's own
        """Return an endpoint's answer, with the rights of the visitor's key. Raises Problem.

        `names` are those in the endpoint's path, else the page's own path has them. None in query or body is left out.
        With the `version` that was read, another one is not overwritten.
        """
        path = dict(zip(endpoint.names, map(str, names), strict=True)) if names else self.path
        asked = [(name, _plain(value)) for name, value in (query or {}).items() if value not in (None, "")]
        said = {name: value for name, value in (body or {}).items() if value is not None}
        content = msgspec.json.encode(said) if endpoint.given is not None else b""
        return await self.asking(endpoint, self.key, path, asked, content, None if version is None else f'"{version}"')

    def show(self, template: str, /, *, status: int = 200, **context: object) -> Answer:
        """Return a page drawn from a template."""
        drawn = environment().get_template(template).render(visit=self, status=status, **context)
        return Answer(drawn.encode(), status)

    def message(self, content: str | bytes) -> Answer:
        """Return a message for a sandboxed frame: it runs nothing, loads nothing, and knows no session."""
        body = content.encode() if isinstance(content, str) else content
        return Answer(body, headers={"content-security-policy": MESSAGE_POLICY})

    def download(self, content: bytes, name: str, media_type: str = "application/octet-stream") -> Answer:
        """Return a file to be saved."""
        field = f"attachment; filename*=UTF-8''{quote(name, safe='')}"
        return Answer(content, media_type=media_type, headers={"content-disposition": field})

    def go(self, to: str, words: str = "", state: str = "sent") -> Answer:
        """Send the visitor to another page of the console (a path below /console), with a message for once."""
        cookies = []
        if words:
            sealed = sessions.seal_flash(words, state, self.key.hash, time.time())
            cookies.append(cookie(sessions.FLASH_COOKIE, sealed, sessions.FLASH_SECONDS, https=self.https))
        return Answer(b"", 303, headers={"location": ROOT + to}, cookies=cookies)

    def link(self, **changes: object) -> str:
        """Return this page's address with some parameters changed; None or "" takes one out, as is the cursor."""
        kept = {name: value for name, value in self.query.items() if name not in changes and name != "cursor"}
        kept |= {name: _plain(value) for name, value in changes.items() if value not in (None, "")}
        return ROOT + self.at + (f"?{urlencode(kept)}" if kept else "")


def cookie(name: str, value: str, seconds: int, *, https: bool) -> str:
    """Return a Set-Cookie field; 0 seconds takes the cookie away."""
    secure = "; Secure" if https else ""
    return f"{name}={value}; Path={ROOT}; Max-Age={seconds}; HttpOnly; SameSite=Strict{secure}"


def _plain(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return value.isoformat() if isinstance(value, datetime) else str(value)
