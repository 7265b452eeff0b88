"""The cost of a message: the composer beside the standard library's EmailMessage, on an order of 1.5 KB."""

# ruff: noqa: S101 - these are tests, and asserting is what tests do
import time
from collections.abc import Callable
from email.message import EmailMessage
from email.policy import SMTP

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from channels.contract import Envelope, Licence
from channels.shared.mail.composer import Composer
from channels.shared.mail.settings import MailSettings

SENDER = "Shop <shop@example.org>"
DATED = 1_767_225_600
SUBJECT = "Your order A-1017 is on its way"
ITEMS = [(f"lamp no. {number}", f"{number * 7}.90") for number in range(1, 14)]
TEXT = "Hello Ann,\n\nthank you for your order A-1017.\n\n{}\nTrack it: https://shop.example/o/1017\n".format(
    "".join(f"- {name}: {price} EUR\n" for name, price in ITEMS)
)
ROWS = "".join(f"<tr><td>{name}</td>\n<td align='right'>{price} EUR</td></tr>\n" for name, price in ITEMS)
HTML = (
    "<html><body style='font-family: sans-serif'>\n<h1>Hello Ann,</h1>\n"
    "<p>thank you for your order <b>A-1017</b>.</p>\n"
    f"<table width='100%'>\n{ROWS}</table>\n"
    "<p><a href='https://shop.example/o/1017' style='color: #06c'>Track it</a></p>\n</body></html>\n"
)
ENVELOPE = Envelope(
    object.__new__(Licence),
    1_017,
    "default",
    "default",
    "order-1017",
    "email",
    "ann@example.net",
    {"subject": SUBJECT, "text": TEXT, "html": HTML},
    {},
    1,
    DATED,
)
COMPOSER = Composer(MailSettings(sender=SENDER))
ROUNDS = 7
# What the goal is; a run as a test only shows that both work.
RATIO_MIN = 50


def ours() -> bytes:
    """The composer, as a channel calls it."""
    return COMPOSER.compose(ENVELOPE).data


def theirs() -> bytes:
    """The same message by the standard library."""
    message = EmailMessage(policy=SMTP)
    message["Date"] = "Thu, 01 Jan 2026 00:00:00 +0000"
    message["From"] = SENDER
    message["To"] = "ann@example.net"
    message["Subject"] = SUBJECT
    message["Message-ID"] = "<248b4bc2244f4ca01011d94ec6c0724f@example.org>"
    message["Auto-Submitted"] = "auto-generated"
    message.set_content(TEXT)
    message.add_alternative(HTML, subtype="html")
    return message.as_bytes()


def test_an_order_is_composed(benchmark: BenchmarkFixture) -> None:
    assert benchmark(ours).endswith(b"--\r\n")


def test_an_order_in_german_is_composed(benchmark: BenchmarkFixture) -> None:
    parts = {"subject": "Ihre Bestellung: Größe 38", "text": TEXT + "Grüße\n", "html": HTML + "<p>Grüße</p>\n"}
    envelope = Envelope(object.__new__(Licence), 1, "t", "w", "k", "email", "ann@example.net", parts, {}, 1, DATED)
    assert COMPOSER.compose(envelope).data.isascii()
    benchmark(COMPOSER.compose, envelope)


def test_an_order_is_written_by_the_standard_library(benchmark: BenchmarkFixture) -> None:
    assert benchmark(theirs).endswith(b"--\r\n")


def test_composing_is_fifty_times_as_fast(request: pytest.FixtureRequest) -> None:
    assert len(HTML) + len(TEXT) in range(1_400, 1_600)
    if request.config.getoption("benchmark_disable"):
        return
    fast, slow = best(ours, 500), best(theirs, 20)
    assert slow / fast >= RATIO_MIN, f"{slow / fast:.0f} times as fast: {fast * 1e6:.1f} µs"


def best(call: Callable[[], bytes], repeated: int) -> float:
    """Seconds for one call, in the best of some rounds: the others say what else the machine did."""
    times: list[float] = []
    for _ in range(ROUNDS):
        begun = time.perf_counter()
        for _ in range(repeated):
            call()
        times.append((time.perf_counter() - begun) / repeated)
    return min(times)
