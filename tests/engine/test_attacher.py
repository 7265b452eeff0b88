"""The attacher: deliveries carry the stored objects that they name, within bounds, and nobody else waits for them."""

import asyncio
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec
import pytest

from dispatcher.config.settings import Limits
from dispatcher.engine.attacher import PROVIDER, Attacher, Endpoint, Objects
from dispatcher.engine.rules.life import Back, Failed, Lane, Skipped
from dispatcher.engine.rules.object_cache import OVERHEAD_BYTES, Name, Stored
from dispatcher.engine.streams import Inbox, LaneState, Rendered
from dispatcher.features.objects import store as objects
from dispatcher.features.webhooks.rules import Target
from tests.engine.stage import CONFIG, Stage, claimed
from tests.engine.troubled import Troubled
from tests.support.waits import until

LOGO = b"logo" * 10


def options(*names: str) -> dict[str, Any]:
    """Options that name these objects."""
    return {"attachments": [{"object": name} for name in names]}


def rendered(number: int, *names: str) -> Rendered:
    """A delivery that carries these objects."""
    return Rendered(claimed(number), {"body": "x"}, options(*names))


@dataclass
class Store:
    """Objects that are not in Postgres."""

    held: dict[str, bytes]
    loaded: list[set[str]] = field(default_factory=list)
    gate: asyncio.Event = field(default_factory=asyncio.Event)
    endpoints: dict[Endpoint, Target] = field(default_factory=dict)

    async def sizes(self, names: Collection[Name]) -> Mapping[Name, int]:
        return {name: len(self.held[name[2]]) for name in names if name[2] in self.held}

    async def contents(self, names: Collection[Name]) -> Mapping[Name, Stored]:
        await self.gate.wait()
        self.loaded.append({name[2] for name in names})
        return {name: Stored("a/b", self.held[name[2]]) for name in names if name[2] in self.held}

    async def targets(self, endpoints: Collection[Endpoint]) -> Mapping[Endpoint, Target]:
        await self.gate.wait()
        return {one: self.endpoints[one] for one in endpoints if one in self.endpoints}


class Desk:
    """An attacher with a store, a lane and what came out of it."""

    def __init__(self, held: dict[str, bytes], bytes_max: int = 1_000_000) -> None:
        self.store = Store(held)
        self.store.gate.set()
        self.inbox = Inbox(1_000)
        self.sent: list[Rendered] = []
        self.attacher = Attacher(
            Objects(self.store.sizes, self.store.contents, self.store.targets),
            lambda _state, batch: self.sent.extend(batch),
            self.inbox,
        )
        self.state: LaneState = lane(bytes_max)

    @property
    def outcomes(self) -> dict[int, object]:
        return {item.id: outcome for item, outcome in self.inbox.waiting}


def lane(bytes_max: int) -> LaneState:
    """A lane that nothing limits but its object cache."""
    state = LaneState("email", Lane.NORMAL, 100, lambda: 100.0, None)  # type: ignore[arg-type]  # slots are the sender's
    state.object_cache.bytes_max = bytes_max
    # Nothing goes through its pipe here.
    state.pipe.send.close()
    state.pipe.receive.close()
    return state


async def test_each_has_what_it_names_in_order_and_a_common_object_is_loaded_once() -> None:
    desk = Desk({"logo": LOGO, "one": b"1"})
    await desk.attacher.run_once(desk.state, [rendered(n, "logo", *(["one"] if n == 2 else [])) for n in range(4)])
    assert [one.item.id for one in desk.sent] == [0, 1, 2, 3]
    files = [one.options["attachments"] for one in desk.sent]
    assert files[2] == [
        {"name": "logo", "type": "a/b", "content": LOGO},
        {"name": "one", "type": "a/b", "content": b"1"},
    ]
    assert desk.store.loaded == [{"logo", "one"}]
    assert files[0][0]["content"] is files[3][0]["content"]
    await desk.attacher.run_once(desk.state, [rendered(9, "logo")])
    assert len(desk.store.loaded) == 1


async def test_a_missing_object_fails_its_own_delivery_and_is_named() -> None:
    desk = Desk({"logo": LOGO})
    await desk.attacher.run_once(desk.state, [rendered(1, "logo"), rendered(2, "logo", "gone"), rendered(3, "logo")])
    assert [one.item.id for one in desk.sent] == [1, 3]
    words = "options.attachments[1].object: there is no stored object 'gone'; put it first"
    assert desk.outcomes == {2: Failed(words)}


async def test_an_erased_object_is_not_sent_from_the_cache() -> None:
    desk = Desk({"logo": LOGO})
    await desk.attacher.run_once(desk.state, [rendered(1, "logo")])
    del desk.store.held["logo"]
    await desk.attacher.run_once(desk.state, [rendered(2, "logo")])
    assert [one.item.id for one in desk.sent] == [1]
    assert isinstance(desk.outcomes[2], Failed)


