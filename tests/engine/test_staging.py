"""Staging on a whole pipeline: the chosen get theirs, all others nothing, also where staging begins while they wait."""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager

import pytest
from msgspec.structs import replace

from dispatcher.config.settings import Config, Staging
from tests.engine.stage import CONFIG, Stage
from tests.engine.troubled import Troubled
from tests.support.waits import until

Reached = Callable[[], object]
Point = Callable[[Stage], AbstractAsyncContextManager[Reached]]
CHOSEN, ANN, SINK = "+4915550000001", "+4917012345", "+4915550000009"


def _staging(allow: str = CHOSEN, redirect: str = "") -> Config:
    return replace(CONFIG, staging=Staging(enabled=True, allow=allow, redirect=redirect))


@pytest.fixture
async def stage(troubled: Troubled) -> Stage:
    """A pipeline in staging."""
    return Stage(troubled, _staging())


async def test_only_the_chosen_get_a_message(stage: Stage) -> None:
    async with stage.playing():
        chosen = await stage.write(3, recipient=CHOSEN)
        others = await stage.write(5, recipient=ANN)
        await stage.until_all(chosen, "sent")
        await stage.until_all(others, "skipped")
        await stage.until_empty()
    assert sorted(stage.sms.ids()) == chosen
    row = await stage.row(others[0])
    assert (row["error"], row["attempt"]) == ("staging: its recipient is not on the allow-list", 0)
    await stage.sound()


async def test_the_others_are_redirected_under_a_key_of_their_own(troubled: Troubled) -> None:
    stage = Stage(troubled, _staging(redirect=f"sms={SINK}"))
    async with stage.playing():
        (chosen,) = await stage.write(recipient=CHOSEN)
        (other,) = await stage.write(recipient=ANN)
        await stage.until_all([chosen, other], "sent")
    given = {envelope.delivery_id: envelope for envelope in stage.sms.given}
    assert (given[chosen].recipient, given[chosen].parts["body"]) == (CHOSEN, "hello")
    assert given[other].recipient == SINK
    assert given[other].parts["body"] == f"[staging, for {ANN}] hello"
    assert given[other].idempotency_key.startswith(f"staging:{SINK}:")
    assert not given[chosen].idempotency_key.startswith("staging:")


@asynccontextmanager
async def _connecting(stage: Stage) -> AsyncIterator[Reached]:
    """The channel connects, and does not get on."""
    stage.sms.ready.clear()
    try:
        yield lambda: stage.sms.preparing
    finally:
        stage.sms.ready.set()


@asynccontextmanager
async def _marking(stage: Stage) -> AsyncIterator[Reached]:
    """The mark waits for a connection to Postgres."""
    stage.database.lending.clear()
    try:
        yield lambda: stage.database.borrowers == 1
    finally:
        stage.database.lending.set()


@pytest.mark.parametrize("point", [_connecting, _marking])
async def test_staging_that_begins_while_a_message_waits_holds_for_it(troubled: Troubled, point: Point) -> None:
    stage = Stage(troubled)
    async with stage.playing():
        async with point(stage) as reached:
            ids = await stage.write(4, recipient=ANN)
            await until(reached, "they wait")
            stage.pipeline.adopt(_staging(), stage.terms)
            # It has other terms than before, and nobody to agree with.
            await until(lambda: "sms" not in stage.pipeline.epoch.blocked, "the channel may be claimed from")
        await stage.until_all(ids, "skipped")
        assert stage.sms.given == []
        await stage.until_empty()
    await stage.sound()


async def test_a_message_that_is_with_its_provider_when_staging_begins_is_finished(troubled: Troubled) -> None:
    stage = Stage(troubled)
    stage.sms.holds = lambda _: True
    async with stage.playing():
        ids = await stage.write(2, recipient=ANN)
        await until(lambda: stage.sms.given, "it is with its provider")
        stage.pipeline.adopt(_staging(), stage.terms)
        stage.sms.gate.set()
        await stage.until_all(ids, "sent")
        more = await stage.write(2, recipient=ANN)
        await stage.until_all(more, "skipped")
    assert sorted(stage.sms.ids()) == ids
