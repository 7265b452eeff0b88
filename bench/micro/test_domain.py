"""The cost of the rules: a token, a retry decision, a rendered SMS."""

# ruff: noqa: S101 - these are tests, and asserting is what tests do
from pytest_benchmark.fixture import BenchmarkFixture

from bench.outbox import TEMPLATE
from channels.contract import RetryAfter
from dispatcher.engine.rules import retry
from dispatcher.engine.rules.life import Again, Outcome, Resend
from dispatcher.engine.rules.token_bucket import Bucket
from dispatcher.liquid.template import Bounds, Renderer

VARIABLES = '{"name": "Ann", "order": "A-1", "day": "Monday"}'
BYTES_MAX = 256 * 1024
TOKENS = 100


def test_a_token_bucket_gives_tokens(benchmark: BenchmarkFixture) -> None:
    bucket = Bucket.full(1e6, 1e9, 0.0)
    assert benchmark(bucket.take, 1.0, TOKENS) == TOKENS


def test_the_policy_decides_on_a_retry(benchmark: BenchmarkFixture) -> None:
    verdict = RetryAfter("busy")

    def decide() -> Outcome:
        wait = retry.wait_seconds(3, 60.0, 3_600.0, 0.1)
        return retry.decide(verdict, 3, 5, wait, Resend())

    assert type(benchmark(decide)) is Again


def test_an_sms_is_rendered(benchmark: BenchmarkFixture) -> None:
    renderer = Renderer(Bounds(BYTES_MAX, BYTES_MAX, BYTES_MAX, 100))
    parts = benchmark(renderer.render, TEMPLATE, VARIABLES)
    assert parts["body"].startswith("Hi Ann, your order A-1 ships on Monday.")
