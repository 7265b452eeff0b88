"""Boards: the drawn overview of one workspace and role, shared by all pages and streams that show it."""

import asyncio
import time
from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import Struct

from dispatcher.console.overview.figures import Figures, figures
from dispatcher.console.overview.rates import RateMeter
from dispatcher.console.rendering import environment
from dispatcher.console.visit import Ask
from dispatcher.features.overview.endpoints import get_overview
from dispatcher.features.overview.models import Overview
from dispatcher.http.server.authentication import Key

# Figures are at most two seconds old, the dispatchers' own second included.
LOOK_SECONDS = 0.9
# A board that nobody has looked at begins its rates anew.
IDLE_SECONDS = 10.0
BOARDS_MAX = 200
# The parts of the page that are exchanged, by the ids of their elements.
FRAGMENTS = ("needs", "vitals", "chart", "channels", "ended", "replicas", "lacks")


class Drawn(Struct, frozen=True):
    """One look: its number, its figures, each part of the page, and the events for streams, written once for all."""

    number: int
    figures: Figures
    fragments: dict[str, str]
    # With every part, and with those that have changed since the look before.
    whole: bytes
    changed: bytes


class Board:
    """The overview of one workspace and role."""

    def __init__(self, ask: Ask, key: Key) -> None:
        self._ask = ask
        self._key = key
        self._meter = RateMeter()
        self._looking: asyncio.Task[Drawn] | None = None
        self._looked_at = float("-inf")
        self._number = 0
        self._fragments: dict[str, str] = {}

    async def look(self) -> Drawn:
        """Return a look that is at most a second old."""
        now = time.monotonic()
        if self._looking is None or (self._looking.done() and now - self._looked_at >= LOOK_SECONDS):
            if now - self._looked_at >= IDLE_SECONDS:
                self._meter = RateMeter()
            self._looked_at = now
            self._looking = asyncio.create_task(self._draw())
        return await asyncio.shield(self._looking)

    async def _draw(self) -> Drawn:
        found: Overview = await self._ask(get_overview, self._key, {}, [])
        minutes = found.system.throughput if found.system else found.throughput
        made = figures(found, self._meter.look(time.monotonic(), minutes), self._key.role)
        draw = environment().get_template
        parts = {name: draw(f"overview/_{name}.html").render(board=made) for name in FRAGMENTS}
        changed = {name: html for name, html in parts.items() if self._fragments.get(name) != html}
        self._fragments, self._number = parts, self._number + 1
        return Drawn(self._number, made, parts, _live(made, parts), _live(made, changed))


def event(name: str, content: Any) -> bytes:  # noqa: ANN401 - any JSON
    """Return a server-sent event."""
    return b"event: %s\ndata: %s\n\n" % (name.encode(), msgspec.json.encode(content))


def _live(made: Figures, parts: Mapping[str, str]) -> bytes:
    return event("live", {"at": f"{made.at:%H:%M:%S}", "parts": parts})


class Boards:
    """The boards of one process."""

    def __init__(self, ask: Ask) -> None:
        self._ask = ask
        self._boards: dict[tuple[str, str, str], Board] = {}

    def of(self, key: Key) -> Board:
        """Return the board of a key's workspace and role."""
        name = key.tenant_id, key.workspace_id, key.role.value
        board = self._boards.get(name)
        if board is None:
            if len(self._boards) >= BOARDS_MAX:
                self._boards.clear()
            board = self._boards[name] = Board(self._ask, key)
        return board
