"""Collected errors: equal ones are one kind, counted, until a message has told of them. Memory is bounded."""

from threading import Lock

from msgspec import Struct, structs

# A message with more of them is read by nobody.
KINDS_MAX = 20


class Kind(Struct, frozen=True):
    """What makes two errors equal: what failed, which part of it, by which exception, and where that was raised."""

    event: str
    part: str = ""
    error: str = ""
    place: str = ""


class Seen(Struct, frozen=True):
    """How often a kind was seen, and when, in seconds since 1970."""

    times: int
    first: float
    last: float

    def with_(self, other: "Seen") -> "Seen":
        """Both together."""
        return Seen(self.times + other.times, min(self.first, other.first), max(self.last, other.last))


class Batch(Struct, frozen=True):
    """What one message tells: each kind, and how many errors of further kinds were not kept."""

    kinds: dict[Kind, Seen]
    left_out: int = 0

    @property
    def errors(self) -> int:
        """How many errors there were."""
        return sum(seen.times for seen in self.kinds.values()) + self.left_out


EMPTY = Batch({})


class Collected:
    """Errors that nobody was told of yet. Any thread may add one."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._batch = EMPTY

    def add(self, kind: Kind, at: float) -> bool:
        """One more error. False where its kind is one too many: then it is counted, and its kind forgotten."""
        with self._lock:
            return self._merge(Batch({kind: Seen(1, at, at)})) == 0

    def take(self) -> Batch:
        """All that there is, which is then here no more."""
        with self._lock:
            taken, self._batch = self._batch, EMPTY
            return taken

    def put_back(self, batch: Batch) -> int:
        """What could not be told; says how many errors lost their kind, since others have come meanwhile."""
        with self._lock:
            # The older ones first: they are what it began with.
            newer, self._batch = self._batch, batch
            return self._merge(newer)

    def __bool__(self) -> bool:
        return self._batch != EMPTY

    def _merge(self, more: Batch) -> int:
        kinds, lost = dict(self._batch.kinds), 0
        for kind, seen in more.kinds.items():
            if kind in kinds:
                kinds[kind] = kinds[kind].with_(seen)
            elif len(kinds) < KINDS_MAX:
                kinds[kind] = seen
            else:
                lost += seen.times
        self._batch = structs.replace(self._batch, kinds=kinds, left_out=self._batch.left_out + more.left_out + lost)
        return lost
