"""Joint looks: workers that have nothing to do ask in one statement whether there is work.

An idle process is as expensive as the statements that it makes. Workers that poll at the same interval do so at the
same moment, and what they ask then goes to Postgres as the columns of one row.
"""

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from msgspec import Struct, field

# The first to ask waits this long for the others.
GATHER_SECONDS = 0.005

# Where between the seconds this process polls: those of one machine have one monotonic clock.
PHASE = random.random()  # noqa: S311 - spreads the polls of replicas

Fetch = Callable[[str], Awaitable[Sequence[Any]]]


def until_poll(seconds: float) -> float:
    """Return the seconds until everything in this process polls that does so at this interval."""
    return seconds - (time.monotonic() + PHASE) % seconds


class _Look(Struct):
    """One statement to be: its questions, and the future of the answers (None: there will be none)."""

    answers: "asyncio.Future[Mapping[str, Any] | None]"
    questions: dict[str, None] = field(default_factory=dict)


class JointLooks:
    """Asks what is asked at about the same time at once. A question is a SELECT of one value, without arguments."""

    def __init__(self, fetch: Fetch) -> None:
        self._fetch = fetch
        self._gathering: _Look | None = None

    async def value(self, question: str) -> Any:  # noqa: ANN401 - whatever the column holds
        """Return the answer to a question."""
        while (look := self._gathering) is not None:
            look.questions[question] = None
            # Shielded: who stops waiting must not take the answers from the others.
            answers = await asyncio.shield(look.answers)
            if answers is not None:
                return answers[question]
        return (await self._lead(question))[question]

    async def _lead(self, question: str) -> Mapping[str, Any]:
        look = self._gathering = _Look(asyncio.get_running_loop().create_future(), {question: None})
        answers: Mapping[str, Any] | None = None
        try:
            await asyncio.sleep(GATHER_SECONDS)
            self._gathering = None
            # In one order, so that the same questions are the same statement.
            questions = sorted(look.questions)
            row = (await self._fetch(f"SELECT {', '.join(f'({one})' for one in questions)}"))[0]
            answers = dict(zip(questions, row, strict=True))
            return answers
        finally:
            if self._gathering is look:
                self._gathering = None
            look.answers.set_result(answers)
