"""The attacher: loads what the options of deliveries name: stored objects, and the URL and secrets of webhooks.

Each lane has its own worker and object cache, so that a lane that waits for room or for Postgres delays no other. A
worker lives as long as there is something to load.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from typing import Protocol

from anyio.abc import TaskGroup
from msgspec import Struct, structs

from dispatcher.base.errors import TemplateError
from dispatcher.engine.rules.life import Back, Failed, Skipped
from dispatcher.engine.rules.object_cache import Name, Stored, filled, named, names_objects
from dispatcher.engine.streams import Inbox, LaneState, Rendered, unless

# One statement loads no more than this, unless one delivery alone carries more.
LOAD_BYTES_MAX = 8 * 1024 * 1024
# Deliveries whose objects are looked up together.
LOOK_UP_MAX = 100
OBJECTS = "stored objects"

# The provider whose deliveries are for endpoints, and the option with the endpoint's number, which is replaced by its
# URL and secrets.
PROVIDER = "webhooks"
OPTION = "webhook"
# An endpoint: a tenant, a workspace, and its number there.
Endpoint = tuple[str, str, int]
ID_MAX = 2**63 - 1


class Target(Protocol):
    """An endpoint: the URL of its messages, and the secrets that sign them."""

    @property
    def url(self) -> str: ...
    @property
    def enabled(self) -> bool: ...
    @property
    def secrets(self) -> Sequence[str]: ...


class Objects(Struct, frozen=True):
    """The look-ups of stored objects and endpoints. Each call waits while Postgres is away."""

    sizes: Callable[[Collection[Name]], Awaitable[Mapping[Name, int]]]
    contents: Callable[[Collection[Name]], Awaitable[Mapping[Name, Stored]]]
    targets: Callable[[Collection[Endpoint]], Awaitable[Mapping[Endpoint, Target]]]


class _Load(Struct, frozen=True):
    """A delivery with the objects that it names, by field."""

    one: Rendered
    fields: Mapping[str, Name]

    @property
    def carrier(self) -> tuple[int, int]:
        return self.one.item.id, self.one.item.token

    @property
    def names(self) -> frozenset[Name]:
        return frozenset(self.fields.values())


class Attacher:
    """Loads objects into deliveries. Once `draining` is set, deliveries that lack their objects go back."""

    def __init__(self, objects: Objects, send: Callable[[LaneState, Sequence[Rendered]], None], inbox: Inbox) -> None:
        self._objects = objects
        self._send = send
        self._inbox = inbox
        self._workers: TaskGroup | None = None
        self._waiting: dict[LaneState, deque[Rendered]] = {}
        self.draining = asyncio.Event()

    def begin(self, workers: TaskGroup) -> None:
        """Run the lanes' workers in this group; when it has ended, nothing waits here."""
        self._workers = workers

    def take(self, state: LaneState, batch: Sequence[Rendered]) -> None:
        """Send deliveries that name nothing, and queue the others for the lane's worker."""
        naming = [one for one in batch if state.provider == PROVIDER or (one.options and names_objects(one.options))]
        if naming:
            queued = {id(one) for one in naming}
            batch = [one for one in batch if id(one) not in queued]
            self._queue(state, naming)
        if batch:
            self._send(state, batch)

    def _queue(self, state: LaneState, naming: Sequence[Rendered]) -> None:
        if self._workers is None:
            raise RuntimeError("the attacher has not begun: call `begin` first")
        if state not in self._waiting:
            self._waiting[state] = deque()
            self._workers.start_soon(self._work, state)
        self._waiting[state] += naming

    async def _work(self, state: LaneState) -> None:
        waiting = self._waiting[state]
        while waiting:
            some = [waiting.popleft() for _ in range(min(len(waiting), LOOK_UP_MAX))]
            await self.run_once(state, some)
        del self._waiting[state]

    async def run_once(self, state: LaneState, batch: Sequence[Rendered]) -> None:
        """Load for some deliveries of one lane, in their order; each is sent or has a result."""
        if state.provider == PROVIDER:
            await self._address(state, batch)
            return
        loads = self._read(batch)
        # Cached objects are looked up too: what was erased meanwhile is not sent any more.
        sizes = await unless(self.draining, self._objects.sizes({name for load in loads for name in load.names}))
        if sizes is None:
            self._give_back([load.one for load in loads], OBJECTS)
            return
        group: list[_Load] = []
        group_bytes = 0
        for load in loads:
            if not self._possible(state, load, sizes):
                continue
            if group_bytes >= LOAD_BYTES_MAX or not state.object_cache.carry(load.carrier, load.names, sizes):
                await self._load(state, group)
                group, group_bytes = [], 0
                if load.carrier not in state.object_cache.carried and not await self._carry(state, load, sizes):
                    self._give_back([load.one], OBJECTS)
                    continue
            group.append(load)
            group_bytes += sum(sizes[name] for name in load.names)
        await self._load(state, group)

    async def _address(self, state: LaneState, batch: Sequence[Rendered]) -> None:
        """Send each with its endpoint's URL and secrets: no row of the delivery has them."""
        asked = {id(one): _endpoint(one) for one in batch}
        found = await unless(self.draining, self._objects.targets({key for key in asked.values() if key is not None}))
        if found is None:
            self._give_back(batch, "endpoint")
            return
        ready: list[Rendered] = []
        for one in batch:
            key = asked[id(one)]
            target = None if key is None else found.get(key)
            if key is None:
                self._inbox.put(one.item, Failed(f"options.{OPTION}: is not the number of an endpoint"))
            elif target is None or not target.enabled:
                # Conclusive: whether an earlier attempt has arrived at an endpoint that is gone does not matter.
                why = "its endpoint is not there (any more)" if target is None else "its endpoint is disabled"
                self._inbox.put(one.item, Skipped(why, conclusive=True))
            else:
                where = {"id": key[2], "url": target.url, "secrets": target.secrets}
                ready.append(structs.replace(one, options={**one.options, OPTION: where}))
        if ready:
            self._send(state, ready)

    def _read(self, batch: Sequence[Rendered]) -> list[_Load]:
        loads: list[_Load] = []
        for one in batch:
            try:
                loads.append(_Load(one, named(one.options, one.item.tenant_id, one.item.workspace_id)))
            except TemplateError as fault:
                self._inbox.put(one.item, Failed(str(fault)))
        return loads

    def _possible(self, state: LaneState, load: _Load, sizes: Mapping[Name, int]) -> bool:
        """Return whether every object that it names exists, and all of them fit at all; else fail it."""
        missing = [field for field, name in load.fields.items() if name not in sizes]
        if missing:
            self._fail(load, missing[0])
        elif not state.object_cache.possible(load.names, sizes):
            limit = state.object_cache.bytes_max
            why = f"options: name stored objects of more than {limit} bytes; link to them"
            self._inbox.put(load.one.item, Failed(why))
        else:
            return True
        return False

    async def _carry(self, state: LaneState, load: _Load, sizes: Mapping[Name, int]) -> bool:
        """Wait for room; False where the drain begins first, or a reload has left no room for it."""
        while True:
            state.room_freed.clear()
            if state.object_cache.carry(load.carrier, load.names, sizes):
                return True
            if not state.object_cache.carried or await unless(self.draining, state.room_freed.wait()) is None:
                return False

    async def _load(self, state: LaneState, group: Sequence[_Load]) -> None:
        """Load what is not cached yet, and send."""
        lacking = {name for load in group for name in load.names if state.object_cache.get(name) is None}
        loaded = await unless(self.draining, self._objects.contents(lacking)) if lacking else {}
        if loaded is None:
            self._give_back([load.one for load in group], OBJECTS)
            return
        for name, stored in loaded.items():
            state.object_cache.put(name, stored)
        ready: list[Rendered] = []
        for load in group:
            held = {field: state.object_cache.get(name) for field, name in load.fields.items()}
            missing = [field for field, stored in held.items() if stored is None]
            if missing:
                self._fail(load, missing[0])
                continue
            stored_by_field = {field: one for field, one in held.items() if one is not None}
            ready.append(structs.replace(load.one, options=filled(load.one.options, stored_by_field)))
        if ready:
            self._send(state, ready)

    def _fail(self, load: _Load, field: str) -> None:
        name = load.fields[field][2]
        self._inbox.put(load.one.item, Failed(f"{field}: there is no stored object {name!r}; put it first"))

    def _give_back(self, batch: Sequence[Rendered], lacking: str) -> None:
        for one in batch:
            self._inbox.put(one.item, Back(0.0, f"waited for its {lacking}"))


def _endpoint(one: Rendered) -> Endpoint | None:
    """Return the endpoint that a delivery is for; None where its options do not name one."""
    number = one.options.get(OPTION)
    if isinstance(number, bool) or not isinstance(number, int) or not 0 < number <= ID_MAX:
        return None
    return one.item.tenant_id, one.item.workspace_id, number
