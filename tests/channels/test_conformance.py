"""The contract's MUSTs, for every provider alike, behaving and misbehaving."""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import asyncpg
import pytest
from msgspec import structs

from channels.contract import Accepted, Channel, NotCalled, Refused, RetryAfter, Throttled, Unknown
from channels.registry import PROVIDERS
from dispatcher.config.settings import Database as Settings
from dispatcher.config.settings import Faults
from dispatcher.db.database import Database
from tests.channels.suite import CONTENT, NUMBER, Post, Providers, Verdicts
from tests.support.scene import Scene
from tests.support.waits import until

each_provider = pytest.mark.parametrize("provider", sorted(PROVIDERS))
FAULTY = {
    "none": Faults(),
    "slow": Faults(latency=1.0, latency_seconds=0.001),
    "mixed": Faults(seed=7, latency=0.5, latency_seconds=0.001, refuse=0.2, retry=0.2, throttle=0.2, unknown=0.2),
}
each_behaviour = pytest.mark.parametrize("faults", FAULTY.values(), ids=FAULTY)
VERDICT = {"refuse": Refused, "retry": RetryAfter, "throttle": Throttled, "unknown": Unknown}


@pytest.fixture(scope="module")
async def database(shared_url: str) -> AsyncIterator[Database]:
    """One pool for all tests: each has deliveries of its own."""
    database = Database(Settings(), shared_url)
    await database.open()
    yield database
    await database.close()


@pytest.fixture(scope="module")
async def far_sides(database: Database) -> AsyncIterator[Providers]:
    """Every provider, with its fake server, which listens for all tests."""
    providers = Providers(database)
    await providers.start()
    yield providers
    await providers.stop()


@pytest.fixture
async def providers(far_sides: Providers) -> Providers:
    """Every provider, and nothing has arrived at it yet."""
    await far_sides.forget()
    return far_sides


@pytest.fixture
async def post(database: Database, providers: Providers, request: pytest.FixtureRequest) -> Post:
    """Envelopes for the channel under test."""
    post = Post(await Scene.open(database))
    if "twilio" in request.node.name:
        post.recipient = NUMBER
    post.endpoint = providers.endpoint.url
    return post


@pytest.fixture
async def channel(request: pytest.FixtureRequest, providers: Providers) -> AsyncIterator[Channel]:
    """The channel under test."""
    channel = providers.open(*request.param)
    yield channel
    await channel.close()


@pytest.fixture
async def plain(providers: Providers, provider: str) -> AsyncIterator[Channel]:
    """The provider's channel without faults."""
    channel = providers.open(provider)
    await channel.prepare(1)
    yield channel
    await channel.close()


@asynccontextmanager
async def misbehaving(providers: Providers, provider: str, **faults: float) -> AsyncIterator[Channel]:
    """A channel with these faults."""
    channel = providers.open(provider, Faults(**faults))  # type: ignore[arg-type]  # the seed is the only whole number
    await channel.prepare(1)
    yield channel
    await channel.close()


every_one = pytest.mark.parametrize(
    "channel",
    [
        pytest.param((provider, faults), id=f"{provider}-{name}")
        for provider in sorted(PROVIDERS)
        for name, faults in FAULTY.items()
    ],
    indirect=True,
)


@every_one
async def test_each_envelope_gets_exactly_one_verdict(channel: Channel, post: Post) -> None:
    envelopes, verdicts = await post.envelopes(50), Verdicts()
    await channel.prepare(50)
    await channel.deliver(envelopes, verdicts)
    verdicts.once_each(envelopes)


@every_one
async def test_after_the_licence_nothing_leaves(channel: Channel, post: Post, providers: Providers) -> None:
    envelopes, verdicts = await post.envelopes(20), Verdicts()
    await channel.prepare(20)
    post.now = 10.0
    await channel.deliver(envelopes, verdicts)
    assert {type(verdict) for verdict in verdicts.once_each(envelopes).values()} == {NotCalled}
    assert await providers.arrived() == []


@every_one
async def test_a_licence_that_ends_in_the_middle_of_a_batch_divides_it(
    channel: Channel, post: Post, providers: Providers
) -> None:
    asked = 0

    def clock() -> float:
        nonlocal asked
        asked += 1
        return 0.0 if asked <= 6 else 10.0

    envelopes, verdicts = await post.envelopes(20, clock), Verdicts()
    await channel.prepare(20)
    await channel.deliver(envelopes, verdicts)
    called = [one for one, verdict in verdicts.once_each(envelopes).items() if not isinstance(verdict, NotCalled)]
    assert len(called) < 20
    assert {one for one, _ in await providers.arrived()} <= set(called)


@each_provider
async def test_a_well_behaved_server_accepts(plain: Channel, post: Post) -> None:
    envelopes, verdicts = await post.envelopes(5), Verdicts()
    await plain.deliver(envelopes, verdicts)
    found = verdicts.once_each(envelopes).values()
    ids = [verdict.provider_message_id for verdict in found if isinstance(verdict, Accepted)]
    assert len(set(ids)) == 5


