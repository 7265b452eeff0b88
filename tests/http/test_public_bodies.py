"""PublicBodies: however many send half a body to the pages that need no key, they keep nobody out."""

import base64
import time

import pytest

from dispatcher.engine.rules.unsubscribe_links import Links, Subscription
from dispatcher.http.server.listener import REQUESTS_AT_ONCE_MAX
from tests.features.receipts import support
from tests.http import wire
from tests.support.caller import Caller, make_key
from tests.support.program import Program

CROWD = REQUESTS_AT_ONCE_MAX + 50
SECRET = "whsec_" + base64.b64encode(b"generic" * 5).decode()
LINKS = "0123456789abcdef" * 4
ANN = Links("", LINKS).url(Subscription("default", "email", "ann@example.org", None))


@pytest.mark.parametrize("path", ["/receipts/generic", ANN], ids=["receipts", "unsubscribing"])
async def test_requests_without_their_bodies_block_no_others(program: Program, path: str) -> None:
    await program.start(
        DISPATCHER_RECEIPTS__GENERIC_SECRETS=SECRET,
        DISPATCHER_UNSUBSCRIBE__SECRETS=LINKS,
        DISPATCHER_UNSUBSCRIBE__PUBLIC_URL="https://mail.example.org",
    )
    caller, nobody = Caller(program, make_key(program)), Caller(program, None)
    said = b'{"id": 4711, "status": "delivered"}'
    half = f"POST {path} HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\nx".encode()
    with wire.many(program, CROWD, half):
        assert [caller.get("/runs").status for _ in range(5)] == [200] * 5
        signed = support.webhook(SECRET, said, time.time()).items()
        assert nobody.call("POST", "/receipts/generic", said, list(signed)).status == 204
        assert nobody.call("POST", ANN, b"from=everything").status == 200
