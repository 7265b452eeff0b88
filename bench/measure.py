"""The report of a case: a value beside a reference, with the method by which both were measured."""

from collections.abc import Sequence
from statistics import median

from msgspec import Struct


class Measure(Struct, frozen=True):
    """One line of a report. The ratio is always value / reference_value; the method says which side should win."""

    case: str
    unit: str
    value: float
    reference: str
    reference_value: float
    ratio: float
    method: str


class BenchError(Exception):
    """A case could not be measured: something did not start, did not finish, or did not do all of its work."""


def beside(case: str, unit: str, value: float, reference: str, reference_value: float, method: str) -> Measure:
    """A value beside its reference. The ratio is 0 where a short run's reference is too small to be seen."""
    ratio = value / reference_value if reference_value else 0.0
    return Measure(case, unit, round(value, 3), reference, round(reference_value, 3), ratio, method)


def percentile(values: Sequence[float], share: float) -> float:
    """The value below which this share of them lies."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


__all__ = ["BenchError", "Measure", "beside", "median", "percentile"]
