"""The agreement: of the instances that may claim from a channel all have the same provider for it."""

import asyncio
import random
from itertools import count

import pytest

from dispatcher.db.database import Database
from dispatcher.db.health import checks
from dispatcher.engine.store import instances
from tests.support.scene import Connection, Scene
from tests.support.waits import until_blocked

INVARIANT = "channels_have_one_provider"
_epochs = count(1)


class Replica:
    """An instance with one channel."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self.epoch = next(_epochs)

    async def join(self) -> "Replica":
        beat = instances.Beat(self.epoch, 0, 10.0, f"replica {self.epoch}", "")
        await instances.join(self.database, beat, "0", ["sms"])
        return self

    async def claims(self, provider: str) -> bool:
        """Ask for the channel with this provider, and answer whether it may claim."""
        return not await instances.agree(self.database, self.epoch, [provider])

    async def leave(self) -> None:
        assert await instances.fence(self.database, self.epoch, 1_000)


async def replica(database: Database) -> Replica:
    return await Replica(database).join()


async def test_an_instance_with_another_provider_yields_until_the_first_has_gone(database: Database) -> None:
    first, second, third = [await replica(database) for _ in range(3)]
    assert await first.claims("real")
    (told,) = await instances.agree(database, second.epoch, ["other"])
    assert (told.channel, told.instance, told.fingerprint) == ("sms", f"replica {first.epoch}", "real")
    # Who agrees with those that claim is not kept from it by somebody older that waits.
    assert await third.claims("real")
    await first.leave()
    assert not await second.claims("other")
    await third.leave()
    assert await second.claims("other")


async def test_an_instance_with_a_changed_provider_yields_until_all_have_changed(database: Database) -> None:
    replicas = [await replica(database) for _ in range(3)]
    assert [await one.claims("old") for one in replicas] == [True] * 3
    assert [await one.claims("new") for one in replicas] == [False, False, True]
    assert [await one.claims("new") for one in replicas] == [True] * 3


async def test_a_claiming_instance_continues_whichever_waits(database: Database) -> None:
    first, second = await replica(database), await replica(database)
    assert await first.claims("old")
    assert await second.claims("old")
    assert not await first.claims("new")
    assert await second.claims("old")


async def test_of_several_that_wait_the_one_that_joined_first_gets_it(database: Database) -> None:
    first, second, third = [await replica(database) for _ in range(3)]
    assert await first.claims("a")
    assert not await second.claims("b")
    assert not await third.claims("c")
    await first.leave()
    assert not await third.claims("c")
    assert await second.claims("b")


async def test_of_two_that_ask_at_once_one_yields(database: Database, rival: Connection) -> None:
    first, second = await replica(database), await replica(database)
    async with rival.transaction():
        assert not await rival.fetch("SELECT * FROM dispatcher.agree($1, '{real}')", second.epoch)
        asking = asyncio.create_task(first.claims("other"))
        await until_blocked(rival)
    assert not await asking


async def test_nothing_is_claimed_from_a_channel_that_was_yielded_or_not_asked_for(database: Database) -> None:
    scene = Scene(database)
    await scene.write(3)
    me = Replica(database)
    me.epoch = scene.epoch
    await me.join()
    assert not await scene.claim()
    first = await replica(database)
    assert await first.claims("real")
    assert not await me.claims("other")
    assert not await scene.claim()
    await first.leave()
    assert await me.claims("other")
    assert len(await scene.claim()) == 3


@pytest.mark.parametrize("seed", range(3))
async def test_whatever_they_do_and_in_whatever_order_those_that_claim_agree(database: Database, seed: int) -> None:
    dice = random.Random(seed)  # noqa: S311 - a test's order is no secret
    there: dict[Replica, str] = {}
    for _ in range(120):
        step = dice.choice(["join", "leave", "ask", "ask", "change"])
        if step == "join" and len(there) < 5:
            there[await replica(database)] = dice.choice("ab")
        elif there:
            one = dice.choice(list(there))
            if step == "leave":
                await one.leave()
                del there[one]
                continue
            if step == "change":
                there[one] = dice.choice("abc")
            await one.claims(there[one])
        assert await checks.check(database, INVARIANT) is None
    there[await replica(database)] = "a"
    # Those that change here may leave it to those that asked before them.
    for one, provider in there.items():
        await one.claims(provider)
    claims = {provider for one, provider in there.items() if await one.claims(provider)}
    assert len(claims) == 1, "and the channel does not stand still"
