"""A stand-in for Twilio's API: an HTTP server that makes messages and calls, and misbehaves as it is told.

It shares no code with the channel: what it takes and answers is written from the API's published description (version
2010-04-01): the fields of a create, the patterns of SIDs, 201 with the resource, and the four fields of an error.
"""

import asyncio
import base64
import json
import re
from collections import deque
from collections.abc import Awaitable, Callable
from itertools import count
from typing import Any, Self
from urllib.parse import parse_qsl

from aiohttp import web
from msgspec import Struct

ACCOUNT = "AC" + "0123456789abcdef" * 2
KEY_SID = "SK" + "fedcba9876543210" * 2
SECRET = "secret-5d1c"
SERVICE = "MG" + "a" * 32
CONTENT = "HX" + "b" * 32
FROM = "+15005550006"
DATE = "Thu, 24 Aug 2023 05:01:45 +0000"

# The parameters of a create in the published description.
MESSAGE_FIELDS = frozenset(
    re.findall(
        r"\w+",
        """
        To StatusCallback ApplicationSid MaxPrice ProvideFeedback Attempt ValidityPeriod ForceDelivery
        ContentRetention AddressRetention SmartEncoded PersistentAction TrafficType ShortenUrls ScheduleType
        SendAt SendAsMms ContentVariables RiskCheck From MessagingServiceSid Body MediaUrl ContentSid
        """,
    )
)
CALL_FIELDS = frozenset(
    re.findall(
        r"\w+",
        """
        To From Method FallbackUrl FallbackMethod StatusCallback StatusCallbackEvent StatusCallbackMethod
        SendDigits Timeout Record RecordingChannels RecordingStatusCallback RecordingStatusCallbackMethod
        SipAuthUsername SipAuthPassword MachineDetection MachineDetectionTimeout RecordingStatusCallbackEvent Trim
        CallerId MachineDetectionSpeechThreshold MachineDetectionSpeechEndThreshold MachineDetectionSilenceTimeout
        AsyncAmd AsyncAmdStatusCallback AsyncAmdStatusCallbackMethod Byoc CallReason CallToken RecordingTrack
        TimeLimit Url Twiml ApplicationSid
        """,
    )
)
_ADDRESS = re.compile(r"(whatsapp:)?\+[1-9][0-9]{1,14}")


class Request(Struct, frozen=True):
    """One create as it arrived."""

    path: str
    fields: dict[str, str]
    headers: dict[str, str]
    body: bytes


Fault = Callable[["FakeTwilio", web.Request, Request], Awaitable[web.StreamResponse]]


class FakeTwilio:
    """The server. `faults` are for the next creates, one each (None: behave); `secret` is the one that it knows."""

    def __init__(self) -> None:
        self.requests: list[Request] = []
        self.made: list[Request] = []
        self.faults: deque[Fault | None] = deque()
        self.every: Fault | None = None
        self.secret = SECRET
        self.users = {ACCOUNT, KEY_SID}
        self.accounts = {ACCOUNT}
        # A restricted key may create and not list.
        self.may_list = True
        self.down = False
        self.lists = 0
        self.port = 0
        self._numbers = count(1)
        self._runner: web.AppRunner

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http://127.0.0.1:{self.port}"

    async def __aenter__(self) -> Self:
        app = web.Application()
        app.router.add_post("/2010-04-01/Accounts/{account}/{resource}.json", self._take)
        app.router.add_get("/2010-04-01/Accounts/{account}/{resource}.json", self._list)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", self.port).start()
        self.port = self._runner.addresses[0][1]
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._runner.cleanup()

    async def _list(self, http: web.Request) -> web.StreamResponse:
        self.lists += 1
        if self.down:
            return error(503, 20503, "Service unavailable")
        refused = self._refused(http)
        if refused is None and not self.may_list:
            refused = error(403, 70051, "Authorization failed")
        assert http.query == {"PageSize": "1"}
        return refused or web.json_response({"page": 0, "page_size": 1, http.match_info["resource"].lower(): []})

    async def _take(self, http: web.Request) -> web.StreamResponse:
        body = await http.read()
        assert http.content_type == "application/x-www-form-urlencoded"
        fields = dict(parse_qsl(body.decode("ascii"), keep_blank_values=True, strict_parsing=True, errors="strict"))
        headers = {name.lower(): value for name, value in http.headers.items()}
        request = Request(http.path, fields, headers, body)
        self.requests.append(request)
        fault = (self.faults.popleft() if self.faults else None) or self.every
        return await fault(self, http, request) if fault else self.behave(http, request)

    def behave(self, http: web.Request, request: Request) -> web.Response:
        """What the API does with a create."""
        refused = self._refused(http) or _fault(http.match_info["resource"], request.fields)
        return refused or self.make(http, request)

    def make(self, http: web.Request, request: Request, **changes: Any) -> web.Response:
        """Make the resource, and answer with it."""
        self.made.append(request)
        resource = _call if http.match_info["resource"] == "Calls" else _message
        return web.json_response(resource(next(self._numbers), request.fields) | changes, status=201)

    def _refused(self, http: web.Request) -> web.Response | None:
        scheme, _, given = http.headers.get("Authorization", "").partition(" ")
        user, _, secret = base64.b64decode(given).decode().partition(":")
        if scheme != "Basic" or user not in self.users or secret != self.secret:
            return error(401, 20003, "Authenticate")
        account = http.match_info["account"]
        if account not in self.accounts:
            return error(404, 20404, f"The requested resource /2010-04-01/Accounts/{account} was not found")
        return None


