"""The audit of attempts finds each way to break the schedule, in made-up histories and in a changed program."""

from collections.abc import Iterator

import pytest
from msgspec.structs import replace

from bench.retrying.audit import Delivery, Findings, Try, audit
from bench.retrying.schedule import Schedule, due_seconds
from bench.retrying.trial import trial
from bench.server import Server
from dispatcher.selftest.ledger_file import Request
from tests.support.folders import folder

SCHEDULE = Schedule(base_seconds=1.0, cap_seconds=2.0, jitter=0.5, attempts_max=3)
# Due at 10, failed at 10 and at 11.2, accepted at 14.
GOOD = Delivery(
    key="a",
    keyed=False,
    due=10.0,
    state="sent",
    attempt=3,
    reason="",
    tries={1: Try(10.1, 11.2, False, "asked for"), 2: Try(11.3, 14.0, False, "asked for")},
)
REQUESTS = [Request("a", 1, "retry", 10.0), Request("a", 2, "retry", 11.2), Request("a", 3, "accept", 14.25)]


def found(delivery: Delivery, requests: list[Request], accepted: int = 1) -> list[str]:
    return list(audit([delivery], requests, {"a": accepted}, SCHEDULE).counts)


def changed(number: int, **fields: object) -> list[Request]:
    return [replace(one, **fields) if place == number else one for place, one in enumerate(REQUESTS)]


def test_a_sound_history_has_no_findings_and_its_lateness_is_measured() -> None:
    findings = audit([GOOD], REQUESTS, {"a": 1}, SCHEDULE)
    assert not findings.counts
    # After the first answer 1.1 s were to be waited, after the second one 2.7 s.
    assert findings.late_seconds == pytest.approx([0.0, 0.1, 0.35])


@pytest.mark.parametrize(
    ("what", "delivery", "requests", "accepted"),
    [
        ("an attempt too early", GOOD, changed(0, at=9.9), 1),
        ("an attempt too early", GOOD, changed(1, at=10.9), 1),
        ("an attempt out of turn", GOOD, changed(1, attempt=1), 1),
        ("an attempt after the last one", GOOD, [*REQUESTS, Request("a", 4, "accept", 20.0)], 1),
        ("an attempt after the last one", GOOD, changed(1, fault="refuse"), 1),
        ("more attempts than allowed", replace(GOOD, attempt=4), changed(2, attempt=4), 1),
        ("accepted more than once", GOOD, REQUESTS, 2),
        ("sent, and never accepted", GOOD, REQUESTS, 0),
        ("failed, and should be sent", replace(GOOD, state="failed"), REQUESTS, 1),
        ("sent, and should be held", GOOD, changed(2, fault="drop"), 1),
        ("an attempt without a row", replace(GOOD, tries={1: GOOD.tries[1]}), REQUESTS, 1),
        ("another number of attempts than the provider saw", replace(GOOD, attempt=2), REQUESTS, 1),
        ("lost: queued without a last attempt", replace(GOOD, state="queued", attempt=2), REQUESTS[:2], 0),
        ("sent, and in no row", replace(GOOD, key="b"), REQUESTS, 1),
    ],
)
def test_each_broken_promise_is_found(what: str, delivery: Delivery, requests: list[Request], accepted: int) -> None:
    assert what in found(delivery, requests, accepted)


@pytest.mark.parametrize("next_at", [11.0, 11.7])
def test_a_wait_outside_the_jitter_is_found(next_at: float) -> None:
    tries = {**GOOD.tries, 1: Try(10.1, next_at, False, "asked for")}
    assert found(replace(GOOD, tries=tries), REQUESTS) == ["a wait that is not of the schedule"]


def test_a_throttled_attempt_comes_again_after_its_time_and_uses_none_up() -> None:
    once = replace(GOOD, attempt=1, tries={})
    throttled = [Request("a", 1, "throttle", 10.0), Request("a", 1, "accept", 10.06)]
    assert found(once, throttled) == []
    assert found(once, [throttled[0], Request("a", 1, "accept", 10.03)]) == ["an attempt too early"]
    assert "an attempt out of turn" in found(replace(once, attempt=2), [throttled[0], Request("a", 2, "accept", 10.06)])


def test_an_unknown_attempt_is_repeated_by_a_key_and_held_without_one() -> None:
    lost = [Request("a", 1, "drop", 10.0), Request("a", 2, "accept", 11.2)]
    keyed = replace(GOOD, keyed=True, attempt=2, tries={1: Try(10.1, 11.2, True, "unknown: lost")})
    assert found(keyed, lost) == []
    assert "an attempt after the last one" in found(replace(keyed, keyed=False), lost)
    assert found(replace(GOOD, state="held", attempt=1, tries={}), lost[:1]) == []


def test_an_answer_may_be_lost_with_a_connection_that_was_dropped() -> None:
    held = replace(GOOD, state="held", attempt=1, tries={}, reason="unknown: lost")
    answered = [Request("a", 1, "accept", 10.0, connection=7)]
    assert found(held, answered) == ["held, and should be sent"]
    dropped = Request("b", 1, "drop", 10.0, connection=7)
    assert found(held, [*answered, dropped]) == ["sent, and in no row"], "only b is missing"


def test_a_throttled_request_is_not_the_one_that_was_lost() -> None:
    keyed = replace(GOOD, keyed=True, attempt=2, tries={1: Try(10.2, 11.3, True, "unknown: lost")})
    requests = [
        Request("a", 1, "throttle", 10.0, connection=7),
        Request("a", 1, "drop", 10.1, connection=7),
        Request("a", 2, "accept", 11.3, connection=8),
    ]
    assert found(keyed, requests) == []


def test_findings_are_added_with_all_that_they_have() -> None:
    some, others = Findings(), Findings()
    for number in range(9):
        others.note("lost", str(number))
    some.note("lost", "a")
    some.add(others)
    assert (some.counts["lost"], some.keys["lost"]) == (10, ["a", "0", "1", "2", "3"])


def test_an_attempt_that_the_provider_never_read_is_known_from_its_row() -> None:
    keyed = replace(GOOD, keyed=True, attempt=2, tries={1: Try(10.1, 11.2, True, "unknown: lost")})
    assert found(keyed, [Request("a", 2, "accept", 11.3)]) == []
    assert found(keyed, [Request("a", 2, "accept", 11.1)]) == ["an attempt too early"]
    without = found(replace(keyed, keyed=False), [Request("a", 2, "accept", 11.3)])
    assert without == ["an unknown attempt was repeated without a key"]


def test_so_many_are_due_a_second_and_some_at_once() -> None:
    assert [due_seconds(number, 700) for number in (0, 69, 70, 700)] == pytest.approx([0.0, 0.0, 0.1, 1.0])


@pytest.fixture(scope="module")
def bench_server() -> Iterator[Server]:
    """One embedded server; each trial takes a database of its own from it."""
    with folder("bench") as place, Server(place) as server:
        yield server


async def test_the_program_keeps_its_schedule(bench_server: Server) -> None:
    findings = await trial(bench_server, 400, 1)
    assert not findings.counts, str(findings)
    assert len(findings.late_seconds) > 400


async def test_a_program_whose_waits_do_not_grow_is_found(bench_server: Server) -> None:
    findings = await trial(bench_server, 100, 1, RETRY__CAP_SECONDS="0.2")
    assert set(findings.counts) >= {"a wait that is not of the schedule", "an attempt too early"}, str(findings)
