"""The intake: reads JSON objects as deliveries, and finds all of their faults before the database is asked."""

from collections.abc import Collection, Iterator
from datetime import datetime
from functools import lru_cache
from typing import Any

import msgspec
from msgspec import Raw

from dispatcher.base.errors import Fault, Hints, InputError, NeedsWorker, TemplateError, quoted
from dispatcher.base.values.durations import instant
from dispatcher.base.worker_process import Offload
from dispatcher.config.fields import dotted
from dispatcher.config.settings import Config, Limits
from dispatcher.engine.rules.life import ATTEMPTS_MAX, LANES, RECIPIENT_CHARACTERS_MAX, Lane
from dispatcher.engine.rules.suppression import TOPIC, TOPIC_WORDS
from dispatcher.features.deliveries.models import NewDelivery
from dispatcher.features.deliveries.store import New

KEY_CHARACTERS_MAX = 255
# The three parts of the unique key share an index entry, which Postgres limits to 2,704 bytes.
KEY_BYTES_MAX = 2_600
# The schema's limit for names of templates and locales.
STORED_NAME_MAX = 100
ALIASES = {"to": "recipient"}
FIELDS = (*(name for name in NewDelivery.__struct_fields__ if name not in ALIASES), "tenant_id", "workspace_id")

_line = msgspec.json.Decoder(dict[str, Raw]).decode
_object = msgspec.json.Decoder(dict[str, Any]).decode
_KINDS = {"{": "an object", "[": "a list", '"': "a text", "t": "true", "f": "false"}


class Intake:
    """Reads deliveries under one configuration. `hurried`: large templates are checked only by `read_offloaded`."""

    def __init__(self, limits: Limits, channels: Collection[str], *, hurried: bool) -> None:
        # Liquid takes as long to import as the rest, and many callers only read times.
        from dispatcher.liquid.render_limits import render_limits  # noqa: PLC0415 - as above
        from dispatcher.liquid.template import Bounds, Renderer  # noqa: PLC0415 - as above

        self.channels = channels
        self.limits = limits
        self.templates = Renderer(Bounds.of(limits), render_limits(on_event_loop=hurried))

    def read(self, line: bytes, hints: Hints | None = None) -> New:
        """Return the delivery that a line of JSON describes. Raises InputError with all faults.

        The lines of a request share `hints`.
        """
        try:
            text = line.decode("utf-8")
        except UnicodeDecodeError as fault:
            raise _broken(f"is not UTF-8 at byte {fault.start + 1}") from fault
        try:
            given = _line(text)
        except RecursionError as fault:
            raise _broken("is nested too deep") from fault
        except msgspec.MsgspecError as fault:
            raise _broken(f"is not a JSON object: {fault}") from fault
        reading = _Reading(given, Hints() if hints is None else hints)
        new = self._delivery(reading)
        if reading.faults:
            raise InputError(reading.faults)
        return new

    async def read_offloaded(self, offload: Offload, tenant_id: str, line: bytes, hints: Hints) -> New:
        """Read a line without holding the event loop for a template."""
        try:
            return self.read(line, hints)
        except NeedsWorker as heavy:
            source = heavy.template
        from dispatcher.liquid.worker_functions import check  # noqa: PLC0415 - as above

        self.templates.checked(source, await offload.call(tenant_id, check, self.templates.bounds, source))
        return self.read(line, hints)

    def _delivery(self, reading: "_Reading") -> New:
        channel = self._channel(reading)
        new = New(
            idempotency_key=reading.name("idempotency_key", None),
            channel=channel,
            recipient=self._recipient(reading, channel),
            template=self._template(reading),
            template_name=reading.optional("template_name"),
            locale=reading.optional("locale"),
            variables=reading.object("variables", self.limits.variables_bytes_max),
            options=reading.object("options", None),
            lane=reading.lane(),
            tenant_id=reading.name("tenant_id", "default"),
            workspace_id=reading.name("workspace_id", "default"),
            scheduled_for=reading.time("scheduled_for"),
            expires_at=reading.time("expires_at"),
            max_attempts=reading.attempts(),
            topic=reading.topic(),
        )
        size = sum(len(part.encode()) for part in new.key)
        if size > KEY_BYTES_MAX and not reading.faults:
            reading.fault("idempotency_key", f"has {size} bytes with tenant and workspace, over {KEY_BYTES_MAX}")
        return new

    def _recipient(self, reading: "_Reading", channel: str) -> str:
        # A social post has only its channel.
        default, least = ("", 0) if channel == "social" else (None, 1)
        return reading.text("recipient", default, least, RECIPIENT_CHARACTERS_MAX)

    def _channel(self, reading: "_Reading") -> str:
        channel = reading.text("channel", None, 0)
        if "channel" in reading.sound and channel not in self.channels:
            known = ", ".join(sorted(self.channels))
            hint = reading.hints.did_you_mean(channel, self.channels)
            reading.fault("channel", f"unknown channel {quoted(channel)}{hint}; known are: {known}")
        return channel

    def _template(self, reading: "_Reading") -> str | None:
        """Return the template of the delivery; None where it names a stored one."""
        own = "body" in reading.given or "template" in reading.given
        if own and "locale" in reading.given:
            reading.fault("locale", "goes with template_name: a given template has one language")
        if not own and "template_name" in reading.given:
            return None
        if "body" in reading.given:
            if "template" in reading.given:
                reading.fault("body", "is given beside template: keep one of them")
            body = reading.text("body", None, 0)
            source = msgspec.json.encode({"body": body}).decode() if "body" in reading.sound else "{}"
        elif "template" in reading.given:
            source = reading.object("template", self.limits.template_bytes_max)
            if source == "{}" and "template" in reading.sound:
                reading.fault("template", "has no parts")
        else:
            reading.fault("template", "is required, or body, or the template_name of a stored one")
            return "{}"
        try:
            if source != "{}":
                self.templates.check(source)
        except TemplateError as fault:
            reading.fault(fault.field, fault.reason)
        return source


