"""A troubled database: the program's own pool, whose statements a test can watch, hold up and spoil."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeVar

from msgspec import Struct, field

from dispatcher.config.settings import Database as Settings
from dispatcher.db.database import Database
from dispatcher.db.statements import statements

# The statements that a test can name, by the name of their file.
FILES = {
    "claims": "dispatcher.engine.store.claims",
    "marks": "dispatcher.engine.store.marks",
    "flushes": "dispatcher.engine.store.flushes",
    "instances": "dispatcher.engine.store.instances",
    "pauses": "dispatcher.engine.store.pauses",
    "held": "dispatcher.engine.store.held",
    "suppression": "dispatcher.engine.store.suppression",
    "templates": "dispatcher.features.templates.store",
    "objects": "dispatcher.features.objects.store",
}
NAMES = {text: f"{file}.{name}" for file, module in FILES.items() for name, text in statements(module).items()}


T = TypeVar("T")


class Trouble(Struct):
    """The fault of the next `times` statements of a name: held up at `gate`, executed or not, answered or not."""

    name: str
    times: int
    executes: bool
    answers: bool
    gate: asyncio.Event = field(default_factory=asyncio.Event)
    met: asyncio.Event = field(default_factory=asyncio.Event)


class Troubled(Database):
    """Statements go by `noun.name`, as they stand in the store's SQL; others are let through unseen."""

    def __init__(self, url: str) -> None:
        super().__init__(Settings(), url)
        self.asked: list[tuple[str, tuple[object, ...]]] = []
        self.away = False
        # What goes with it.
        self.belongings: list[Callable[[], None]] = []
        # Clear it, and whoever needs a connection before he decides waits for one.
        self.lending = asyncio.Event()
        self.lending.set()
        self.borrowers = 0
        self._troubles: list[Trouble] = []

    def lose_answers(self, name: str, times: int = 1) -> Trouble:
        """They are executed, and raise."""
        return self._trouble(name, times, executes=True, answers=False)

    def lose_requests(self, name: str, times: int = 1) -> Trouble:
        """They raise, and were not executed."""
        return self._trouble(name, times, executes=False, answers=False)

    def hold_answers(self, name: str, times: int = 1) -> Trouble:
        """They are executed, and answered when the gate is opened."""
        trouble = self._trouble(name, times, executes=True, answers=True)
        trouble.gate.clear()
        return trouble

    def _trouble(self, name: str, times: int, executes: bool, answers: bool) -> Trouble:
        assert name in NAMES.values(), name
        trouble = Trouble(name, times, executes, answers)
        trouble.gate.set()
        self._troubles.append(trouble)
        return trouble

    def count(self, name: str) -> int:
        """How often a statement was asked for."""
        return sum(asked == name for asked, _ in self.asked)

    def arguments(self, name: str) -> list[tuple[object, ...]]:
        """The arguments of each statement of a name."""
        return [arguments for asked, arguments in self.asked if asked == name]

    async def fetch(self, query: str, *arguments: object) -> Sequence[Any]:
        return await self._asked(super().fetch, query, arguments, [])

    async def write(self, query: str, *arguments: object) -> int:
        return await self._asked(super().write, query, arguments, 0)

    async def _asked(self, run: Callable[..., Awaitable[T]], query: str, arguments: Sequence[object], nothing: T) -> T:
        name = NAMES.get(query, "")
        if name:
            self.asked.append((name, tuple(arguments)))
            if self.away:
                raise ConnectionRefusedError("away on purpose")
        trouble = next((one for one in self._troubles if one.name == name and one.times > 0), None)
        if trouble is None:
            return await run(query, *arguments)
        trouble.times -= 1
        answer = await run(query, *arguments) if trouble.executes else nothing
        trouble.met.set()
        await trouble.gate.wait()
        if not trouble.answers:
            raise ConnectionResetError("lost on purpose")
        return answer

    async def fetch_while(self, holds: Callable[[], bool], query: str, *arguments: object) -> Sequence[Any] | None:
        self.borrowers += 1
        await self.lending.wait()
        self.borrowers -= 1
        return await self.fetch(query, *arguments) if holds() else None