def _fault(resource: str, fields: dict[str, str]) -> web.Response | None:
    known = CALL_FIELDS if resource == "Calls" else MESSAGE_FIELDS
    assert fields.keys() <= known, fields.keys() - known
    to = fields.get("To", "")
    if not _ADDRESS.fullmatch(to):
        return error(400, 21211, f"Invalid 'To' Phone Number: {to}")
    if resource == "Calls":
        return None if fields.get("Twiml") else error(400, 21205, "Url parameter is required.")
    return _message_fault(fields)


def _message_fault(fields: dict[str, str]) -> web.Response | None:
    body = fields.get("Body", "")
    if not fields.get("From") and not fields.get("MessagingServiceSid"):
        return error(400, 21603, "A 'From' phone number is required.")
    if not body and not fields.get("ContentSid"):
        return error(400, 21619, "A text message body or media urls must be specified.")
    if len(body) > 1600:
        return error(400, 21617, "The concatenated message body exceeds the 1600 character limit")
    if not 1 <= int(fields.get("ValidityPeriod", "1")) <= 36_000:
        return error(400, 21641, "ValidityPeriod is out of range")
    if fields.get("ContentSid", CONTENT) != CONTENT:
        return error(400, 21655, "The ContentSid is Invalid")
    return None


def error(status: int, code: int, message: str, headers: dict[str, str] | None = None) -> web.Response:
    """An error in the API's form."""
    more = f"https://www.twilio.com/docs/errors/{code}"
    said = {"code": code, "message": message, "more_info": more, "status": status}
    return web.json_response(said, status=status, headers=headers)


def _message(number: int, fields: dict[str, str]) -> dict[str, Any]:
    sid = f"SM{number:032x}"
    return {
        "account_sid": ACCOUNT,
        "api_version": "2010-04-01",
        "body": fields.get("Body", ""),
        "date_created": DATE,
        "date_sent": None,
        "date_updated": DATE,
        "direction": "outbound-api",
        "error_code": None,
        "error_message": None,
        "from": fields.get("From"),
        "num_media": "0",
        "num_segments": "1",
        "price": None,
        "price_unit": "USD",
        "messaging_service_sid": fields.get("MessagingServiceSid"),
        "sid": sid,
        "status": "accepted" if fields.get("MessagingServiceSid") else "queued",
        "subresource_uris": {"media": f"/2010-04-01/Accounts/{ACCOUNT}/Messages/{sid}/Media.json"},
        "to": fields["To"],
        "uri": f"/2010-04-01/Accounts/{ACCOUNT}/Messages/{sid}.json",
    }


def _call(number: int, fields: dict[str, str]) -> dict[str, Any]:
    sid = f"CA{number:032x}"
    absent = dict.fromkeys(
        (
            "answered_by",
            "caller_name",
            "date_created",
            "date_updated",
            "duration",
            "end_time",
            "forwarded_from",
            "group_sid",
            "parent_call_sid",
            "price",
            "queue_time",
            "start_time",
            "trunk_sid",
        )
    )
    return absent | {
        "account_sid": ACCOUNT,
        "api_version": "2010-04-01",
        "direction": "outbound-api",
        "from": fields["From"],
        "from_formatted": fields["From"],
        "phone_number_sid": "PN" + "0" * 32,
        "price_unit": "USD",
        "sid": sid,
        "status": "queued",
        "subresource_uris": {},
        "to": fields["To"],
        "to_formatted": fields["To"],
        "uri": f"/2010-04-01/Accounts/{ACCOUNT}/Calls/{sid}.json",
    }


# Faults


def says(status: int, body: object = b"", **headers: str) -> Fault:
    """It answers with this and does nothing. A pair is an error's code and words, bytes are a page."""

    async def fault(_fake: FakeTwilio, _http: web.Request, _request: Request) -> web.StreamResponse:
        said = {name.replace("_", "-"): value for name, value in headers.items()}
        if isinstance(body, tuple):
            return error(status, body[0], body[1], said)
        if isinstance(body, bytes):
            return web.Response(status=status, body=body, content_type="text/html", headers=said)
        return web.json_response(text=json.dumps(body), status=status, headers=said)

    return fault


def makes(**changes: Any) -> Fault:
    """It makes the resource, which is not as usual in this."""

    async def fault(fake: FakeTwilio, http: web.Request, request: Request) -> web.StreamResponse:
        return fake.make(http, request, **changes)

    return fault


async def made_and_dropped(fake: FakeTwilio, http: web.Request, request: Request) -> web.StreamResponse:
    """It makes the resource, and the connection is gone before the answer."""
    fake.make(http, request)
    assert http.transport is not None
    http.transport.abort()
    return web.Response()


async def cut_off(fake: FakeTwilio, http: web.Request, request: Request) -> web.StreamResponse:
    """It makes the resource; half of its answer arrives."""
    fake.make(http, request)
    response = web.StreamResponse(status=201, headers={"Content-Type": "application/json", "Content-Length": "100"})
    await response.prepare(http)
    await response.write(b'{"sid": "SM')
    assert http.transport is not None
    http.transport.abort()
    return response


async def endless(_fake: FakeTwilio, http: web.Request, _request: Request) -> web.StreamResponse:
    """A success whose body has no end."""
    response = web.StreamResponse(status=201, headers={"Content-Type": "application/json"})
    await response.prepare(http)
    try:
        while True:
            await response.write(b" " * 65_536)
    except (ConnectionError, OSError):
        return response


class Hanging:
    """It makes the resource, and answers nothing until it is let go."""

    def __init__(self) -> None:
        self.begun = asyncio.Event()
        self.let_go = asyncio.Event()

    async def __call__(self, fake: FakeTwilio, http: web.Request, request: Request) -> web.StreamResponse:
        answer = fake.make(http, request)
        self.begun.set()
        await self.let_go.wait()
        return answer