@each_provider
async def test_an_empty_batch_is_accepted(plain: Channel) -> None:
    verdicts = Verdicts()
    await plain.deliver([], verdicts)
    assert verdicts.reported == []


@each_provider
@pytest.mark.parametrize("fault", VERDICT)
async def test_a_fault_that_is_certain_happens(provider: str, fault: str, post: Post, providers: Providers) -> None:
    envelopes, verdicts = await post.envelopes(5), Verdicts()
    async with misbehaving(providers, provider, **{fault: 1.0}) as channel:
        await channel.deliver(envelopes, verdicts)
    assert {type(verdict) for verdict in verdicts.once_each(envelopes).values()} == {VERDICT[fault]}
    # An unknown one has arrived, which is what makes sending it again a duplicate.
    arrived = 5 if fault == "unknown" and provider != "blackhole" else 0
    assert len(await providers.arrived()) == arrived


@each_provider
async def test_cancellation_goes_through_at_once(provider: str, post: Post, providers: Providers) -> None:
    envelopes, verdicts = await post.envelopes(5), Verdicts()
    async with misbehaving(providers, provider, hang=1.0) as channel:
        calling = asyncio.create_task(channel.deliver(envelopes, verdicts))
        done, _ = await asyncio.wait([calling], timeout=0.05)
        assert not done
        calling.cancel()
        done, _ = await asyncio.wait([calling], timeout=5)
    assert calling in done
    assert calling.cancelled()
    assert verdicts.reported == []


@each_provider
async def test_a_slow_message_makes_no_other_slow(provider: str, post: Post, providers: Providers) -> None:
    envelopes, verdicts = await post.envelopes(60), Verdicts()
    async with misbehaving(providers, provider, seed=1, hang=0.5) as channel:
        calling = asyncio.create_task(channel.deliver(envelopes, verdicts))
        try:
            await until(lambda: len(verdicts.reported) >= 10, "the others have their verdicts")
        finally:
            calling.cancel()


@each_provider
@each_behaviour
async def test_the_same_deliveries_meet_the_same_faults_in_any_order(
    provider: str, faults: Faults, post: Post, providers: Providers
) -> None:
    envelopes = await post.envelopes(40)
    found: list[dict[int, type]] = []
    for order in (envelopes, envelopes[::-1]):
        verdicts = Verdicts()
        async with misbehaving(providers, provider, **structs.asdict(faults)) as channel:
            await channel.deliver(order, verdicts)
        found.append({one: type(verdict) for one, verdict in verdicts.once_each(envelopes).items()})
    assert found[0] == found[1]


@each_provider
async def test_another_seed_meets_other_faults(provider: str, post: Post, providers: Providers) -> None:
    envelopes = await post.envelopes(60)
    found = []
    for seed in (1, 2):
        verdicts = Verdicts()
        async with misbehaving(providers, provider, seed=seed, refuse=0.5) as channel:
            await channel.deliver(envelopes, verdicts)
        found.append({one: type(verdict) for one, verdict in verdicts.reported})
    assert found[0] != found[1]
    assert all(10 < sum(kind is Refused for kind in one.values()) < 50 for one in found)


@each_provider
async def test_the_same_message_has_the_same_bytes_each_time(provider: str, post: Post, providers: Providers) -> None:
    envelopes = await post.envelopes(3, priority="high", n=[1, 2, {"a": None}])
    for _ in range(2):
        async with misbehaving(providers, provider) as channel:
            await channel.deliver(envelopes, Verdicts())
    arrived = sorted(await providers.arrived())
    assert arrived[0::2] == arrived[1::2]
    assert len(arrived) == (0 if provider == "blackhole" else 6)
    assert all(post.recipient in text and CONTENT in text for _, text in arrived)


@every_one
async def test_no_content_in_logs_and_verdicts(
    channel: Channel, post: Post, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    caplog.set_level(logging.DEBUG)
    envelopes, verdicts = await post.envelopes(20, secret=CONTENT), Verdicts()
    await channel.prepare(20)
    await channel.deliver(envelopes, verdicts)
    told = repr(verdicts.reported) + caplog.text + "".join(capfd.readouterr())
    assert CONTENT not in told
    assert post.recipient not in told


@each_provider
async def test_nothing_is_held_in_the_database_while_a_call_hangs(
    provider: str, post: Post, providers: Providers, shared_url: str
) -> None:
    envelopes = await post.envelopes(5)
    channel = providers.open(provider, Faults(hang=1.0))
    calling = asyncio.create_task(channel.deliver(envelopes, Verdicts()))
    await asyncio.wait([calling], timeout=0.05)
    open_transactions = """SELECT count(*) FROM pg_stat_activity
                            WHERE datname = current_database() AND xact_start IS NOT NULL AND pid <> pg_backend_pid()
                              AND backend_type = 'client backend'"""
    connection = await asyncpg.connect(shared_url)
    assert await connection.fetchval(open_transactions) == 0
    await connection.close()
    calling.cancel()
    await channel.close()
