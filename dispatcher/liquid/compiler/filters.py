"""Fast versions of the most common filters, for the values that they are nearly always given.

Each calls the library's own, bounded, for everything else: long texts, other types. Calls with short texts are not
counted: the loops around them are.
"""

import operator
from collections.abc import Callable
from decimal import Decimal
from functools import lru_cache
from typing import Any, Final

from dispatcher.liquid.compiler.values import marked
from dispatcher.liquid.language import BoundedEnvironment

Filter = Callable[..., Any]
TEXT_MAX: Final = 1_024
# No filter here makes more of a text than so many times its length.
GROWTH_MAX: Final = 8
NUMBER_MAX: Final = 2**53
DATES_CACHED_MAX: Final = 1_000


def _text(change: Callable[[str], str]) -> Callable[[Filter, int], Filter]:
    """A filter that makes one text of another."""

    def made(slow: Filter, text_max: int) -> Filter:
        def fast(value: object, *given: object, **options: object) -> object:
            if type(value) is str and len(value) <= text_max and not given and not options:
                return change(value)
            return slow(value, *given, **options)

        return fast

    return made


def _joined(order: Callable[[str, str], str]) -> Callable[[Filter, int], Filter]:
    """A filter that joins two texts."""

    def made(slow: Filter, text_max: int) -> Filter:
        def fast(value: object, *given: object, **options: object) -> object:
            if (
                len(given) == 1
                and not options
                and isinstance(value, str)
                and isinstance(given[0], str)
                and len(value) <= text_max
                and len(given[0]) <= text_max
            ):
                return order(value, given[0])
            return slow(value, *given, **options)

        return fast

    return made


def _number(operation: Callable[[Any, Any], Any]) -> Callable[[Filter, int], Filter]:
    """A filter that makes one number of two; those with a fraction are counted in tens, as money is."""

    def made(slow: Filter, _text_max: int) -> Filter:
        def fast(value: object, *given: object, **options: object) -> object:
            if len(given) == 1 and not options:
                other = given[0]
                if type(value) is int and type(other) is int:
                    if -NUMBER_MAX < value < NUMBER_MAX and -NUMBER_MAX < other < NUMBER_MAX:
                        return operation(value, other)
                elif type(value) in (int, float) and type(other) in (int, float):
                    return float(operation(Decimal(str(value)), Decimal(str(other))))
            return slow(value, *given, **options)

        return fast

    return made


def _round(slow: Filter, _text_max: int) -> Filter:
    def fast(value: object, *given: object, **options: object) -> object:
        if type(value) is float and not options and len(given) == 1:
            digits = given[0]
            if type(digits) is int and 0 < digits < NUMBER_MAX:
                return round(value, digits)
        return slow(value, *given, **options)

    return fast


def _default(slow: Filter, text_max: int) -> Filter:
    def fast(value: object, *given: object, **options: object) -> object:
        if len(given) == 1 and not options:
            instead = given[0]
            if isinstance(instead, str) and len(instead) <= text_max:
                if type(value) is str and len(value) <= text_max:
                    return value or instead
                if value is None:
                    return instead
        return slow(value, *given, **options)

    return fast


def _size(slow: Filter, text_max: int) -> Filter:
    def fast(value: object, *given: object, **options: object) -> object:
        if isinstance(value, str | list | dict) and not given and not options and len(value) <= text_max:
            return len(value)
        return slow(value, *given, **options)

    return fast


def _date(slow: Filter, text_max: int) -> Filter:
    """A date filter that caches by value and format: a batch has most dates in common."""
    once = lru_cache(maxsize=DATES_CACHED_MAX, typed=True)(slow)

    def fast(value: object, *given: object, **options: object) -> object:
        is_plain = type(value) is str and len(given) == 1 and isinstance(given[0], str) and not options
        if is_plain and len(str(value)) + len(str(given[0])) <= text_max:
            return once(value, given[0])
        return slow(value, *given, **options)

    return fast


_FAST: Final[dict[str, Callable[[Filter, int], Filter]]] = {
    "append": _joined(operator.add),
    "capitalize": _text(str.capitalize),
    "date": _date,
    "default": _default,
    "downcase": _text(str.lower),
    "minus": _number(operator.sub),
    "plus": _number(operator.add),
    "prepend": _joined(lambda value, more: more + value),
    "round": _round,
    "size": _size,
    "strip": _text(str.strip),
    "times": _number(operator.mul),
    "upcase": _text(str.upper),
}


def filters_of(environment: BoundedEnvironment) -> dict[str, Filter]:
    """The filters of an environment as compiled templates call them."""
    text_max = min(TEXT_MAX, environment.text_max // GROWTH_MAX)
    made: dict[str, Filter] = {}
    for name, bounded in environment.filters.items():
        call = _with_environment(bounded, environment)
        fast = _FAST.get(name)
        made[name] = fast(call, text_max) if fast else call
    if environment.autoescape:
        made["escape"] = _text(marked)(made["escape"], text_max)
    return made


def _with_environment(bounded: Filter, environment: BoundedEnvironment) -> Filter:
    if not getattr(bounded, "with_environment", False):
        return bounded

    def call(value: object, *given: object, **options: object) -> object:
        return bounded(value, *given, environment=environment, **options)

    return call
