"""Properties of the proxy: each way of breaking a line does that and nothing else, seen from both sides of it."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from time import monotonic
from typing import Any
from urllib.parse import parse_qs, urlsplit

import asyncpg
import pytest

from dispatcher.selftest.postgres_protocol import ProtocolName, follow
from dispatcher.selftest.proxy import Proxy
from tests.faults.upstream import Streams, Upstream, hang_up

pytestmark = pytest.mark.anyio

MEGABYTE = 1024 * 1024


class Scene:
    """A client and a server on the two sides of a proxy."""

    def __init__(self, proxy: Proxy, upstream: Upstream) -> None:
        self.proxy = proxy
        self.upstream = upstream
        self.writers: list[asyncio.StreamWriter] = []

    async def client(self) -> Streams:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.proxy.port)
        self.writers.append(writer)
        return reader, writer

    async def pair(self) -> tuple[Streams, Streams]:
        """A client's side and its server's."""
        client = await self.client()
        return client, await self.upstream.taken()


@asynccontextmanager
async def scene(protocol: ProtocolName = "lines") -> AsyncIterator[Scene]:
    async with Upstream() as upstream, Proxy("127.0.0.1", f"127.0.0.1:{upstream.port}", protocol) as proxy:
        stage = Scene(proxy, upstream)
        try:
            yield stage
        finally:
            for writer in stage.writers:
                await hang_up(writer)


async def ended(reader: asyncio.StreamReader) -> bool:
    """The rest of a connection is its end, or a reset."""
    try:
        return await reader.read() == b""
    except ConnectionError:
        return True


async def was_reset(reader: asyncio.StreamReader) -> bool:
    try:
        await reader.read()
    except ConnectionResetError:
        return True
    return False


# Relaying


async def test_bytes_pass_in_both_directions_and_so_does_each_end() -> None:
    async with scene() as stage:
        (reader, writer), (far_reader, far_writer) = await stage.pair()
        writer.write(b"question")
        writer.write_eof()
        assert await far_reader.read() == b"question"
        far_writer.write(b"answer")
        far_writer.write_eof()
        assert await reader.read() == b"answer"
        await stage.proxy.until(lambda now: now.open == 0)
        assert (stage.proxy.statistics.bytes_up, stage.proxy.statistics.bytes_down) == (8, 6)


async def test_a_client_that_goes_takes_its_server_connection_with_it() -> None:
    async with scene() as stage:
        (_, writer), (far_reader, far_writer) = await stage.pair()
        await hang_up(writer)
        assert await ended(far_reader)
        await hang_up(far_writer)
        await stage.proxy.until(lambda now: now.open == 0)


async def test_a_server_that_is_not_there_resets_the_client() -> None:
    async with Upstream() as upstream:
        port = upstream.port
    async with Proxy("127.0.0.1", f"127.0.0.1:{port}") as proxy:
        reader, writer = await asyncio.open_connection("127.0.0.1", proxy.port)
        assert await ended(reader)
        await hang_up(writer)
        assert proxy.statistics.unreachable == 1
        assert proxy.statistics.open == 0


@pytest.mark.parametrize("protocol", ["lines", "postgres"])
async def test_a_slow_reader_slows_the_writer_and_loses_nothing(protocol: ProtocolName) -> None:
    async with scene(protocol) as stage:
        (_, writer), (far_reader, _) = await stage.pair()
        block = bytes(range(256)) * 4096
        sending = asyncio.create_task(_send(writer, block, 100))
        for _ in range(100):
            assert await far_reader.readexactly(len(block)) == block
        await sending


async def _send(writer: asyncio.StreamWriter, block: bytes, count: int) -> None:
    for _ in range(count):
        writer.write(block)
        await writer.drain()
    writer.write_eof()


# Breaking


async def test_cut_all_resets_both_sides_of_every_connection() -> None:
    async with scene() as stage:
        pairs = [await stage.pair() for _ in range(3)]
        stage.proxy.cut_all()
        for (reader, _), (far_reader, _) in pairs:
            assert await was_reset(reader)
            assert await was_reset(far_reader)
        assert stage.proxy.statistics.cut == 3
        await stage.proxy.until(lambda now: now.open == 0)


async def test_refuse_resets_new_connections_and_leaves_old_ones_alone() -> None:
    async with scene() as stage:
        (_, writer), (far_reader, _) = await stage.pair()
        stage.proxy.refuse()
        reader, _ = await stage.client()
        assert await was_reset(reader)
        assert stage.proxy.statistics.refused == 1
        writer.write(b"still here")
        assert await far_reader.readexactly(10) == b"still here"
        stage.proxy.refuse(False)
        (_, writer), (far_reader, _) = await stage.pair()
        writer.write(b"again")
        assert await far_reader.readexactly(5) == b"again"


async def test_delay_holds_each_direction_back_and_keeps_the_order() -> None:
    async with scene() as stage:
        (reader, writer), (far_reader, far_writer) = await stage.pair()
        stage.proxy.delay(0.05)
        began = monotonic()
        writer.write(b"1\n")
        assert await far_reader.readline() == b"1\n"
        assert monotonic() - began >= 0.045
        far_writer.write(b"2\n")
        assert await reader.readline() == b"2\n"
        assert monotonic() - began >= 0.09
        writer.write(b"late ")
        await stage.proxy.until(lambda now: now.bytes_up == 7)
        stage.proxy.delay(0)
        writer.write(b"early\n")
        assert await far_reader.readline() == b"late early\n"


async def test_delay_bounds_what_it_keeps_and_loses_nothing() -> None:
    async with scene() as stage:
        (_, writer), (far_reader, _) = await stage.pair()
        stage.proxy.delay(0.01)
        block = bytes(range(256)) * 4096
        sending = asyncio.create_task(_send(writer, block, 20))
        assert await far_reader.read(-1) == block * 20
        await sending


@pytest.mark.parametrize("size", [1, 7, 4096])
async def test_cut_after_passes_exactly_so_many_bytes_up(size: int) -> None:
    async with scene() as stage:
        (reader, writer), (far_reader, _) = await stage.pair()
        stage.proxy.cut_after(size, "up")
        writer.write(b"x" * (size + 100))
        assert await far_reader.read() == b"x" * size
        assert await was_reset(reader)
        assert stage.proxy.statistics.cut == 1
        (_, writer), (far_reader, _) = await stage.pair()
        writer.write(b"once only")
        assert await far_reader.readexactly(9) == b"once only"


async def test_cut_after_counts_across_pieces_and_connections_and_may_cut_answers() -> None:
    async with scene() as stage:
        (reader, _), (_, far_writer) = await stage.pair()
        (other_reader, _), (other_far_reader, other_far_writer) = await stage.pair()
        stage.proxy.cut_after(10, "down")
        far_writer.write(b"123456")
        assert await reader.readexactly(6) == b"123456"
        other_far_writer.write(b"abcdef")
        assert await other_reader.read() == b"abcd"
        assert await ended(other_far_reader)
        far_writer.write(b"78")
        assert await reader.readexactly(2) == b"78"


async def test_drop_lets_nothing_pass_and_closes_nothing_until_the_line_is_back() -> None:
    async with scene() as stage:
        (reader, writer), (far_reader, far_writer) = await stage.pair()
        stage.proxy.drop()
        writer.write(b"up")
        far_writer.write(b"down")
        arriving = [asyncio.create_task(far_reader.readexactly(2)), asyncio.create_task(reader.readexactly(4))]
        done, _ = await asyncio.wait(arriving, timeout=0.05, return_when=asyncio.FIRST_COMPLETED)
        assert not done
        assert (stage.proxy.statistics.bytes_up, stage.proxy.statistics.open) == (0, 1)
        stage.proxy.drop(False)
        assert await asyncio.gather(*arriving) == [b"up", b"down"]


async def test_drop_holds_for_new_connections_and_for_what_is_delayed() -> None:
    async with scene() as stage:
        (_, writer), (far_reader, _) = await stage.pair()
        stage.proxy.delay(0.001)
        writer.write(b"delayed\n")
        await stage.proxy.until(lambda now: now.bytes_up == 8)
        stage.proxy.drop()
        (_, new_writer), (new_far_reader, _) = await stage.pair()
        new_writer.write(b"new\n")
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.03):
                await far_reader.readline()
        stage.proxy.drop(False)
        assert await far_reader.readline() == b"delayed\n"
        assert await new_far_reader.readline() == b"new\n"


async def test_cut_all_cuts_what_is_dropped_too() -> None:
    async with scene() as stage:
        (reader, _), (far_reader, _) = await stage.pair()
        stage.proxy.drop()
        stage.proxy.cut_all()
        assert await ended(reader)
        assert await ended(far_reader)


async def test_swallowing_awaits_the_complete_answer_of_the_requests_up_to_the_one() -> None:
    async with scene() as stage:
        (reader, writer), (far_reader, far_writer) = await stage.pair()
        stage.proxy.swallow_answers(1, b"two")
        writer.write(b"one\n")
        assert await far_reader.readline() == b"one\n"
        far_writer.write(b"first\n")
        assert await reader.readline() == b"first\n"
        writer.write(b"tw")
        writer.write(b"o\n")
        assert await far_reader.readline() == b"two\n"
        far_writer.write(b"sec")
        assert stage.proxy.statistics.swallowed == 0
        far_writer.write(b"ond\n")
        await stage.proxy.until(lambda now: now.swallowed == 1)
        assert await was_reset(reader)
        assert await was_reset(far_reader)


# Postgres


def _upstream(url: str) -> tuple[str, dict[str, Any]]:
    """The socket of the server, and what a client needs beside the proxy's address."""
    parts = urlsplit(url)
    socket = parse_qs(parts.query)["host"][0] + "/.s.PGSQL.5432"
    login = {"user": parts.username or "postgres", "database": parts.path.removeprefix("/")}
    return socket, {"host": "127.0.0.1", "ssl": "prefer", **login}


