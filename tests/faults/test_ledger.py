"""Properties of the ledger, as a process with a real socket: what it answers is in its books, whatever else it does."""

import asyncio
import json
import signal
from collections import Counter
from pathlib import Path
from time import monotonic, time
from typing import Any

import pytest

from dispatcher.selftest.ledger import Faults, read_ledger
from dispatcher.selftest.ledger_file import LedgerFile, read_requests
from tests.faults.provider import Provider, message

pytestmark = pytest.mark.anyio


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "ledger"


def kinds(answers: list[dict[str, Any]]) -> Counter[str]:
    return Counter(next(iter(answer)) for answer in answers)


async def test_accepted_messages_are_recorded_before_the_answer(path: Path) -> None:
    async with Provider(path) as provider:
        client = await provider.connect()
        assert await client.ask(message(1), message(2, attempt=3)) == [
            {"accepted": "ledger-1"},
            {"accepted": "ledger-2"},
        ]
        books = provider.entries()
        await client.close()
    assert books["key-2"].delivery_id == 2
    assert (books["key-2"].accepted, books["key-2"].again) == (1, 0)
    assert (books["key-2"].first_attempt, books["key-2"].first_sequence) == (3, 2)
    assert 0 < books["key-2"].first_at <= monotonic()


async def test_every_request_is_noted_with_its_fault_and_time(path: Path) -> None:
    requests = path.with_suffix(".requests")
    began = time()
    async with Provider(path, "--retry", "1", "--requests", str(requests)) as provider:
        client = await provider.connect()
        await client.ask(message(1), message(1, attempt=2))
        await client.close()
        noted = read_requests(requests)
    assert [(one.key, one.attempt, one.fault) for one in noted] == [("key-1", 1, "retry"), ("key-1", 2, "retry")]
    assert {one.connection for one in noted} == {1}
    assert began <= noted[0].at <= noted[1].at <= time()


async def test_what_was_accepted_before_is_noted_as_accepted(path: Path) -> None:
    requests = path.with_suffix(".requests")
    terms = ("--dedupe", "--requests", str(requests))
    async with Provider(path, *terms) as provider:
        client = await provider.connect()
        await client.ask(message(1))
        await client.close()
    async with Provider(path, *terms, "--refuse", "1") as provider:
        client = await provider.connect()
        await client.ask(message(1, attempt=2), message(2))
        await client.close()
    assert [one.fault for one in read_requests(requests)] == ["accept", "accept", "refuse"]


async def test_a_keyless_one_accepts_the_same_key_twice(path: Path) -> None:
    async with Provider(path) as provider:
        client = await provider.connect()
        assert await client.ask(message(1), message(1, attempt=2)) == [
            {"accepted": "ledger-1"},
            {"accepted": "ledger-2"},
        ]
        entry = provider.entries()["key-1"]
        await client.close()
    assert (entry.accepted, entry.again, entry.first_attempt, entry.last_attempt) == (2, 0, 1, 2)


async def test_a_keyed_one_answers_with_the_first_id_and_counts_that_it_was_asked_again(path: Path) -> None:
    async with Provider(path, "--dedupe") as provider:
        client = await provider.connect()
        assert await client.ask(message(1), message(1, attempt=2), message(2)) == [
            {"accepted": "ledger-1"},
            {"accepted": "ledger-1"},
            {"accepted": "ledger-2"},
        ]
        entry = provider.entries()["key-1"]
        await client.close()
    assert (entry.accepted, entry.again) == (1, 1)


@pytest.mark.parametrize(
    ("fault", "answer"),
    [("refuse", {"refused": "asked_for"}), ("retry", {"retry": "asked_for"}), ("throttle", {"throttled": 0.05})],
)
async def test_refused_messages_are_not_in_the_ledger(path: Path, fault: str, answer: dict[str, Any]) -> None:
    async with Provider(path, f"--{fault}", "1") as provider:
        client = await provider.connect()
        assert await client.ask(message(1)) == [answer]
        assert provider.entries() == {}
        await client.close()


async def test_a_dropped_one_is_in_the_books_and_nothing_behind_it_is(path: Path) -> None:
    seed = next(seed for seed in range(1_000) if _drops(seed) == [False, True, False])
    async with Provider(path, "--drop", "0.5", "--seed", str(seed)) as provider:
        client = await provider.connect()
        assert await client.ask(message(1), message(2), message(3)) == [{"accepted": "ledger-1"}]
        assert set(provider.entries()) == {"key-1", "key-2"}
        await client.close()


def _drops(seed: int) -> list[bool]:
    return [Faults(seed=seed, drop=0.5).draw(f"key-{number}", 1, 0)[0] == "drop" for number in (1, 2, 3)]


async def test_a_keyed_one_that_dropped_the_answer_gives_it_when_asked_again(path: Path) -> None:
    seed = next(seed for seed in range(1_000) if Faults(seed=seed, drop=0.5).draw("key-1", 1, 0)[0] == "drop")
    async with Provider(path, "--drop", "0.5", "--seed", str(seed), "--dedupe") as provider:
        answers: list[dict[str, Any]] = []
        attempt = 0
        while not answers:
            attempt += 1
            client = await provider.connect()
            answers = await client.ask(message(1, attempt=attempt))
            await client.close()
        entry = provider.entries()["key-1"]
    assert answers == [{"accepted": "ledger-1"}]
    assert (entry.accepted, entry.again) == (1, attempt - 1)


