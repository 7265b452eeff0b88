"""Forms: the fields of an action, how they are drawn, and how what was typed becomes an endpoint's body."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Literal

import msgspec
from msgspec import Struct

from dispatcher.base.errors import Fault
from dispatcher.http.problems import faulty

Kind = Literal["text", "long", "json", "number", "time", "choice", "options", "check", "lines", "hidden", "email"]


class Field(Struct, frozen=True):
    """A field. `choices` are (value, words) or (value, words, hint) of a `choice` (a list) or of `options` (radios)."""

    name: str
    label: str
    kind: Kind = "text"
    value: Any = ""
    hint: str = ""
    required: bool = False
    choices: Sequence[Sequence[str]] = ()
    placeholder: str = ""

    @property
    def text(self) -> str:
        """Return its value as it stands in the form at first."""
        if self.value is None or self.value == "":
            return ""
        if self.kind == "json":
            return msgspec.json.format(msgspec.json.encode(self.value), indent=2).decode()
        if isinstance(self.value, datetime):
            return self.value.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S")
        if self.kind == "lines":
            return "\n".join(self.value)
        return str(self.value)


class Form(Struct, frozen=True, kw_only=True):
    """An action's form: what it asks, says and concerns.

    `back` is the path where the visitor goes afterwards, or makes it of the answer. `count` is how many it concerns.
    """

    title: str
    button: str
    back: str | Callable[[Any], str]
    text: str = ""
    fields: Sequence[Field] = ()
    # With a reason, which the audit log keeps.
    reason: bool = True
    # What has to be confirmed, since it cannot be undone.
    confirm: str = ""
    risk: bool = False
    cancel: str = ""
    # The message afterwards; else the answer's own.
    done: str = ""
    # What is done in place of a call with the fields as its body; it may answer with a page.
    act: Callable[[Any, dict[str, Any]], Awaitable[Any]] | None = None


def read_form(form: Form, given: Mapping[str, str]) -> dict[str, Any]:
    """Return the values of a form's fields; an empty field is left out. Raises Problem with every fault."""
    body: dict[str, Any] = {}
    faults: list[Fault] = []
    for field in form.fields:
        text = given.get(field.name, "").strip("\r\n" if field.kind in ("long", "json") else None)
        if field.kind == "check":
            body[field.name] = text == "yes"
        elif not text:
            if field.required:
                faults.append(Fault(f"$.{field.name}", "is required"))
        else:
            try:
                body[field.name] = _value(field.kind, text)
            except ValueError as fault:
                faults.append(Fault(f"$.{field.name}", str(fault)))
    if form.reason:
        body["reason"] = given.get("reason", "").strip()
        if not body["reason"]:
            faults.append(Fault("$.reason", "is required"))
    if form.confirm and given.get("confirmed") != "yes":
        faults.append(Fault("$.confirmed", "has to be ticked"))
    if faults:
        raise faulty(faults)
    return body


def _value(kind: Kind, text: str) -> Any:  # noqa: ANN401 - of the field's kind
    if kind == "json":
        try:
            return msgspec.json.decode(text)
        except msgspec.MsgspecError as fault:
            raise ValueError(f"is not JSON: {fault}") from fault
    if kind == "number":
        try:
            return int(text)
        except ValueError:
            return float(text)
    if kind == "time":
        return read_time(text)
    if kind == "lines":
        return [line.strip() for line in text.splitlines() if line.strip()]
    return text.replace("\r\n", "\n")


def read_time(text: str) -> str:
    """Return a time with its zone, in UTC where it names none. Raises ValueError."""
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(f"is not a time: write it as 2030-01-31T08:00 (UTC), not {text[:40]}") from None
    return (found if found.tzinfo else found.replace(tzinfo=UTC)).isoformat()


def read_times(query: Mapping[str, str], *names: str) -> dict[str, str]:
    """Return the times of a filter, those that are given. Raises Problem with every fault."""
    found: dict[str, str] = {}
    faults: list[Fault] = []
    for name in names:
        if text := query.get(name, "").strip():
            try:
                found[name] = read_time(text)
            except ValueError as fault:
                faults.append(Fault(f"query.{name}", str(fault)))
    if faults:
        raise faulty(faults)
    return found
