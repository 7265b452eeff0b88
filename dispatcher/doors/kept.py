"""What is kept: what a workspace has for its messages and runs to use, whichever door it is asked through."""

from collections.abc import Mapping, Sequence
from typing import Protocol

from msgspec import Struct

from dispatcher.domain.drafts import Draft, Flaw, Version
from dispatcher.doors.nouns import Row, Whose
from dispatcher.store.pauses import Scope
from dispatcher.store.templates import Found, Published, Workspace


class Tried(Struct, frozen=True, kw_only=True):
    """A sound draft: the version that it would be, and the newest and the published one that are there."""

    version: Version
    differs: bool
    number: int | None
    published: int | None


class Written(Struct, frozen=True):
    """The version that says what a draft says, and whether it is another one than before."""

    number: int
    created: bool


class Shown(Struct, frozen=True, kw_only=True):
    """One language of a template, rendered; variables are JSON."""

    version: int | None
    locale: str
    variables: str
    made_up: bool
    parts: Mapping[str, str]


Sound = tuple[Draft, Tried]


class Templates(Protocol):
    """What messages say, as versions."""

    async def listed(self, whose: Whose, after: str, count: int) -> list[Row]:
        """Those after a name, by name."""

    async def names(self, whose: Whose) -> list[str]:
        """The names of all."""

    async def show(self, whose: Whose, name: str, number: int | None) -> Found | None:
        """A version, the newest without a number."""

    async def versions(self, whose: Whose, name: str, count: int) -> list[Row]:
        """The newest ones."""

    async def compare(self, whose: Whose, drafts: Sequence[Draft], *, together: bool) -> list[Tried | list[Flaw]]:
        """What would become of each, or all that is wrong with it. Raises TemplateRefused for what is wrong with all.

        Beside some that have flaws a sound one may have an empty list of them.
        """

    async def put(self, whose: Whose, drafts: Sequence[Sound], actor: str, *, publish: bool) -> list[Written]:
        """Save all of them, or none; raises TemplateRefused."""

    async def publish(self, whose: Whose, name: str, number: int | None, actor: str) -> Published | None:
        """Publish a version, the newest without a number; None where there is none."""

    async def preview(self, whose: Whose, which: Sound | Found, locale: str | None, variables: str | None) -> Shown:
        """Render one in the language that comes nearest, with made-up variables without any. Raises TemplateError."""


class Pauses(Protocol):
    """What is stopped, in a workspace or everywhere, which is None."""

    async def place(self, whose: Whose) -> Workspace:
        """Which workspace is meant, with what is not named."""

    async def listed(self, where: Workspace | None) -> list[Row]:
        """What is stopped, the oldest first; through a server what stops anything in a workspace."""

    async def pause(self, scope: Scope, name: str, where: Workspace | None, actor: str, reason: str) -> Row | None:
        """Stop it; the pause that is open now, None where somebody has resumed it since."""

    async def resume(self, scope: Scope, name: str, where: Workspace | None, actor: str) -> bool:
        """Let it go on; False where it was not paused."""
