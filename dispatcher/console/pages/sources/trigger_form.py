"""The form of a trigger: a field for each variable that is read, with the type that it had in an earlier run."""

import re
import secrets
from collections.abc import Mapping, Sequence
from typing import Any

from dispatcher.base.errors import Fault
from dispatcher.console.forms import Field, Kind
from dispatcher.features.workflows.models import WholeWorkflow
from dispatcher.http.problems import Problem, faulty

INPUT, KEY, MORE = "input", "idempotency_key", "more"
_PLAIN = re.compile(r"[\w-]+(\.[\w-]+)*")
# At the end of a path these may be no field, but something that Liquid knows of a value.
_COMPUTED = ("size", "first", "last")
_FIELDS_MAX = 40


def fields(workflow: WholeWorkflow, sample: Mapping[str, Any], *, is_filled: bool) -> list[Field]:
    """Return the fields.

    `sample` is the input of an earlier run: its types are taken, and its values only where `is_filled`, since whoever
    it was sent to would get it again.
    """
    asked = paths(workflow)[:_FIELDS_MAX]
    made = [_field(path, _at(sample, path), is_filled=is_filled) for path in asked]
    tops = set(map(_top, asked))
    left_over = {name: value for name, value in sample.items() if name not in tops}
    more = Field(
        MORE,
        "Further input",
        "json",
        value=left_over if is_filled and left_over else "",
        hint="A JSON object. What stands in it comes first.",
    )
    key = Field(
        KEY,
        "Idempotency key",
        value=f"console-{secrets.token_hex(4)}",
        hint="It starts one run: a second trigger with it gets that one.",
    )
    return [*made, more, key]


def paths(workflow: WholeWorkflow) -> list[str]:
    """Return what has fields: every variable that is read, or its whole object where it is no plain path."""
    every = list(dict.fromkeys([*workflow.required_fields, *workflow.reads]))
    whole = {_top(path) for path in every if not _is_plain(path)}
    named = [path for path in every if _top(path) not in whole]
    leaves = [path for path in named if not any(other.startswith(f"{path}.") for other in named)]
    return [*leaves, *sorted(whole)]


def _is_plain(path: str) -> bool:
    parts = path.split(".")
    return _PLAIN.fullmatch(path) is not None and parts[-1] not in _COMPUTED and not any(map(str.isdigit, parts))


def _top(path: str) -> str:
    return re.split(r"[.\[]", path, maxsplit=1)[0]


def _at(sample: Any, path: str) -> Any:  # noqa: ANN401 - any JSON
    for part in path.split("."):
        sample = sample.get(part) if isinstance(sample, Mapping) else None
    return sample


def _field(path: str, value: Any, *, is_filled: bool) -> Field:  # noqa: ANN401 - any JSON
    kind = _kind(value)
    shown = value if is_filled or kind == "check" else ""
    hint = "JSON." if kind == "json" else ""
    return Field(f"{INPUT}.{path}", path, kind, value="" if shown is None else shown, hint=hint)


def _kind(value: Any) -> Kind:  # noqa: ANN401 - any JSON
    if isinstance(value, bool):
        return "check"
    if isinstance(value, int | float):
        return "number"
    return "json" if isinstance(value, list | Mapping) else "text"


def body(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the body of a trigger from the values of its form. Raises Problem."""
    made: dict[str, Any] = {}
    for name, value in given.items():
        if name.startswith(f"{INPUT}."):
            _put(made, name.split(".")[1:], value)
    more = given.get(MORE, {})
    if not isinstance(more, dict):
        raise faulty([Fault(f"$.{MORE}", "is no JSON object")])
    return {INPUT: made | more, KEY: given.get(KEY)}


def _put(into: dict[str, Any], parts: Sequence[str], value: object) -> None:
    for part in parts[:-1]:
        into = into.setdefault(part, {})
    into[parts[-1]] = value


def at_fields(problem: Problem, shown: Sequence[Field]) -> Problem:
    """Return a problem whose faults, which name variables, name the fields of the form."""
    names = [one.name for one in shown]
    return Problem(problem.kind, problem.detail, faults=[_at_field(one, names) for one in problem.faults])


def _at_field(fault: Fault, names: Sequence[str]) -> Fault:
    wanted = f"{INPUT}.{fault.path.removeprefix('$.')}"
    found = next((one for one in names if one == wanted), None)
    found = found or next((one for one in names if one.startswith(f"{wanted}.")), None)
    return fault if found is None else Fault(f"$.{found}", fault.message)
