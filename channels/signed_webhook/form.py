"""The form of a body: JSON of the operator's, with placeholders in its texts.

It is read as JSON first and filled afterwards, so that nothing in a message can change its shape. A text that is
nothing but one placeholder becomes the value, whatever its kind; in a longer one it has to be a text or a number.
"""

import re
from collections.abc import Callable
from typing import Any

import msgspec

DEPTH_MAX = 32
SIMPLE = ("id", "delivery_id", "key", "tenant_id", "workspace_id", "channel", "recipient", "parts")

# A brace is written twice where it is one.
_PLACE = re.compile(r"\{\{|\}\}|\{([^{}]*)\}|[{}]")
is_member = re.compile(r"(parts|options)\.([A-Za-z0-9_-]{1,64})").fullmatch
# The value of a placeholder.
Value = Callable[[str], Any]


class Unfillable(Exception):  # noqa: N818 - what the form is with these values
    """A value does not fit into its place. Its text names the placeholder."""


class Form:
    """Fills its placeholders. ValueError where its text is faulty."""

    def __init__(self, text: str) -> None:
        try:
            self._form = msgspec.json.Decoder(dict[str, Any]).decode(text.encode())
        except (msgspec.MsgspecError, UnicodeError, RecursionError):
            raise ValueError("body is not a JSON object; write one, with placeholders between quotes") from None
        _require_known(self._form, DEPTH_MAX)

    def filled(self, value: Value) -> dict[str, Any]:
        return {name: _filled(inner, value) for name, inner in self._form.items()}


def _require_known(form: object, depth: int) -> None:
    if not depth:
        raise ValueError(f"body is nested more than {DEPTH_MAX} deep; make it flatter")
    match form:
        case str():
            for match in _PLACE.finditer(form):
                _require_place(match)
        case dict():
            for inner in form.values():
                _require_known(inner, depth - 1)
        case list():
            for inner in form:
                _require_known(inner, depth - 1)
        case _:
            pass


def _require_place(match: "re.Match[str]") -> None:
    if match[0] in {"{{", "}}"}:
        return
    name = match[1]
    if name is None:
        raise ValueError("body has a single brace in a text; write it twice where it is meant")
    if name not in SIMPLE and not is_member(name):
        known = ", ".join((*SIMPLE, "parts.NAME", "options.NAME"))
        raise ValueError(f"body has a placeholder that does not exist; there are {known}")


def _filled(form: Any, value: Value) -> Any:  # noqa: ANN401 - whatever JSON has
    match form:
        case str():
            whole = _PLACE.fullmatch(form)
            if whole is not None and whole[1] is not None:
                return value(whole[1])
            return _PLACE.sub(lambda match: _text(match, value), form)
        case dict():
            return {name: _filled(inner, value) for name, inner in form.items()}
        case list():
            return [_filled(inner, value) for inner in form]
        case _:
            return form


def _text(match: "re.Match[str]", value: Value) -> str:
    if match[1] is None:
        return match[0][0]
    found = value(match[1])
    if isinstance(found, bool):
        return "true" if found else "false"
    if not isinstance(found, str | int | float):
        raise Unfillable(f"{match[1]}: is neither a text nor a number, and the channel's body has it inside of a text")
    return str(found)