def intake(config: Config, *, hurried: bool) -> Intake:
    """Return the intake of a configuration, with its cache of checked templates."""
    return _intake(config.limits, tuple(config.channels), hurried=hurried)


_intake = lru_cache(maxsize=4)(Intake)


class _Reading:
    """An object being read: its fields, the valid ones among them, and the faults so far."""

    def __init__(self, given: dict[str, Raw], hints: Hints) -> None:
        self.hints = hints
        self.faults: list[Fault] = []
        self.sound: set[str] = set()
        self.given: dict[str, str] = {}
        for name, raw in given.items():
            field = ALIASES.get(name, name)
            if field not in FIELDS:
                self.fault(dotted((name,)), f"unknown field{hints.did_you_mean(name, (*FIELDS, *ALIASES))}")
            elif field in self.given:
                self.fault(name, f"is given beside {field}: keep one of them")
            elif (text := bytes(raw).decode()) != "null":
                self.given[field] = text

    def fault(self, path: str, message: str) -> None:
        self.faults.append(Fault(path, message))

    def text(self, field: str, default: str | None, length_min: int, length_max: int | None = None) -> str:
        raw = self.given.get(field)
        if raw is None:
            if default is None:
                self.fault(field, "is required")
            return default or ""
        if not raw.startswith('"'):
            self.fault(field, f"expected a text, got {_KINDS.get(raw[0], 'a number')}")
            return default or ""
        text = msgspec.json.decode(raw, type=str)
        if "\0" in text:
            self.fault(field, "has a NUL character, which Postgres cannot keep")
        elif len(text) < length_min:
            self.fault(field, "is empty")
        elif length_max is not None and len(text) > length_max:
            self.fault(field, f"has {len(text)} characters, over {length_max}")
        else:
            self.sound.add(field)
        return text

    def name(self, field: str, default: str | None) -> str:
        return self.text(field, default, 1, KEY_CHARACTERS_MAX)

    def optional(self, field: str) -> str | None:
        """Return a short text, or None."""
        return self.text(field, None, 1, STORED_NAME_MAX) if field in self.given else None

    def object(self, field: str, bytes_max: int | None) -> str:
        """Return an object unchanged: decoding and encoding would round its numbers."""
        raw = self.given.get(field, "{}")
        if not raw.startswith("{"):
            self.fault(field, f"expected an object, got {_KINDS.get(raw[0], 'a number')}")
            return "{}"
        if bytes_max is not None and (size := len(raw.encode())) > bytes_max:
            self.fault(field, f"has {size} bytes, over {bytes_max}")
            return "{}"
        try:
            value = _object(raw)
        except (msgspec.MsgspecError, RecursionError) as fault:
            self.fault(field, f"cannot be read: {fault}")
            return "{}"
        # Most have none, and searching for the escape is a hundred times faster than walking.
        nul = next(_with_nul(value, (field,)), None) if "\\u0000" in raw else None
        if nul is not None:
            self.fault(dotted(nul), "has a NUL character, which Postgres cannot keep")
            return "{}"
        self.sound.add(field)
        return raw if value else "{}"

    def time(self, field: str) -> datetime | None:
        if field not in self.given:
            return None
        before = len(self.faults)
        text = self.text(field, None, 0)
        if len(self.faults) > before:
            return None
        try:
            return instant(text)
        except ValueError as fault:
            self.fault(field, str(fault))
            return None

    def lane(self) -> Lane:
        text = self.text("lane", "normal", 0)
        if "lane" in self.sound and text not in LANES:
            self.fault("lane", f"expected one of {', '.join(LANES)}, got {quoted(text)}")
        return LANES.get(text, Lane.NORMAL)

    def topic(self) -> str | None:
        if "topic" not in self.given:
            return None
        text = self.text("topic", None, 0)
        if "topic" in self.sound and not TOPIC.match(text):
            self.fault("topic", f"expected {TOPIC_WORDS}")
        return text

    def attempts(self) -> int:
        raw = self.given.get("max_attempts", "5")
        try:
            count = msgspec.json.decode(raw, type=int)
        except msgspec.MsgspecError:
            count = 0
        if not 1 <= count <= ATTEMPTS_MAX:
            self.fault("max_attempts", f"expected a whole number from 1 to {ATTEMPTS_MAX}")
            return 1
        return count


def _with_nul(value: object, at: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    """Yield the paths of NUL characters."""
    match value:
        case str():
            if "\0" in value:
                yield at
        case dict():
            for key, inner in value.items():
                if "\0" in key:
                    yield (*at, key)
                yield from _with_nul(inner, (*at, key))
        case list():
            for index, inner in enumerate(value):
                yield from _with_nul(inner, (*at, str(index)))
        case _:
            pass


def _broken(message: str) -> InputError:
    return InputError([Fault("line", message)])
