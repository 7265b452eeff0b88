"""A fake of Google: its token endpoint, and the HTTP v1 API of FCM as its reference describes it."""

import json
from collections import deque
from functools import cache
from typing import Any, Self
from urllib.parse import parse_qs

from aiohttp import web
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from google.auth import jwt

from tests.channels.shared.web.fake_server import Behaviour, FakeServer, Request, json_of, says

PROJECT = "shop-1"
EMAIL = "push@shop-1.iam.gserviceaccount.com"
DEVICE = "bk3RNwTe3H0:CI2k_HHwgIpoDKCIZvvDMExUdFQ3P1"


@cache
def keys() -> tuple[str, str]:
    """A private key, and the public one, in PEM."""
    key = rsa.generate_private_key(65537, 2048)
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    public = key.public_key().public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    return private.decode(), public.decode()


def account(url: str, **more: object) -> str:
    """The key file of a service account whose tokens are had at a URL."""
    file = {
        "type": "service_account",
        "project_id": PROJECT,
        "private_key_id": "k1",
        "private_key": keys()[0],
        "client_email": EMAIL,
        "token_uri": f"{url}/token",
    }
    return json.dumps(file | more)


def error(status: int, name: str, code: str = "", message: str = "", details: list[object] | None = None) -> Behaviour:
    """An error in the form of Google's APIs, with FCM's own code where it has one."""
    kind = "type.googleapis.com/google.firebase.fcm.v1.FcmError"
    found = [{"@type": kind, "errorCode": code}] if code else []
    return says(
        status,
        {"error": {"code": status, "message": message, "status": name, "details": [*found, *(details or [])]}},
    )


class FakeFcm:
    """Google. `next` and `tokens` are behaviours for the next messages and grants, `checks` for validations."""

    def __init__(self) -> None:
        self._server = FakeServer(self._answer)
        self.next: deque[Behaviour] = deque()
        self.tokens: deque[Behaviour] = deque()
        self.checks: deque[Behaviour] = deque()
        # What was granted and validated so far, and the messages that came.
        self.granted = 0
        self.checked = 0
        self.requests: list[Request] = []
        self.token = "ya29.first"
        self.expires_in = 3_599.0

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
        if http.path == "/token":
            return await self._grant(http, request)
        if http.method != "POST" or http.path != f"/v1/projects/{PROJECT}/messages:send":
            return await error(404, "NOT_FOUND")(http)
        if http.headers.get("Authorization") != f"Bearer {self.token}":
            return await error(401, "UNAUTHENTICATED")(http)
        given = json_of(request)
        if given.get("validate_only"):
            self.checked += 1
            return await (self.checks.popleft() if self.checks else _taken)(http)
        self.requests.append(request)
        return await (self.next.popleft() if self.next else _taken)(http)

    async def _grant(self, http: web.Request, request: Request) -> web.StreamResponse:
        self.granted += 1
        if self.tokens:
            return await self.tokens.popleft()(http)
        form: dict[str, list[str]] = parse_qs(request.body.decode())
        assert form["grant_type"] == ["urn:ietf:params:oauth:grant-type:jwt-bearer"]
        claims: dict[str, Any] = jwt.decode(form["assertion"][0], certs=keys()[1], audience=f"{self.url}/token")  # type: ignore[no-untyped-call]  # the library's
        assert claims["iss"] == EMAIL
        assert claims["scope"] == "https://www.googleapis.com/auth/firebase.messaging"
        body = {"access_token": self.token, "expires_in": self.expires_in, "token_type": "Bearer"}
        return web.json_response(body)


_numbers = iter(range(1, 10**9))


async def _taken(_http: web.Request) -> web.StreamResponse:
    return web.json_response({"name": f"projects/{PROJECT}/messages/0:{next(_numbers)}%31bd1c96"})
