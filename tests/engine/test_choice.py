"""The choice of a provider, as a property of every mix of weights, pauses, breakers, tokens and deliveries."""

from hypothesis import given, settings
from hypothesis import strategies as st

from channels.contract import NotCalled
from channels.shared.breaker import Breaker
from dispatcher.config.settings import Channel, ChannelProvider, Retry
from dispatcher.engine.providers.choice import choose, claimable, next_is_ready, until_usable
from dispatcher.engine.providers.terms import ProviderTerms, Terms
from dispatcher.engine.rules.rates import Rates
from dispatcher.engine.streams import Rendered
from tests.engine.stage import Script, claimed

NOW = 100.0
NAMES = ("one", "two", "three")
# A busy machine is no failure.
unhurried = settings(deadline=None)


@st.composite
def channels(draw: st.DrawFn) -> tuple[Terms, set[str]]:
    """Terms of one to three providers, and those that are paused."""
    names = NAMES[: draw(st.integers(1, 3))]
    weights, rates = st.sampled_from([0.0, 1.0, 5.0]), st.sampled_from([0.0, 2.0, 100.0])
    providers = {
        name: ChannelProvider(provider="capture", weight=draw(weights), rate_per_second=draw(rates)) for name in names
    }
    channel = Channel(providers=providers, overflow=draw(st.booleans()))
    several = tuple(_terms(channel, name, draw(st.sampled_from(["closed", "open", "tried"]))) for name in names)
    terms = Terms(Script(), channel, Retry(), Rates(NOW, 0.0, 0.0, 0.0, 0.0), 5.0, several=several)
    return terms, draw(st.sets(st.sampled_from(names)))


def _terms(channel: Channel, name: str, breaker: str) -> ProviderTerms:
    found = Breaker(1, 10.0)
    if breaker != "closed":
        found.failed(NOW - (20.0 if breaker == "tried" else 1.0), "no", final=True)
    rate = Rates(NOW, channel.providers[name].rate_per_second, 0.0, 0.0, 0.0)
    return ProviderTerms(Script(), channel, Retry(), rate, 5.0, name=name, breaker=found)


def _deliveries(marks: list[tuple[str | None, str | None]]) -> list[Rendered]:
    called = {None: None} | {name: f"{name} (capture)" for name in (*NAMES, "gone")}
    return [
        Rendered(claimed(number, bound_to=called[bound], passed_by=called[passed]), {}, {})
        for number, (bound, passed) in enumerate(marks, 1)
    ]


MARKS = st.lists(
    st.tuples(st.sampled_from([None, None, *NAMES, "gone"]), st.sampled_from([None, None, *NAMES, "gone"])), max_size=20
)


@unhurried
@given(channels(), MARKS)
def test_each_goes_to_one_provider_that_may_have_it_or_waits(
    channel: tuple[Terms, set[str]], marks: list[tuple[str | None, str | None]]
) -> None:
    (terms, paused), batch = channel, _deliveries(marks)
    shut = {one.name for one in terms.several if one.name in paused or one.breaker.wait(NOW) > 0}
    tried = {one.name for one in terms.several if not one.breaker.is_closed}
    choice = choose(terms, batch, NOW, 1.0, lambda one: one.name in paused)
    given_away = [one.item.id for _, some in choice.groups for one in some]
    assert sorted([*given_away, *(one.item.id for one, _ in choice.late)]) == [one.item.id for one in batch]
    known = {one.provider for one in terms.several}
    for provider, some in choice.groups:
        assert provider.name not in shut
        assert len(some) == 1 or provider.name not in tried
        for one in some:
            bound = one.item.bound_to
            assert bound in (None, provider.provider) or bound not in known
    assert all(wait > 0 for _, wait in choice.late)


@unhurried
@given(channels(), MARKS)
def test_tokens_that_nobody_needed_are_given_back(
    channel: tuple[Terms, set[str]], marks: list[tuple[str | None, str | None]]
) -> None:
    (terms, paused), batch = channel, _deliveries(marks)
    before = {one.name: one.rates.provider.level for one in terms.several}
    choice = choose(terms, batch, NOW, 1.0, lambda one: one.name in paused)
    used = {provider.name: len(some) for provider, some in choice.groups}
    for one in terms.several:
        if one.rates.provider.rate:
            assert one.rates.provider.level == before[one.name] - used.get(one.name, 0)


@unhurried
@given(channels())
def test_there_is_something_to_claim_where_a_provider_may_be_called(channel: tuple[Terms, set[str]]) -> None:
    terms, paused = channel
    able = [one for one in terms.several if one.name not in paused and one.breaker.wait(NOW) <= 0]
    found = claimable(terms, NOW, 1.0, lambda one: one.name in paused)
    assert (found > 0) is bool(able)
    assert until_usable(terms, NOW) >= 0


@unhurried
@given(channels(), st.sampled_from(NAMES), st.integers(1, 1_000))
def test_what_is_passed_on_comes_to_an_end(channel: tuple[Terms, set[str]], first: str, number: int) -> None:
    """Each provider is asked once at most, whatever each of them says."""
    terms, paused = channel
    asked: list[str] = []
    known = {one.name: one for one in terms.several}
    last = known.get(first, _terms(Channel(providers={first: ChannelProvider(provider="capture")}), first, "closed"))
    while next_is_ready(terms, claimed(number), last, NotCalled("late"), lambda one: one.name in paused):
        item = claimed(number, passed_by=last.provider)
        choice = choose(terms, [Rendered(item, {}, {})], NOW, 1.0, lambda one: one.name in paused)
        ((provider, _),) = choice.groups
        last = provider
        assert last.name not in asked
        asked.append(last.name)
