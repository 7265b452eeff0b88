"""The fields of one object of a definition, each read with its type, and unknown keys."""

from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any

from msgspec import Struct

from dispatcher.base.errors import quoted
from dispatcher.base.values.durations import DURATION_WORDS, duration, has_months
from dispatcher.plans.definition.paths import Faults, inside
from dispatcher.plans.definition.variables_read import Reader, VariableRead
from dispatcher.plans.texts import has_liquid

DESCRIPTION_CHARACTERS_MAX = 2_000
# Ten years: what is longer was meant otherwise.
DURATION_SECONDS_MAX = 3_660 * 86_400.0
# Past this a float loses units, and the interpreter refuses to write out what has thousands of digits.
SHOWN_NUMBER_MAX = 10**15


class Known(Struct, frozen=True):
    """The channels and functions of the configuration."""

    channels: Collection[str]
    functions: Collection[str] = ()


class Shared(Struct, frozen=True):
    """The context that all objects of one definition share."""

    known: Known
    faults: Faults
    reader: Reader


class Fields:
    """One object. A key whose value is null counts as not given."""

    def __init__(
        self, place: str, given: Mapping[str, Any], shared: Shared, reads: list[VariableRead] | None = None
    ) -> None:
        self.place = place
        self.shared = shared
        # What its texts read; an object inside of it may have its own.
        self.reads: list[VariableRead] = [] if reads is None else reads
        self._given = given
        self._asked: dict[str, None] = {}

    def fault(self, key: str, words: str) -> None:
        """Report a fault of a field, or its absence."""
        self.shared.faults.add(inside(self.place, key), words)

    def wrong(self, words: str) -> None:
        """Report a fault of the object as a whole."""
        self.shared.faults.add(self.place, words)

    def has(self, key: str) -> bool:
        """Whether a field is given; from now on it counts as known."""
        self._asked[key] = None
        return self._given.get(key) is not None

    def get(self, key: str) -> Any:  # noqa: ANN401 - whatever JSON has
        """A value as it is."""
        return self._given.get(key) if self.has(key) else None

    def text(self, key: str, characters_max: int | None = None, *, required: bool = False) -> str | None:
        """A text that is not blank."""
        if not self.has(key):
            if required:
                self.fault(key, "is required")
            return None
        value = self._given[key]
        if not isinstance(value, str):
            self.fault(key, f"expected a text, got {kind_of(value)}")
        elif not value.strip():
            self.fault(key, "is empty")
        elif characters_max is not None and len(value) > characters_max:
            self.fault(key, f"has {len(value)} characters, over {characters_max}")
        else:
            return value
        return None

    def plain(self, key: str, characters_max: int, *, required: bool = False) -> str | None:
        """A text without Liquid."""
        value = self.text(key, characters_max, required=required)
        if value is not None and has_liquid(value):
            self.fault(key, "is taken as it is written: Liquid is not rendered here")
        elif value is not None and not value.isprintable():
            self.fault(key, "has a control character")
        else:
            return value
        return None

    def liquid(self, key: str, *, required: bool = False) -> str | None:
        """A Liquid text."""
        value = self.text(key, required=required)
        if value is not None:
            self.reads += self.shared.reader.text(inside(self.place, key), value)
        return value

    def json(self, key: str) -> Any:  # noqa: ANN401 - whatever JSON has
        """JSON with Liquid in its texts."""
        value = self.get(key)
        for place, text in texts_in(value, inside(self.place, key)):
            self.reads += self.shared.reader.text(place, text)
        return value

    def object(self, key: str) -> Mapping[str, Any]:
        """A JSON object with Liquid in its texts."""
        value = self.json(key)
        if value is None or isinstance(value, dict):
            return value or {}
        self.fault(key, f"expected an object, got {kind_of(value)}")
        return {}

    def whole(self, key: str, low: int, high: int) -> int | None:
        """A whole number within bounds."""
        words = f"a whole number from {low} to {high}"
        value: int | None = self._within(key, int, lambda value: low <= value <= high, words)
        return value

    def number(self, key: str, high: float) -> float | None:
        """A number over 0 and within bounds."""
        words = f"a number over 0 and up to {high:g}"
        value = self._within(key, (int, float), lambda value: 0 < value <= high, words)
        return None if value is None else float(value)

    def _within(self, key: str, kind: Any, is_within: Callable[[Any], bool], words: str) -> Any:  # noqa: ANN401 - of that kind
        value = self.get(key)
        if value is None or (isinstance(value, kind) and not isinstance(value, bool) and is_within(value)):
            return value
        self.fault(key, f"expected {words}, got {shown(value)}")
        return None

    def seconds(self, key: str, *, required: bool = False, may_be_zero: bool = False) -> float | None:
        """A duration."""
        text = self.text(key, required=required)
        if text is None:
            return None
        found = duration(text)
        if has_months(text):
            self.fault(key, f"{quoted(text)} has years or months, which are not always as long: count days, as in P30D")
        elif found is None:
            self.fault(key, f"{quoted(text)} is no duration: expected {DURATION_WORDS}")
        elif found > DURATION_SECONDS_MAX:
            self.fault(key, f"{quoted(text)} is longer than {DURATION_SECONDS_MAX / 86_400:g} days")
        elif not found and not may_be_zero:
            self.fault(key, f"{quoted(text)} is not longer than 0")
        else:
            return found
        return None

    def one_of(self, key: str, known: Collection[str]) -> str | None:
        """One of a few words."""
        value = self.get(key)
        if value is None or (isinstance(value, str) and value in known):
            return value
        self.fault(
            key, f"expected one of {', '.join(known)}, got {shown(value)}{self.shared.faults.near(value, known)}"
        )
        return None

    def inner(self, key: str) -> "Fields | None":
        """An object whose fields are read one by one; the variables that they read count for this object."""
        value = self.get(key)
        if isinstance(value, dict):
            return Fields(inside(self.place, key), value, self.shared, self.reads)
        self.fault(key, "is required" if value is None else f"expected an object, got {kind_of(value)}")
        return None

    def rest(self) -> Mapping[str, Any]:
        """The fields that were not asked for; from now on they count as known."""
        rest = {key: value for key, value in self._given.items() if key not in self._asked}
        self._asked |= dict.fromkeys(rest)
        return rest

    def places(self) -> Mapping[str, int]:
        """The places of all texts in it, each with its rank in order of appearance."""
        return {place: rank for rank, (place, _) in enumerate(texts_in(self._given, self.place))}

    def describe(self) -> None:
        """The description that every object may have."""
        self.text("description", DESCRIPTION_CHARACTERS_MAX)

    def done(self) -> None:
        """Refuse unknown keys."""
        for key in self._given:
            if key not in self._asked:
                known = f"; known here are {', '.join(sorted(self._asked))}"
                hint = self.shared.faults.near(key, self._asked)
                self.fault(key, f"unknown key{hint or known}")


def texts_in(value: object, place: str) -> Iterator[tuple[str, str]]:
    """Every text of a JSON value, with its place."""
    if isinstance(value, str):
        yield place, value
    elif isinstance(value, dict):
        for key, inner in value.items():
            yield from texts_in(inner, inside(place, key))
    elif isinstance(value, list | tuple):
        for number, inner in enumerate(value):
            yield from texts_in(inner, inside(place, number))


_KINDS: dict[type, str] = {
    type(None): "null",
    bool: "a truth value",
    str: "a text",
    int: "a number",
    float: "a number",
    dict: "an object",
    list: "a list",
}


def kind_of(value: object) -> str:
    """The JSON type of a value, in words."""
    return _KINDS.get(type(value), f"not JSON ({type(value).__name__})")


def shown(value: object) -> str:
    """A value as a fault shows it: short."""
    if isinstance(value, str):
        return quoted(value)
    if isinstance(value, bool):
        return str(value).lower()
    if not isinstance(value, int | float):
        return kind_of(value)
    return str(value) if abs(value) < SHOWN_NUMBER_MAX else "a very large number"
