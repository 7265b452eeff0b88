"""The slow renderer: what would hold the event loop is rendered all the same, in turn, and nothing is forgotten."""

from collections.abc import Callable, Sequence
from typing import Any

import anyio

from dispatcher.base.clock import Clock
from dispatcher.base.errors import CallLost, TemplateError
from dispatcher.engine.rules.life import Back, Failed
from dispatcher.engine.slow_renderer import LOST_MAX, WAITING_MAX, SlowRenderer
from dispatcher.engine.streams import Inbox, Rendered
from dispatcher.liquid.template import Bounds, Sources
from dispatcher.liquid.worker_functions import Rendering
from tests.engine.stage import Stage, claimed

SOURCES = Sources({"body": "x"})
BOUNDS = Bounds(1_000, 1_000, 1_000, 10)
LONG = "{% for i in (1..3000) %}{{ i | plus: 1 }}{% endfor %}"


class Worker:
    """Answers what the test says, when it says so."""

    def __init__(self) -> None:
        self.answer: Rendering | Exception = Rendering({"body": "x"}, None, 0.05)
        self.goes_on = anyio.Event()
        self.goes_on.set()

    async def call(self, *_given: Any) -> Rendering:
        await self.goes_on.wait()
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


class Scene:
    """A slow renderer on its own."""

    def __init__(self) -> None:
        self.sent: list[Rendered] = []
        self.quick: list[str] = []
        self.inbox = Inbox(1_000)
        self.worker = Worker()
        self.slow = SlowRenderer(self._send, self.quick.append, self.inbox, Clock(), lambda: BOUNDS)
        self.slow._offload = self.worker  # type: ignore[assignment]  # it answers at once

    def _send(self, several: Sequence[Rendered]) -> None:
        self.sent += several

    def take(self, *ids: int, **fields: Any) -> None:
        for one in ids:
            self.slow.take(claimed(one, **fields), "{}", {}, SOURCES)

    async def play(self, work: Callable[[], None]) -> None:
        async def renderer() -> None:
            work()
            await anyio.lowlevel.checkpoint()

        await self.slow.run(renderer)

    def outcomes(self) -> dict[int, Any]:
        return {item.id: outcome for item, outcome in self.inbox.waiting}


async def test_few_of_a_tenant_wait_and_the_others_come_back_when_their_turn_may_come() -> None:
    scene = Scene()
    many = range(1, WAITING_MAX + 21)

    def work() -> None:
        scene.take(*many)
        scene.take(1_000, tenant_id="other")

    await scene.play(work)
    assert {one.item.id for one in scene.sent} == {*range(1, WAITING_MAX + 1), 1_000}
    back = scene.outcomes()
    waits = [back[one].delay_seconds for one in many if one in back]
    assert [type(outcome) for outcome in back.values()] == [Back] * 20
    assert waits == sorted(waits)
    assert 0 < waits[0] < waits[-1]


async def test_deliveries_waiting_at_the_drain_go_back() -> None:
    scene = Scene()
    scene.worker.goes_on = anyio.Event()

    def work() -> None:
        scene.take(1, 2)
        scene.slow.stop()
        scene.take(3)

    await scene.play(work)
    assert scene.outcomes() == dict.fromkeys((1, 2, 3), Back(0.0, "draining"))
    assert not scene.sent


async def test_a_fault_fails_its_delivery() -> None:
    scene = Scene()
    scene.worker.answer = Rendering(None, TemplateError("template.body", "work limit reached"), 0.05)
    await scene.play(lambda: scene.take(1))
    assert scene.outcomes() == {1: Failed("template.body: work limit reached")}


async def test_a_render_lost_twice_fails() -> None:
    scene = Scene()
    scene.worker.answer = CallLost("render: TimeoutError")
    for _ in range(LOST_MAX):
        await scene.play(lambda: scene.take(1))
    first, second = (outcome for _, outcome in scene.inbox.waiting)
    assert isinstance(first, Back)
    assert second == Failed("template: cannot be rendered: takes too long")


async def test_a_template_that_was_quick_is_tried_on_the_loop_again() -> None:
    scene = Scene()
    await scene.play(lambda: scene.take(1, template="v:1:de"))
    assert scene.quick == []
    scene.worker.answer = Rendering({"body": "x"}, None, 0.0)
    await scene.play(lambda: scene.take(2, template="v:1:de"))
    assert scene.quick == ["v:1:de"]


async def test_slow_and_fast_templates_are_sent_together(stage: Stage) -> None:
    long = await stage.write(3, body=LONG)
    short = await stage.write(3)
    async with stage.playing():
        await stage.sent_once([*long, *short])
        await stage.until_empty()
    said = {envelope.delivery_id: envelope.parts["body"] for envelope in stage.sms.given}
    assert {said[one] for one in long} == {"".join(str(number + 1) for number in range(1, 3_001))}