@asynccontextmanager
async def postgres(url: str) -> AsyncIterator[tuple[Proxy, dict[str, Any]]]:
    socket, login = _upstream(url)
    async with Proxy("127.0.0.1", socket) as proxy:
        yield proxy, login | {"port": proxy.port}


GONE = (OSError, asyncpg.InterfaceError, asyncpg.PostgresConnectionError)


@pytest.fixture
async def counter(connection: Any) -> Any:
    """A plain connection past the proxy, to a table with a number in it."""
    await connection.execute("CREATE TABLE counter AS SELECT 0 AS n")
    return connection


@pytest.mark.parametrize("arguments", [(), (1,)], ids=["simple", "prepared"])
async def test_a_swallowed_answer_is_of_a_statement_that_was_committed(
    url: str, counter: Any, arguments: tuple[int, ...]
) -> None:
    async with postgres(url) as (proxy, login):
        client = await asyncpg.connect(**login)
        assert await client.fetchval("SELECT n FROM counter") == 0
        proxy.swallow_answers(1)
        with pytest.raises(GONE):
            await client.execute(f"UPDATE counter SET n = n + {'$1' if arguments else 1}", *arguments)
        assert await counter.fetchval("SELECT n FROM counter") == 1
        assert proxy.statistics.swallowed == 1
        assert client.is_closed()
        again = await asyncpg.connect(**login)
        await again.execute("UPDATE counter SET n = n + 1")
        assert await again.fetchval("SELECT n FROM counter") == 2
        await again.close()