async def test_more_than_fits_waits_until_something_is_through() -> None:
    desk = Desk({"a": b"a" * 100, "b": b"b" * 100, "c": b"c" * 100}, bytes_max=2 * (100 + OVERHEAD_BYTES))
    work = asyncio.create_task(desk.attacher.run_once(desk.state, [rendered(n, "abc"[n]) for n in range(3)]))
    await until(lambda: len(desk.sent) == 2, "two are sent")
    assert not work.done()
    assert desk.state.object_cache.bytes <= desk.state.object_cache.bytes_max
    desk.state.release([(0, desk.sent[0].item.token)])
    await work
    assert [one.item.id for one in desk.sent] == [0, 1, 2]


async def test_an_attachment_over_the_limit_fails_with_the_limit() -> None:
    desk = Desk({"a": b"a" * 100}, bytes_max=100)
    await desk.attacher.run_once(desk.state, [rendered(1, "a")])
    assert desk.outcomes == {1: Failed("options: name stored objects of more than 100 bytes; link to them")}


@pytest.mark.parametrize("waits_for", ["contents", "room"])
async def test_a_drain_waits_for_neither_postgres_nor_room(waits_for: str) -> None:
    desk = Desk({"a": b"a" * 100, "b": b"b" * 100}, bytes_max=100 + OVERHEAD_BYTES)
    if waits_for == "contents":
        desk.store.gate.clear()
    batch = [rendered(1, "a"), rendered(2, "b")]
    work = asyncio.create_task(desk.attacher.run_once(desk.state, batch))
    if waits_for == "room":
        await until(lambda: bool(desk.sent), "the first is sent")
    desk.attacher.draining.set()
    await work
    assert {type(outcome) for outcome in desk.outcomes.values()} == {Back}
    assert len(desk.sent) + len(desk.outcomes) == 2


async def test_a_delivery_is_sent_with_its_object_and_the_others_do_not_wait(troubled: Troubled) -> None:
    stage = Stage(troubled, msgspec.structs.replace(CONFIG, limits=Limits(objects_bytes_max=2_000)))
    await objects.put(troubled, ("default", "default", "big"), b"x" * 900, "a/b")
    await objects.put(troubled, ("default", "default", "other"), b"y" * 900, "a/b")
    with_files = [
        *await stage.write(20, options='{"attachments": [{"object": "big"}]}'),
        *await stage.write(20, options='{"attachments": [{"object": "other"}]}'),
    ]
    without = await stage.write(20)
    (missing,) = await stage.write(1, options='{"inline": [{"object": "none"}]}')
    async with stage.playing():
        await stage.sent_once([*with_files, *without])
        await stage.until_all([missing], "failed")
        await stage.until_empty()
    carried = {one.delivery_id: one.options for one in stage.sms.given}
    assert carried[with_files[0]]["attachments"][0]["content"] == b"x" * 900
    assert carried[without[0]] == {}
    assert "'none'" in (await stage.row(missing))["error"]
    assert not any(state.object_cache.carried for state in stage.pipeline.lanes)


def hook(number: int, endpoint: object) -> Rendered:
    """An event for an endpoint."""
    return Rendered(claimed(number), {"body": "{}"}, {"webhook": endpoint})


async def test_an_event_goes_to_its_endpoints_url_and_to_no_deleted_one() -> None:
    desk = Desk({})
    desk.state.provider = PROVIDER
    desk.store.endpoints = {
        ("default", "default", 1): Target("https://a.example/", enabled=True, secrets=("s2", "s1")),
        ("default", "default", 2): Target("https://b.example/", enabled=False, secrets=("s3",)),
        ("default", "other", 3): Target("https://c.example/", enabled=True, secrets=("s4",)),
    }
    await desk.attacher.run_once(desk.state, [hook(number, number) for number in (1, 2, 3, 4)])
    (sent,) = desk.sent
    assert sent.options["webhook"] == {"id": 1, "url": "https://a.example/", "secrets": ("s2", "s1")}
    gone = Skipped("its endpoint is not there (any more)", conclusive=True)
    assert desk.outcomes == {2: Skipped("its endpoint is disabled", conclusive=True), 3: gone, 4: gone}


@pytest.mark.parametrize("endpoint", ["1", True, 0, 2**63, {"url": "https://evil.example/", "secrets": ["s"]}, None])
async def test_a_delivery_without_a_valid_endpoint_number_is_not_posted(endpoint: object) -> None:
    desk = Desk({})
    desk.state.provider = PROVIDER
    await desk.attacher.run_once(desk.state, [hook(1, endpoint)])
    assert desk.sent == []
    assert desk.outcomes == {1: Failed("options.webhook: is not the number of an endpoint")}


async def test_another_provider_gets_no_secrets() -> None:
    desk = Desk({})
    desk.state.provider = "capture"
    desk.attacher.take(desk.state, [hook(1, 1)])
    assert [one.options for one in desk.sent] == [{"webhook": 1}]


async def test_a_drain_does_not_wait_for_endpoints() -> None:
    desk = Desk({})
    desk.state.provider = PROVIDER
    desk.store.gate.clear()
    work = asyncio.create_task(desk.attacher.run_once(desk.state, [hook(1, 1)]))
    desk.attacher.draining.set()
    await work
    assert {type(outcome) for outcome in desk.outcomes.values()} == {Back}
