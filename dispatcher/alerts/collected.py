"""Collected errors: equal errors are a kind with a count, until a message is sent. Memory is bounded."""

from threading import Lock

from msgspec import Struct, structs

# A longer message is not read.
KINDS_MAX = 20


class Kind(Struct, frozen=True):
    """The identity of an error: the event, the part, the exception's class, and where it was raised."""

    event: str
    part: str = ""
    error: str = ""
    place: str = ""


class Seen(Struct, frozen=True):
    """The count of a kind, and its first and last time in seconds since 1970."""

    times: int
    first: float
    last: float

    def with_(self, other: "Seen") -> "Seen":
        """Return the sum of both."""
        return Seen(self.times + other.times, min(self.first, other.first), max(self.last, other.last))


class Batch(Struct, frozen=True):
    """The content of a message: each kind, and the number of errors of further kinds."""

    kinds: dict[Kind, Seen]
    left_out: int = 0

    @property
    def errors(self) -> int:
        """The number of all errors."""
        return sum(seen.times for seen in self.kinds.values()) + self.left_out


EMPTY = Batch({})


class Collected:
    """Errors that no message has had yet. Any thread may add an error."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._batch = EMPTY

    def add(self, kind: Kind, at: float) -> bool:
        """Add an error. Return False if there is no room for its kind: then it is only counted."""
        with self._lock:
            return self._merge(Batch({kind: Seen(1, at, at)})) == 0

    def take(self) -> Batch:
        """Remove and return everything."""
        with self._lock:
            taken, self._batch = self._batch, EMPTY
            return taken

    def put_back(self, batch: Batch) -> int:
        """Put back what was not sent. Return how many newer errors lost their kind for want of room."""
        with self._lock:
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
