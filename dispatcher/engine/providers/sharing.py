"""Sharing out: each delivery of a channel with several providers goes to one of them, and one mark serves all.

A provider that hangs delays no other: those that have a connection are marked together, the others when they have.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import Protocol

import anyio
from anyio.abc import TaskGroup
from msgspec import Struct, field

from dispatcher.engine.providers.choice import choose
from dispatcher.engine.providers.groups import Group
from dispatcher.engine.providers.terms import ProviderTerms, Terms
from dispatcher.engine.rules.life import Back, Outcome
from dispatcher.engine.streams import LaneState, Rendered

STOPPED = "draining, paused or reloaded"


class Turn:
    """A lane's turn to mark. It ends once."""

    def __init__(self, end: Callable[[], None]) -> None:
        self._end: Callable[[], None] | None = end

    def end(self) -> None:
        """Let the lane mark again."""
        end, self._end = self._end, None
        if end is not None:
            end()


class Sender(Protocol):
    """The sender of the channel."""

    def now_and_share(self) -> tuple[float, float]:
        """Return the time, and our share of the limits."""

    def is_paused(self, provider: ProviderTerms) -> bool:
        """Return whether one of several providers is paused."""

    def goes_on(self, terms: Terms) -> bool:
        """Return whether deliveries may be marked on these terms."""

    def not_parked(self, state: LaneState, chosen: Sequence[Rendered]) -> Sequence[Rendered]:
        """Return those that no pause stops; park the others."""

    def uncalled(
        self, state: LaneState, batch: Sequence[Rendered], outcome: Outcome, terms: Terms | None = None
    ) -> None:
        """Settle deliveries that have tokens, and give those back."""

    async def unready(self, batch: Sequence[Rendered], terms: Terms) -> Back | None:
        """Return None where a connection is ready."""

    async def mark(self, state: LaneState, groups: Sequence[Group], calls: TaskGroup) -> None:
        """Mark the deliveries of groups, and begin their calls."""


class Shared(Struct, frozen=True):
    """What the deliveries of one turn share. The turn ends with its first mark."""

    state: LaneState
    terms: Terms
    calls: TaskGroup
    turn: Turn
    # The groups that have their connection, and are not marked yet.
    ready: list[Group] = field(default_factory=list)


async def share_out(sender: Sender, shared: Shared, batch: Sequence[Rendered]) -> None:
    """Choose the providers of deliveries, and mark them."""
    chosen = choose(shared.terms, batch, *sender.now_and_share(), sender.is_paused)
    for one, wait in chosen.late:
        sender.uncalled(shared.state, [one], Back(wait, "its provider is busy, paused or broken"))
    async with anyio.create_task_group() as begun:
        for provider, some in chosen.groups:
            provider.calls += 1
            begun.start_soon(_begin, sender, shared, some, provider)
        await asyncio.sleep(0)
        if not shared.ready:
            # All of them have to connect first: no later mark waits for that.
            shared.turn.end()


async def _begin(sender: Sender, shared: Shared, batch: Sequence[Rendered], provider: ProviderTerms) -> None:
    """Mark deliveries for one provider, or, where it is not ready, share them out to the others."""
    try:
        if (back := await sender.unready(batch, provider)) is None:
            shared.ready.append(Group(provider, batch))
            # A mark for each provider would cost a third more.
            await asyncio.sleep(0)
            if shared.ready:
                await _mark_ready(sender, shared)
            return
    finally:
        provider.calls -= 1
    if back.delay_seconds == 0.0:
        sender.uncalled(shared.state, batch, back, provider)
        return
    provider.rates.give_back(len(batch))
    now, _ = sender.now_and_share()
    provider.unready(now, back.why)
    await share_out(sender, shared, batch)


async def _mark_ready(sender: Sender, shared: Shared) -> None:
    """Mark the deliveries of all providers that are ready by now; the first of them to ask does it for all."""
    groups = [Group(group.terms, _still(sender, shared.state, group)) for group in shared.ready]
    shared.ready.clear()
    for group in groups:
        group.terms.calls += 1
    try:
        await sender.mark(shared.state, groups, shared.calls)
    finally:
        # What is not ready by now keeps no later mark waiting.
        shared.turn.end()
        for group in groups:
            group.terms.calls -= 1


def _still(sender: Sender, state: LaneState, group: Group) -> Sequence[Rendered]:
    """Return the deliveries of a group that may go; none where its provider was paused or exchanged."""
    if sender.goes_on(group.terms):
        return sender.not_parked(state, group.batch)
    sender.uncalled(state, group.batch, Back(0.0, STOPPED), group.terms)
    return ()
