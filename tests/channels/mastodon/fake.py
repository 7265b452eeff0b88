"""A fake instance of Mastodon: credentials, media and statuses, as its API's documentation describes them."""

import json
from collections import deque
from typing import Any, Self

from aiohttp import web

from tests.channels.shared.web.fake_server import Behaviour, FakeServer, Request, says

TOKEN = "nwkfBBMcD5LmX30lAObxtAOsmyBpq6kMbDvYXEJPF1s"


class FakeMastodon:
    """The instance. `next`, `uploads`, `works` and `checks` are behaviours for the next posts, uploads, questions about
    an upload and about the token."""

    def __init__(self) -> None:
        self._server = FakeServer(self._answer)
        self.next: deque[Behaviour] = deque()
        self.uploads: deque[Behaviour] = deque()
        self.works: deque[Behaviour] = deque()
        self.checks: deque[Behaviour] = deque()
        # What came: posts, uploads, and the posts that were made, by their keys.
        self.requests: list[Request] = []
        self.uploaded: list[Request] = []
        self.posts: dict[str, dict[str, Any]] = {}
        self.asked: list[Request] = []
        self.checked: list[Request] = []

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http://127.0.0.1:{self._server.port}"

    async def __aenter__(self) -> Self:
        await self._server.__aenter__()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._server.__aexit__()

    async def _answer(self, http: web.Request) -> web.StreamResponse:
        request = self._server.requests.pop()
        if http.method == "HEAD":
            return web.Response()
        if http.headers.get("Authorization") != f"Bearer {TOKEN}":
            return web.json_response({"error": "The access token is invalid"}, status=401)
        taken, waiting, usual = self._route(http)
        if taken is not None:
            taken.append(request)
        return await (waiting.popleft() if waiting else usual)(http)

    def _route(self, http: web.Request) -> tuple[list[Request] | None, deque[Behaviour], Behaviour]:
        """Where a request is kept, and the behaviours for it."""
        match http.method, http.path.rpartition("/"):
            case "GET", ("/api/v1/accounts", _, "verify_credentials"):
                return self.checked, self.checks, says(200, {"id": "1", "acct": "shop"})
            case "POST", ("/api/v2", _, "media"):
                return self.uploaded, self.uploads, self.media
            case "GET", ("/api/v1/media", _, number):
                return self.asked, self.works, says(200, {"id": number, "url": "https://files.example/1"})
            case "POST", ("/api/v1", _, "statuses"):
                return self.requests, self.next, self.post
            case _:
                return None, deque(), says(404, {"error": "Record not found"})

    async def post(self, http: web.Request) -> web.StreamResponse:
        """Make a post, or show the one that was made under the same key."""
        given = json.loads(await http.read())
        post = {"id": str(len(self.posts) + 1), "content": given["status"], "media_ids": given.get("media_ids")}
        made = self.posts.setdefault(http.headers["Idempotency-Key"], post)
        return web.json_response(made)

    async def media(self, http: web.Request, status: int = 200) -> web.StreamResponse:
        """Take an upload; with 202 it is worked on for a while."""
        url = "https://files.example/1" if status == 200 else None
        return web.json_response({"id": str(len(self.uploaded)), "type": "image", "url": url}, status=status)
