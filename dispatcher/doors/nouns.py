"""Nouns: what can be asked for, whichever door it is asked through. Rows have the same names and types behind both.

Lists that can be longer than one answer say how many at most. What acts on something says in one word what became of
it, `unknown` where there is no such thing. Over HTTP the server says who acts: it knows the key, and no other name.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Protocol

from msgspec import Struct

from dispatcher.domain.addresses import Address
from dispatcher.domain.plans.planned import Planned
from dispatcher.errors import Fault
from dispatcher.store.dead import Filter as LetterFilter
from dispatcher.store.dead import Kind, Letter
from dispatcher.store.dead import Verb as LetterVerb
from dispatcher.store.held import SettleAs
from dispatcher.store.runs import Filter as RunFilter
from dispatcher.store.runs import Progress, Triggered, Verb
from dispatcher.store.settling import Standing
from dispatcher.store.suppressions import Behind, Entry
from dispatcher.store.templates import Workspace
from dispatcher.store.workflows import Saved

Row = dict[str, Any]
Definition = Mapping[str, Any]


class Whose(Struct, frozen=True):
    """The tenant and the workspace that are named; what is not named is `default`, or what the key opens."""

    tenant_id: str | None = None
    workspace_id: str | None = None

    @property
    def workspace(self) -> Workspace:
        """It in a database, where everything can be named."""
        return Workspace(self.tenant_id or "default", self.workspace_id or "default")


# Deliveries


class Sent(Struct, frozen=True):
    """The delivery that holds a line's key; a duplicate is one that was there before."""

    id: int
    idempotency_key: str
    duplicate: bool


class Refusal(Struct, frozen=True):
    """Everything that is wrong with a line."""

    faults: Sequence[Fault]


class DeliveryFilter(Struct, frozen=True, kw_only=True):
    """Which deliveries are meant."""

    life: str | None = None
    channel: str | None = None
    tenant_id: str | None = None


class Deliveries(Protocol):
    """Single messages."""

    async def send(self, lines: Sequence[bytes]) -> list[Sent | Refusal]:
        """Write one for each sound line of JSON, each with its own answer. May be asked twice."""

    async def listed(self, which: DeliveryFilter, before: int, count: int) -> list[Row]:
        """The newest below an id."""

    async def show(self, delivery_id: int) -> Row | None:
        """One with everything that happened to it."""

    async def find(self, whose: Whose, keys: Sequence[str]) -> dict[str, int]:
        """The delivery behind each of these keys that there is."""

    async def mail(self, delivery_id: int) -> bytes | None:
        """The mail that was captured of one last."""

    async def cancel(self, delivery_id: int, actor: str, reason: str) -> str:
        """Cancel one until it is marked."""

    async def move(self, delivery_id: int, run_at: datetime, actor: str, reason: str) -> str:
        """Move one to another time until it is marked."""

    async def retry(self, delivery_id: int, actor: str, reason: str) -> str:
        """Send a failed or skipped one again."""


class HeldFilter(Struct, frozen=True):
    """Which held deliveries are meant."""

    channel: str | None
    tenant_id: str | None


class Settlement(Struct, frozen=True):
    """What somebody says became of deliveries."""

    settle_as: SettleAs
    actor: str
    reason: str
    message_id: str | None = None


class Held(Protocol):
    """Deliveries whose call was begun and whose outcome nobody knows."""

    async def listed(self, which: HeldFilter, count: int) -> list[Row]:
        """The longest held first."""

    async def count(self, which: HeldFilter) -> int | None:
        """How many there are; None where nobody says."""

    async def standing(self, ids: Sequence[int]) -> dict[int, Standing]:
        """Where these stand now, held or not."""

    async def settle(self, ids: Sequence[int], settlement: Settlement) -> dict[int, str]:
        """Settle them: settled, unknown, early, not held, or the status that it has already."""


class DeadLetters(Protocol):
    """Runs and deliveries that have failed for good."""

    async def listed(self, meant: LetterFilter, kind: Kind, below: int, count: int) -> list[Row]:
        """The newest of a kind below an id."""

    async def is_dead(self, letter: Letter) -> bool:
        """Whether it is one."""

    async def act(self, verb: LetterVerb, kind: Kind, ids: Sequence[int], reason: str, actor: str) -> dict[int, str]:
        """Replay or discard those of a kind; the answer about each that there is."""


# Workflows and runs


class Step(Struct, frozen=True):
    """A node: its place in the definition, what it is called, and what it does in a few words."""

    step: int
    node: str
    what: str


class Version(Struct, frozen=True, kw_only=True):
    """A version of a workflow."""

    name: str
    number: int
    latest: int
    active: bool
    total_steps: int
    required_fields: Sequence[str]
    reads: Sequence[str]
    templates: Sequence[Mapping[str, Any]]
    author: str
    created_at: datetime
    definition: Definition
    graph: str
    mermaid: str
    steps: Sequence[Step]
    versions: Sequence[Row]
    actions: Sequence[Row]


