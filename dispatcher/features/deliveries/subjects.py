"""The subjects of deliveries for people: the subject or the first line of each, rendered as it is sent."""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

import msgspec

from dispatcher.base.errors import NeedsWorker, TemplateError
from dispatcher.base.loop_yielder import LoopYielder
from dispatcher.config.settings import Limits
from dispatcher.db.database import Database
from dispatcher.features.deliveries import store
from dispatcher.features.deliveries.store import SubjectSource

if TYPE_CHECKING:
    from dispatcher.liquid.template import Renderer

# A line of a list.
CHARACTERS_MAX = 100


async def subjects(database: Database, limits: Limits, ids: Sequence[int]) -> Mapping[int, str]:
    """Return the subjects of deliveries by id, without those that cannot be told.

    A delivery never changes, so what is rendered now is what its provider gets. Left out is what lacks a variable, has
    no text, is large, or takes too long for a list.
    """
    found: dict[int, str] = {}
    breaks = LoopYielder()
    renderer = _renderer(limits)
    for one in await store.subject_sources(database, ids):
        await breaks.take()
        text = _rendered(renderer, one)
        if text:
            found[one.id] = text
    return found


@lru_cache(maxsize=1)
def _renderer(limits: Limits) -> "Renderer":
    # Liquid takes as long to import as the rest, and most commands show no list of deliveries.
    from dispatcher.liquid.render_limits import render_limits  # noqa: PLC0415 - as above
    from dispatcher.liquid.template import Bounds, Renderer  # noqa: PLC0415 - as above

    return Renderer(Bounds.of(limits), render_limits(on_event_loop=True))


def _rendered(renderer: "Renderer", one: SubjectSource) -> str:
    from dispatcher.liquid.template import Sources  # noqa: PLC0415 - as above

    key = msgspec.json.encode((one.part, one.text, one.partials)).decode()
    try:
        if not renderer.has(key):
            partials = {} if one.partials is None else msgspec.json.decode(one.partials, type=dict[str, str])
            renderer.add(key, Sources({one.part: one.text}, partials))
        return first_line(renderer.render(key, one.variables)[one.part])
    except (TemplateError, NeedsWorker):
        return ""


def first_line(text: str) -> str:
    """Return the first line of a text that says something, shortened."""
    line = next((" ".join(line.split()) for line in text.splitlines() if line.strip()), "")
    return line if len(line) <= CHARACTERS_MAX else f"{line[: CHARACTERS_MAX - 1]}…"
