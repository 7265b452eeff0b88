"""The variables of a delivery: those that its template reads, and no others."""

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any

from dispatcher.plans.walk.missing_steps import Path, fill_missing, step_of

# A path as Liquid's analysis writes it: order.lines[0].name, labels["a b"].
_STEP = re.compile(r"""\["([^"]*)"\]|\['([^']*)'\]|\[(-?\d+)\]|([^.\[\]]+)""")


def select_variables(variables: Mapping[str, Any], reads: Sequence[str]) -> dict[str, Any]:
    """The top-level names that are read, with null for results that steps have not provided."""
    names, absent = _parsed(tuple(reads))
    return fill_missing({name: variables[name] for name in names if name in variables}, absent)


@lru_cache(maxsize=1_000)
def _parsed(reads: tuple[str, ...]) -> tuple[tuple[str, ...], tuple[Path, ...]]:
    """The names that paths begin with, and the paths of which a step may provide something."""
    paths = [path_of(read) for read in reads]
    names = dict.fromkeys(str(path[0]) for path in paths if path)
    return tuple(names), tuple(path for path in paths if path and step_of(path[0]) is not None)


def contact_names(reads: Iterable[str]) -> tuple[str, ...]:
    """The fields of a contact that paths lead to; the empty name where one reads it as a whole."""
    paths = [path for path in map(path_of, reads) if path[:1] == ("contact",)]
    return tuple(sorted({str(path[1]) if path[1:] else "" for path in paths}))


def path_of(read: str) -> Path:
    """The steps of a path."""
    every = _STEP.finditer(read)
    return tuple(int(found[3]) if found[3] is not None else found[found.lastindex or 0] for found in every)