class Stored(Struct, frozen=True):
    """What is stored under a name."""

    number: int
    active: bool
    definition: Definition


class Compared(Struct, frozen=True, kw_only=True):
    """What is wrong with a definition; else what is stored under its name, and whether that says and means the same."""

    name: str = ""
    total_steps: int = 0
    stored: Stored | None = None
    same: bool = False
    faults: Sequence[Fault] = ()


class Workflows(Protocol):
    """Definitions, as versions."""

    async def put(
        self, whose: Whose, definitions: Sequence[Definition], actor: str, *, activate: bool
    ) -> dict[str, Saved]:
        """Save all of them, or none; raises WorkflowRefused."""

    async def compare(self, whose: Whose, definitions: Sequence[Definition]) -> list[Compared]:
        """What would become of each."""

    async def listed(self, whose: Whose, after: str, count: int) -> list[Row]:
        """Those after a name, by name."""

    async def names(self, whose: Whose) -> list[str]:
        """The names of all that may be seen."""

    async def show(self, whose: Whose, name: str, number: int | None) -> Version | None:
        """A version, the newest without a number."""

    async def set_active(self, whose: Whose, name: str, active: bool, actor: str) -> str:
        """Let it take triggers, or none any more: done, same or unknown."""

    async def delete(self, whose: Whose, name: str, actor: str) -> str:
        """Delete it: deleted, unknown, active or running."""


class Begin(Struct, frozen=True, kw_only=True):
    """What starts a run."""

    workflow: str
    input: str
    key: str | None
    whose: Whose
    by: str


class Runs(Protocol):
    """Walks through workflows."""

    async def trigger(self, given: Begin) -> Triggered:
        """Start one, or find the one of its key; raises TriggerRefused. May be asked twice."""

    async def plan(self, given: Begin, assumed: Mapping[str, Mapping[str, Any]]) -> Planned:
        """What it would do, and nothing else; raises TriggerRefused as that would, and AssumptionRefused."""

    async def listed(self, which: RunFilter, before: int, count: int) -> list[Row]:
        """The newest below an id."""

    async def show(self, run_id: int, count: int) -> Row | None:
        """One with its steps, its context, its log and so many of its deliveries."""

    async def steps(self, run_id: int) -> Sequence[Step] | None:
        """The nodes of its workflow, in the order of the definition."""

    async def progress(self, run_id: int, first: int) -> Progress | None:
        """Where one stands, and its log from a number on."""

    async def act(self, verb: Verb, run_id: int, reason: str, actor: str) -> str:
        """Do it to one."""

    async def signal(self, run_id: int, event: str, data: str, actor: str) -> str:
        """Send one an event; raises TriggerRefused."""


class Released(Struct, frozen=True):
    """Which entries go: those of one source, or about one channel; None: all."""

    source: str | None
    channel: str | None


class Preference(Struct, frozen=True):
    """A topic, and whether it is wanted."""

    topic: str
    subscribed: bool


class Checked(Struct, frozen=True):
    """Why something would not be sent to an address, if so, and everything that was ever said about it."""

    why: str | None
    entries: Sequence[Row]
    topics: Sequence[Row]
    log: Sequence[Row]


class Meant(Struct, frozen=True):
    """What would be sent, and to whom."""

    address: Address
    channel: str | None
    topic: str | None
    lane: str


class Suppressions(Protocol):
    """Addresses of a tenant that get nothing more, or nothing more about a topic."""

    async def listed(
        self, tenant_id: str | None, behind: Behind, count: int, *, source: str | None, kind: str | None
    ) -> list[Row]:
        """What stands on the list, in the order of addresses."""

    async def add(self, tenant_id: str | None, actor: str, entries: Sequence[Entry]) -> None:
        """Put addresses on the list, all or none."""

    async def faults(self, tenant_id: str | None, entries: Sequence[Entry]) -> list[tuple[int, str]]:
        """What would be refused of these, each with its place among them."""

    async def add_all(self, tenant_id: str | None, actor: str, pages: Iterable[Sequence[Entry]]) -> None:
        """Put many on the list: a database takes all or none, a server page by page. May be asked twice."""

    async def catch_up(self, count: int) -> int:
        """Skip so much of what is queued for those about whom something was just said; how much it was."""

    async def release(
        self, tenant_id: str | None, addresses: Sequence[Address], actor: str, reason: str, which: Released
    ) -> dict[Address, list[str]]:
        """Take addresses off the list; the sources of what went, by address."""

    async def check(self, tenant_id: str | None, meant: Meant) -> Checked:
        """Whether it would be sent."""

    async def preferences(
        self, tenant_id: str | None, behind: Behind, count: int, *, topic: str | None, of: Address | None
    ) -> list[Row]:
        """What addresses said about topics."""

    async def prefer(
        self, tenant_id: str | None, addresses: Sequence[Address], actor: str, reason: str, preference: Preference
    ) -> None:
        """Say whether addresses want a topic."""