async def test_the_answer_to_a_commit_can_be_swallowed(url: str, counter: Any) -> None:
    async with postgres(url) as (proxy, login):
        client = await asyncpg.connect(**login)
        proxy.swallow_answers(1, b"COMMIT")
        transaction = client.transaction()
        await transaction.start()
        await client.execute("UPDATE counter SET n = $1", 7)
        assert await counter.fetchval("SELECT n FROM counter") == 0
        with pytest.raises(GONE):
            await transaction.commit()
        assert await counter.fetchval("SELECT n FROM counter") == 7
        assert proxy.statistics.swallowed == 1


async def test_a_prepared_statement_is_known_by_its_text_when_it_runs_again(url: str, counter: Any) -> None:
    async with postgres(url) as (proxy, login):
        client = await asyncpg.connect(**login)
        update = await client.prepare("UPDATE counter SET n = n + $1")
        select = await client.prepare("SELECT n FROM counter WHERE n >= $1")
        await update.fetch(1)
        proxy.swallow_answers(1, b"UPDATE counter")
        assert await select.fetchval(0) == 1
        with pytest.raises(GONE):
            await update.fetch(1)
        assert await counter.fetchval("SELECT n FROM counter") == 2


async def test_an_error_is_an_answer_too(url: str, counter: Any) -> None:
    async with postgres(url) as (proxy, login):
        client = await asyncpg.connect(**login)
        proxy.swallow_answers(1)
        with pytest.raises(GONE):
            await client.execute("SELECT 1 / 0")
        assert proxy.statistics.swallowed == 1


async def test_big_answers_and_bulk_loads_go_through_and_are_still_followed(url: str, counter: Any) -> None:
    async with postgres(url) as (proxy, login):
        client = await asyncpg.connect(**login)
        big = "x" * (5 * MEGABYTE)
        assert await client.fetchval("SELECT $1::text", big) == big
        assert len(await client.fetch("SELECT generate_series(1, 50000)")) == 50_000
        await client.copy_records_to_table("counter", records=[(number,) for number in range(10_000)])
        proxy.swallow_answers(1, b"DELETE")
        with pytest.raises(GONE):
            await client.execute("DELETE FROM counter")
        assert await counter.fetchval("SELECT count(*) FROM counter") == 0


def test_a_protocol_other_than_postgres_is_not_parsed() -> None:
    talk = follow("postgres")
    assert list(talk.up(b"GET / HTTP/1.1\r\n\r\n")) == []
    assert talk.lost


class Hasty(Proxy):
    """Says that somebody came before it has done anything about it."""

    def __init__(self, upstream: str) -> None:
        super().__init__("127.0.0.1", upstream)
        self.came = asyncio.Event()

    def _accept(self) -> asyncio.Protocol:
        self.came.set()
        return super()._accept()


async def test_a_drain_ends_although_a_connection_arrives_at_that_moment() -> None:
    async with asyncio.timeout(10), Upstream() as upstream:
        async with Hasty(f"127.0.0.1:{upstream.port}") as proxy:
            connecting = asyncio.create_task(asyncio.open_connection("127.0.0.1", proxy.port))
            await proxy.came.wait()
        reader, writer = await connecting
        assert await ended(reader)
        await hang_up(writer)
