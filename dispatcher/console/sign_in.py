"""Signing in: with a key, or in a demonstration by a link that works once."""

import re
import secrets
import time
from collections.abc import Awaitable, Callable, Sequence
from urllib.parse import quote

import structlog

from dispatcher.console import origin, sessions
from dispatcher.console.rendering import environment
from dispatcher.console.sessions import Session
from dispatcher.console.visit import ROOT, Answer, cookie
from dispatcher.http import bearer
from dispatcher.http.problems import UNAUTHENTICATED, Problem
from dispatcher.http.roles import Role
from dispatcher.http.server.admission import Admission
from dispatcher.http.server.authentication import Key
from dispatcher.http.server.public_bodies import PublicBodies
from dispatcher.http.server.serving import AnyRequest

log = structlog.get_logger(__name__)

# A place to go to after signing in: of this console, and on one line.
_OWN = re.compile(r"/console(?:[/?][!-~]*)?")
_NEXT_CHARACTERS_MAX = 2_000

# What the page says about it, by a word in its address: an address must not bring sentences of its own.
_WHY = {
    "over": "The session is over: its time is up, or its key is not good any more.",
    "used": "The link was used before. Take the one of a new start, or a key.",
}

Read = Callable[[AnyRequest], Awaitable[Sequence[tuple[str, str]]]]


class SignIn:
    """The way in, for one process."""

    def __init__(self, admission: Admission) -> None:
        self._admission = admission
        self._bodies = PublicBodies()
        # Sealed cookies by the links that were handed out, each of which works once.
        self._links: dict[str, str] = {}

    async def session(self, request: AnyRequest) -> tuple[Key, Session]:
        """Return the key and the session of a request. Raises Problem without a session, or without its key."""
        given = request.cookies.get(sessions.COOKIE, "")
        found = sessions.claimed(given, time.time()) if given else None
        if found is None:
            raise Problem(UNAUTHENTICATED, "over" if given else "")
        key = await self._admission.key_of(found.prefix)
        if not sessions.verify(given, key.hash):
            raise Problem(UNAUTHENTICATED, "over")
        return key, found

    def sent(self, request: AnyRequest, why: Problem) -> Answer:
        """Send a visitor without a session to sign in, and back afterwards."""
        query = request.scope["query_string"].decode("latin-1")
        there = str(request.scope["path"]) + (f"?{query}" if query else "")
        after = f"?next={quote(there, safe='')}" if request.method == "GET" and there != ROOT else ""
        said = ("&" if after else "?") + "why=over" if why.detail else ""
        headers = {"location": f"{ROOT}/signin{after}{said}"}
        return Answer(b"", 303, headers=headers)

    async def page(self, request: AnyRequest, fault: str = "", status: int = 200) -> Answer:
        """Return the page to sign in on, or send those on who have a session."""
        after = _next(request)
        if not fault:
            try:
                await self.session(request)
            except Problem:
                pass
            else:
                return Answer(b"", 303, headers={"location": after})
        # After a link on another site the browser keeps the cookie back once: the page asks again by itself.
        again = origin.is_foreign(request.headers) and "again" not in request.query_params
        words = fault or _WHY.get(request.query_params.get("why", ""), "")
        drawn = environment().get_template("_sign_in.html").render(next=after, fault=words, again=again)
        return Answer(drawn.encode(), status)

    async def enter(self, request: AnyRequest, read: Read) -> Answer:
        """Sign in with a key."""
        try:
            origin.require_own(request.headers)
            async with self._bodies.body():
                fields = dict(await read(request))
            shown = fields.get("key", "").strip()
            key = await self._admission.key(f"Bearer {shown}")
        except TimeoutError:
            return await self.page(request, "the form took too long to arrive", 408)
        except Problem as problem:
            return await self.page(request, problem.detail, problem.kind.status)
        if key.role is Role.WORKER_SERVICE:
            return await self.page(request, f"the key {key.name} is a worker's: it has no pages", 403)
        log.info("console.signed_in", key=key.name, tenant_id=key.tenant_id, workspace_id=key.workspace_id)
        sealed = sessions.seal(sessions.new(bearer.prefix(shown), time.time()), key.hash)
        https = origin.is_https(request.headers)
        made = cookie(sessions.COOKIE, sealed, sessions.SESSION_SECONDS, https=https)
        return Answer(b"", 303, headers={"location": _next(request)}, cookies=[made])

    def link(self, key: bearer.Bearer) -> str:
        """Return the path of a link that signs in with this key, once."""
        word = secrets.token_urlsafe(24)
        self._links[word] = sessions.seal(sessions.new(key.prefix, time.time()), key.hash)
        return f"{ROOT}/enter/{word}"

    def by_link(self, request: AnyRequest, word: str) -> Answer:
        """Sign in by a link, which is used up."""
        sealed = self._links.pop(word, None)
        if sealed is None:
            return Answer(b"", 303, headers={"location": f"{ROOT}/signin?why=used"})
        made = cookie(sessions.COOKIE, sealed, sessions.SESSION_SECONDS, https=origin.is_https(request.headers))
        return Answer(b"", 303, headers={"location": ROOT}, cookies=[made])


def _next(request: AnyRequest) -> str:
    asked = request.query_params.get("next", "")[:_NEXT_CHARACTERS_MAX]
    return asked if _OWN.fullmatch(asked) else ROOT
