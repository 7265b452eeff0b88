"""The client over HTTP: servers that die over an answer, bad keys, certificates, and what an import costs."""

import asyncio
import json
import ssl
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from urllib.parse import urlsplit
from uuid import uuid4

import pytest

from dispatcher.client import Client, Forbidden, Message, Refused, Unauthenticated, Unavailable, Unexpected
from dispatcher.selftest.proxy import Proxy
from tests.channels.smtp.certificates import Authority
from tests.conformance.runs import Running
from tests.support.caller import make_key
from tests.support.forks import ROOT

# What an application does not have to load for it.
HEAVY = ("liquid", "litestar", "prometheus_client", "rich", "structlog", "typer", "uvicorn", "uvloop", "yaml")


@pytest.fixture
async def line(place: Running) -> AsyncIterator[Proxy]:
    """The line to the server."""
    async with Proxy("127.0.0.1", urlsplit(place.program.address).netloc, "lines") as proxy:
        yield proxy


@pytest.fixture
async def client(line: Proxy, place: Running) -> AsyncIterator[Client]:
    """A client at the other end of it."""
    async with Client(f"http://127.0.0.1:{line.port}", make_key(place.program)) as made:
        yield made


# How many bytes of an answer arrive before its server is gone: none, some of its head, all of its head and some more.
@pytest.mark.parametrize("arrive", [1, 20, 250])
async def test_a_server_that_dies_over_its_answer_is_asked_again_and_has_done_it_once(
    client: Client, line: Proxy, place: Running, arrive: int
) -> None:
    key = uuid4().hex
    line.cut_after(arrive, "down")
    run = await client.trigger("greeting", {"cut": key})
    line.cut_after(arrive, "down")
    sent = await client.send([Message(key=key, channel="sms", to="+4917012345", body="Hello")])
    assert (run.duplicate, sent[0].duplicate) == (False, False)
    assert line.statistics.cut == 2
    runs = "SELECT array_agg(id) FROM dispatcher.runs WHERE input ->> 'cut' = $1"
    assert await place.runs.connection.fetchval(runs, key) == [run.id]
    await client.wait(run.id, timeout=30, poll=0.02)


async def test_a_lost_idle_connection_is_replaced(client: Client, line: Proxy) -> None:
    first = await client.trigger("greeting")
    line.cut_all()
    assert (await client.trigger("greeting")).id != first.id


async def test_an_unreachable_server_is_named_with_its_address(place: Running) -> None:
    async with Client("http://127.0.0.1:9/some/where", "dsp_a_b", timeout=5) as client:
        with pytest.raises(Unavailable, match=r"http://127\.0\.0\.1:9/some/where"):
            await client.status(1)


async def test_a_key_without_the_right_is_refused(place: Running) -> None:
    async with Client(place.program.address, "dsp_nobody") as client:
        with pytest.raises(Unauthenticated) as unknown:
            await client.trigger("greeting")
    assert (unknown.value.status, bool(unknown.value.request_id)) == (401, True)
    async with Client(place.program.address, make_key(place.program, "triggerOperator")) as client:
        await client.trigger("greeting")
        with pytest.raises(Forbidden):
            await client.send(Message(key="k", channel="sms", to="+4917012345", body="Hello"))


async def test_a_name_with_a_slash_is_one_as_any_other(client: Client) -> None:
    with pytest.raises(Refused) as refused:
        await client.trigger("a/b", key="x" * 256)
    assert [fault.path for fault in refused.value.faults] == ["$.idempotency_key"]


def test_a_client_does_not_show_its_key() -> None:
    shown = repr(Client("https://dispatcher.example.org/prefix/", "dsp_very_secret"))
    assert shown == "Client('https://dispatcher.example.org/prefix')"


async def _answers(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.readuntil(b"\r\n\r\n")
    body = json.dumps({"execution_id": 1, "workflow_name": "w", "version": 1, "total_steps": 1, "duplicate": False})
    writer.write(f"HTTP/1.1 201 Created\r\nContent-Length: {len(body)}\r\n\r\n{body}".encode())
    await writer.drain()
    writer.close()


@pytest.mark.parametrize(
    ("trusts", "host", "good"), [(True, "localhost", True), (False, "localhost", False), (True, "127.0.0.2", False)]
)
async def test_certificates_are_verified(tmp_path: Path, trusts: bool, host: str, good: bool) -> None:
    authority = Authority(tmp_path)
    ours = authority.sign("server")
    serving = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    serving.load_cert_chain(ours.certificate, ours.key)
    server = await asyncio.start_server(_answers, ["127.0.0.1", "127.0.0.2"], 0, ssl=serving)
    ports = {one.getsockname()[0]: one.getsockname()[1] for one in server.sockets}
    port = ports.get(host, ports["127.0.0.1"])
    tls = ssl.create_default_context(cafile=str(authority.certificate)) if trusts else None
    async with server, Client(f"https://{host}:{port}", "dsp_a_b", tls=tls) as client:
        if good:
            assert (await client.trigger("w")).id == 1
        else:
            with pytest.raises(Unexpected, match="certificate"):
                await client.trigger("w")


def test_an_application_that_imports_it_loads_nothing_of_the_program() -> None:
    code = f"""
import sys, dispatcher.client
ours = [name for name in sys.modules if name.startswith(("dispatcher.", "channels"))]
print([name for name in {HEAVY} if name in sys.modules])
print(sorted({{name.split(".")[1] for name in ours}}))
"""
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=True)
    assert found.stdout.splitlines() == ["[]", "['base', 'client']"]
