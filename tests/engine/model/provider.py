"""A provider as the model has it: a ledger of every call that it accepted, which de-duplicates where it is keyed."""

from msgspec import Struct


class Entry(Struct, frozen=True):
    """One accepted call."""

    delivery_id: int
    key: str
    at: int
    delivered: bool


class Provider:
    """Keyed, it knows a key for `known_seconds` after the first call with it; keyless for 0."""

    def __init__(self, known_seconds: int) -> None:
        self.known_seconds = known_seconds
        self.entries: list[Entry] = []

    def accept(self, delivery_id: int, key: str, now: int) -> None:
        """Take a message; a key that is known delivers nothing again."""
        self.entries.append(Entry(delivery_id, key, now, not self.knows(key, now)))

    def knows(self, key: str, now: int) -> bool:
        """Whether it has taken a message under this key and remembers: then that is its answer."""
        return any(
            entry.key == key and entry.delivered and now < entry.at + self.known_seconds for entry in self.entries
        )

    def delivered(self, delivery_id: int) -> int:
        """How often the recipient got it."""
        return sum(entry.delivered for entry in self.entries if entry.delivery_id == delivery_id)

    def keys(self, delivery_id: int) -> set[str]:
        """The keys under which a delivery was accepted."""
        return {entry.key for entry in self.entries if entry.delivery_id == delivery_id}
