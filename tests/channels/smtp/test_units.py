"""The pure parts of the SMTP channel: what words are shown, what a code means, when the breaker lets through."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from channels.contract import Refused, Throttled
from channels.shared.breaker import WAIT_SECONDS_MAX, Breaker
from channels.shared.mail.composer import Composed
from channels.smtp.channel import unfit
from channels.smtp.connect import Features
from channels.smtp.message import stuffed
from channels.smtp.server_replies import TEXT_MAX, clean, enhanced_code, reply_text
from channels.smtp.verdicts import Step, judge

ANN = "Ann.Lee@Example.org"


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        ("<ann.lee@example.ORG>: unknown", "<address>: unknown"),
        ("Ann.Lee@Example.org unknown", "<address> unknown"),
        ("ann.lee is not here", "<address> is not here"),
        ("other@host.example, see https://x.example/y", "<address>, see https://x.example/y"),
        ("see https://x.example/?who=ann.lee@example.org", "see https://x.example/?who=<address>"),
        ("see https://x.example/?who=ann.lee%40example.org&x", "see https://x.example/?who=<address>%40example.org&x"),
        ("a\x00b\x1b[31mc\td", "a b [31mc d"),
        ("no \ufffd\ufffd ASCII", "no ?? ASCII"),
    ],
)
def test_server_replies_are_shown_without_addresses_and_control_characters(said: str, shown: str) -> None:
    assert clean(said, ANN) == shown


@given(st.text(max_size=2_000), st.sampled_from([ANN, "a@b.example", '"x y"@b.example', ""]))
def test_whatever_a_server_says_what_is_shown_is_short_printable_and_without_the_recipient(said: str, to: str) -> None:
    for text in (said, f"{said}{to}{said}", f"{said} <{to.upper()}> {said}"):
        shown = clean(text, to)
        assert len(shown) <= TEXT_MAX + 1
        assert shown.isprintable()
        assert not to or to.lower() not in shown.lower()


def test_the_lines_of_an_answer_become_one_without_their_codes() -> None:
    lines = [b"550-5.1.1 The account does", b"550-5.1.1 not exist:\r", b"550 5.1.1 see <ann.lee@example.org>\r"]
    assert reply_text(lines, ANN) == "The account does not exist: see <address>"


@pytest.mark.parametrize(
    ("line", "status"),
    [
        (b"550 5.1.1 x", "5.1.1"),
        (b"550 5.1.10", "5.1.10"),
        (b"550-5.7.1 x", "5.7.1"),
        (b"550 5.1.1x", ""),
        (b"550 x", ""),
        (b"550", ""),
        (b"550 9.1.1 x", ""),
    ],
)
def test_enhanced_codes_are_found_where_they_belong(line: bytes, status: str) -> None:
    assert enhanced_code(line) == status


@pytest.mark.parametrize("status", ["5.1.1", "5.1.2", "5.1.3", "5.1.6", "5.1.10"])
def test_a_bad_address_suppresses_and_the_same_code_for_the_sender_does_not(status: str) -> None:
    line = f"550 {status} no".encode()
    verdicts = [judge(step, [line], ANN, "example.org", 1.0) for step in (Step.RCPT, Step.DOT, Step.MAIL, Step.DATA)]
    assert [isinstance(one, Refused) and one.suppresses for one in verdicts] == [True, True, False, False]


@pytest.mark.parametrize("said", [b"550 5.7.1 x", b"554 5.7.26 x", b"550 no code", b"552 5.2.2 full", b"550 5.2.1 x"])
def test_a_failure_that_the_address_did_not_cause_does_not_suppress(said: bytes) -> None:
    verdict = judge(Step.RCPT, [said], ANN, "example.org", 1.0)
    assert isinstance(verdict, Refused)
    assert not verdict.suppresses


@pytest.mark.parametrize("said", [b"421 x", b"450 x", b"451 4.3.0 x", b"452 4.5.3 x", b"454 4.7.0 x", b"432 4.7.12 x"])
def test_too_much_is_throttled_by_the_domain(said: bytes) -> None:
    assert judge(Step.RCPT, [said], ANN, "example.org", 7.0) == Throttled(7.0, "example.org")


@pytest.mark.parametrize(
    ("body", "wire"),
    [
        (b"a\r\n", b"a\r\n"),
        (b".\r\n", b"..\r\n"),
        (b".a\r\n..b\r\nc.\r\n", b"..a\r\n...b\r\nc.\r\n"),
        (b"", b""),
    ],
)
def test_dots_are_stuffed(body: bytes, wire: bytes) -> None:
    assert stuffed(body) == wire


FEATURES = Features(pipelining=True, chunking=True, eight_bit=True, smtputf8=True, size=0)
FIT = Composed("shop@shop.example", ANN, "example.org", b"Subject: x\r\n\r\nx\r\n", False, False)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({}, ""),
        ({"sender": ""}, ""),
        ({"recipient": '"a b"@example.org'}, ""),
        ({"recipient": "jörg@example.org", "smtputf8": True}, ""),
        ({"data": b"a\nb\r\n"}, "line end"),
        ({"data": b"a\rb\r\n"}, "line end"),
        ({"data": b"a\r\n.\nb\r\n"}, "line end"),
        ({"data": b"a"}, "line end"),
        ({"recipient": "a@b.example> SIZE=1"}, "recipient"),
        ({"recipient": "a@b.example\r\nDATA"}, "recipient"),
        ({"recipient": "a b@c.example"}, "recipient"),
        ({"recipient": "a@\ud800.example"}, "recipient"),
        ({"recipient": "nobody"}, "recipient"),
        ({"sender": "a@b.example\nRSET"}, "from"),
    ],
)
def test_line_breaks_in_commands_and_headers_are_refused(changes: dict[str, Any], words: str) -> None:
    found = unfit(structs.replace(FIT, **changes), FEATURES)
    assert words in found
    assert bool(found) is bool(words)


def test_a_missing_server_extension_is_named() -> None:
    utf8, eight = structs.replace(FIT, smtputf8=True), structs.replace(FIT, eight_bit=True)
    assert "SMTPUTF8" in unfit(utf8, structs.replace(FEATURES, smtputf8=False))
    assert "8BITMIME" in unfit(eight, structs.replace(FEATURES, eight_bit=False))
    assert "takes 10 at most" in unfit(FIT, structs.replace(FEATURES, size=10))


def test_the_breaker_opens_after_failures_in_a_row_and_longer_each_time() -> None:
    breaker = Breaker(2, 30.0)
    breaker.failed(0.0, "no", final=False)
    assert breaker.wait(0.0) == 0.0
    breaker.failed(1.0, "no", final=False)
    assert breaker.wait(1.0) == 30.0
    assert breaker.wait(31.0) == 0.0
    breaker.failed(31.0, "no", final=False)
    assert breaker.wait(31.0) == 60.0
    breaker.succeeded()
    assert breaker.wait(31.0) == 0.0
    breaker.failed(32.0, "no", final=False)
    assert breaker.wait(32.0) == 0.0


def test_a_permanent_failure_opens_the_breaker_at_once() -> None:
    breaker = Breaker(100, 30.0)
    breaker.failed(0.0, "wrong password", final=True)
    assert (breaker.wait(0.0), breaker.words) == (30.0, "wrong password")


def test_its_wait_has_an_end() -> None:
    breaker = Breaker(1, 300.0)
    for _ in range(10):
        breaker.failed(0.0, "no", final=False)
    assert breaker.wait(0.0) == WAIT_SECONDS_MAX