async def test_a_delayed_answer_comes_late_in_order_and_after_the_books(path: Path) -> None:
    arguments = ("--delay-ms-max", "200", "--seed", "7")
    delays = [Faults(seed=7, delay_ms_max=200).draw(f"key-{number}", 1, 0)[1] for number in range(5)]
    async with Provider(path, *arguments) as provider:
        client = await provider.connect()
        began = monotonic()
        answers = await client.ask(*map(message, range(5)))
        assert monotonic() - began >= max(delays) - 0.01
        await client.close()
        assert [answer["accepted"] for answer in answers] == [f"ledger-{number}" for number in range(1, 6)]


async def test_the_same_seed_draws_the_same_in_whatever_order_messages_come(path: Path) -> None:
    faults = ("--seed", "3", "--refuse", "0.3", "--retry", "0.2", "--throttle", "0.2")
    seen: list[dict[str, str]] = []
    for file, order in ((path, range(200)), (path.with_suffix(".other"), range(199, -1, -1))):
        async with Provider(file, *faults) as provider:
            client = await provider.connect()
            answers = await client.ask(*map(message, order))
            await client.close()
            seen.append({f"key-{number}": next(iter(a)) for number, a in zip(order, answers, strict=True)})
    assert seen[0] == seen[1]
    assert set(seen[0].values()) == {"accepted", "refused", "retry", "throttled"}


async def test_a_throttled_attempt_is_not_throttled_for_ever(path: Path) -> None:
    async with Provider(path, "--throttle", "0.5") as provider:
        client = await provider.connect()
        waiting = set(range(50))
        for _ in range(64):
            order = sorted(waiting)
            answers = await client.ask(*map(message, order))
            waiting -= {number for number, answer in zip(order, answers, strict=True) if "accepted" in answer}
        await client.close()
        assert not waiting
        assert all(entry.accepted == 1 for entry in provider.entries().values())


async def test_garbage_is_refused_and_the_connection_goes_on(path: Path) -> None:
    async with Provider(path) as provider:
        client = await provider.connect()
        client.writer.write(b'nonsense\n{"key": 1}\n\xff\n\n')
        assert [await client.answer() for _ in range(4)] == [{"refused": "not_a_request"}] * 4
        assert kinds(await client.ask(message(1))) == {"accepted": 1}
        await client.close()


async def test_a_line_without_an_end_is_cut_off(path: Path) -> None:
    async with Provider(path) as provider:
        client = await provider.connect()
        client.writer.write(b"x" * (9 * 1024 * 1024))
        assert await client.answer() is None
        await client.close()


async def test_requests_in_pieces_are_put_together(path: Path) -> None:
    async with Provider(path) as provider:
        client = await provider.connect()
        line = json.dumps(message(1)).encode() + b"\n"
        for at in range(0, len(line), 7):
            client.writer.write(line[at : at + 7])
            await client.writer.drain()
        assert await client.answer() == {"accepted": "ledger-1"}
        await client.close()


async def test_it_continues_its_books_and_cuts_a_torn_line_off(path: Path) -> None:
    async with Provider(path, "--dedupe") as provider:
        client = await provider.connect()
        await client.ask(message(1), message(2))
        await provider.end(signal.SIGKILL)
        await client.close()
    with path.open("ab") as file:
        file.write(b'{"key":"key-3","deliv')
    assert set(read_ledger(path)) == {"key-1", "key-2"}
    async with Provider(path, "--dedupe") as provider:
        client = await provider.connect()
        assert await client.ask(message(1), message(3)) == [{"accepted": "ledger-1"}, {"accepted": "ledger-3"}]
        assert await provider.end(signal.SIGTERM) == 0
        await client.close()
    books = read_ledger(path)
    assert {key: (entry.accepted, entry.again) for key, entry in books.items()} == {
        "key-1": (1, 1),
        "key-2": (1, 0),
        "key-3": (1, 0),
    }


@pytest.mark.parametrize("line", [b"nonsense\n", b"{}\n", b'{"key":"a","again":"a"}\n', b"\n", b"x" * 70_000 + b"\n"])
def test_an_invalid_line_in_the_middle_is_an_error_with_its_number(path: Path, line: bytes) -> None:
    path.write_bytes(b'{"again":"a"}\n' + line + b'{"again":"a"}\n')
    with pytest.raises(ValueError, match="line 2"):
        read_ledger(path)


async def test_it_ends_when_it_cannot_write(path: Path) -> None:
    async with Provider(path) as provider:
        client = await provider.connect()
        assert await client.ask(message(1)) == [{"accepted": "ledger-1"}]
        provider.let_write(len(provider.raw()) + 20)
        assert await client.ask(message(2)) == []
        assert await provider.end(0) == 1
        await client.close()
    assert set(read_ledger(path)) == {"key-1"}


@pytest.mark.parametrize("path", ["/dev/zero", "/tmp"])  # noqa: S108 - nothing is written there, which is the point
def test_books_are_a_regular_file(path: str) -> None:
    with pytest.raises(ValueError, match="regular file"):
        LedgerFile(Path(path))


async def test_it_answers_twenty_thousand_messages_of_several_talks(path: Path) -> None:
    count, talks = 20_000, 4
    async with Provider(path, "--delay-ms-max", "1", "--retry", "0.01") as provider:
        lines = [await provider.connect() for _ in range(talks)]
        answers = await asyncio.gather(
            *(client.ask(*map(message, range(at, count, talks))) for at, client in enumerate(lines))
        )
        for client in lines:
            await client.close()
        accepted = sum(kinds(found)["accepted"] for found in answers)
        assert sum(map(len, answers)) == count
        assert accepted == len(provider.entries())
