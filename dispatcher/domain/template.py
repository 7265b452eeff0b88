"""Rendering: python-liquid's dialect, strict about variables, compiled once per source and kept."""

import re
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import msgspec
from liquid.exceptions import LiquidError, UndefinedError

from dispatcher.domain.compiled import Function, compiled
from dispatcher.domain.compiled.filters import filters_of
from dispatcher.domain.liquid import CPU_SECONDS_MAX, BoundedEnvironment, Partials, TimeLimitError
from dispatcher.domain.sources import (
    ESCAPED_PARTS,
    RAW_HTML,
    Fault,
    Parsed,
    Reader,
    Sources,
    excess,
    faults,
    parse,
    variables,
    where,
)
from dispatcher.errors import TemplateError

__all__ = ["RAW_HTML", "Fault", "Renderer", "Sources", "faults", "variables"]

_PATH = re.compile(r"[\w.\[\]'\"-]+")
# Compiling takes as long as some twenty renderings: a text that was written for one recipient is not compiled.
RENDERED_BEFORE_COMPILED = 5
# A message has no more of them. Where there are more, the clock is looked at between them, which would cost a message a
# twentieth of its rendering; and none is compiled, since all of them would be in the same moment.
UNWATCHED_PARTS_MAX = 3

_decode_source = msgspec.json.Decoder(dict[str, str]).decode
_decode_object = msgspec.json.Decoder(dict[str, Any]).decode
_EMPTY: dict[str, Any] = {}
Filters = Mapping[str, Callable[..., Any]]


class Part:
    """One part of a template: as the library parsed it, and as Python code once it was rendered a few times."""

    __slots__ = (
        "_bytes_max",
        "_environment",
        "_field",
        "_filters",
        "_function",
        "_parsed",
        "_partials",
        "_renderings_left",
        "name",
    )

    def __init__(
        self,
        name: str,
        parsed: Parsed,
        environment: BoundedEnvironment,
        filters: Filters,
        partials: Partials,
        *,
        compiles: bool = True,
    ) -> None:
        self.name = name
        self._field = f"template.{name}"
        self._parsed = parsed
        self._environment = environment
        self._filters = filters
        self._partials = partials
        self._bytes_max = environment.text_max
        self._renderings_left = RENDERED_BEFORE_COMPILED if compiles else 0
        self._function: Function | None = None

    def render(self, values: Mapping[str, Any]) -> str:
        """The text of this part."""
        if self._function is not None:
            text = self._by_function(values)
            if text is not None:
                return text
        elif self._renderings_left:
            self._renderings_left -= 1
            if not self._renderings_left and self.compile():
                return self.render(values)
        try:
            return self._by_library(values)
        except TemplateError as fault:
            # What the library has no time for may be little for compiled code: no template fails only the first time.
            text = None
            if self._renderings_left and isinstance(fault.__cause__, TimeLimitError) and self.compile():
                text = self._by_function(values)
            if text is None:
                raise
            return text

    def compile(self) -> bool:
        """Make Python code of it, and say whether that can be done."""
        parsed, self._renderings_left = self._parsed, 0
        self._function = compiled(parsed.template, self._environment, self._filters, self._partials, parsed.nodes)
        return self._function is not None

    def _by_function(self, values: Mapping[str, Any]) -> str | None:
        """The text; None where the library is to say what becomes of it."""
        self._environment.work.begin(self._parsed.nodes)
        try:
            text = self._function(values) if self._function else None
        except Exception:  # whatever it was, the library comes across it too
            return None
        if text is None or (len(text) * 4 > self._bytes_max and is_larger(text, self._bytes_max)):
            return None
        return text if "\x00" not in text and (text.isascii() or _is_unicode(text)) else None

    def _by_library(self, values: Mapping[str, Any]) -> str:
        field = self._field
        try:
            text = self._environment.run(self._parsed.template, self._parsed.nodes, values, self._partials)
        except UndefinedError as missing:
            raise TemplateError(field, f"missing variable: {_path(missing)}{self._where(missing)}") from missing
        except LiquidError as fault:
            raise TemplateError(field, self._where(fault)) from fault
        except Exception as fault:
            # Filters raise what they please on values that they were not made for. Whatever it is, it is this
            # template's fault; raised further it would crash the renderer, and the epoch with it, again and again.
            # Its words are left out: they repeat what they are about.
            raise TemplateError(field, f"cannot be rendered: {type(fault).__name__}") from fault
        if is_larger(text, self._bytes_max):
            raise TemplateError(field, f"renders to more than {self._bytes_max} bytes")
        if "\x00" in text or not (text.isascii() or _is_unicode(text)):
            raise TemplateError(field, "renders a character that is none: NUL, or half of a surrogate pair")
        return text

    def _where(self, fault: LiquidError) -> str:
        """The words of a fault, with its line, and with the partial that the line is in."""
        source = fault.token.source if fault.token is not None else None
        names = [name for name, text in self._partials.templates.items() if text is source]
        return f"partial '{names[0]}' {where(fault)}" if names else where(fault)


class Renderer:
    """Renders the parts of a template; what a source compiles to is kept, least used out first."""

    def __init__(
        self, template_bytes_max: int, variables_bytes_max: int, rendered_bytes_max: int, kept_max: int
    ) -> None:
        self._template_bytes_max = template_bytes_max
        self._variables_bytes_max = variables_bytes_max
        self._kept_max = kept_max
        self._kept: OrderedDict[str, tuple[Part, ...]] = OrderedDict()
        # What was checked and has no fault.
        self._sound: set[str] = set()
        self._reader = Reader()
        self._plain = BoundedEnvironment(autoescape=False, text_max=rendered_bytes_max)
        self._escaping = BoundedEnvironment(autoescape=True, text_max=rendered_bytes_max)
        self._filters = {one: filters_of(one) for one in (self._plain, self._escaping)}

    def render(self, source: str, variables: str) -> dict[str, str]:
        """Render every part of a template with `variables` (a JSON object).

        `source` is a JSON object of Liquid by part, or a key under which a version was added; one that was not, or
        was forgotten since, is refused like any text that is no JSON.
        """
        parts = self._kept.get(source)
        if parts is None:
            parts = self._keep(source, self._read(source))
        else:
            self._kept.move_to_end(source)
        values = _EMPTY if variables == "{}" else self._variables(variables)
        if len(parts) > UNWATCHED_PARTS_MAX:
            return _watched(parts, values)
        return {part.name: part.render(values) for part in parts}

    def has(self, key: str) -> bool:
        """Whether a version is there to be rendered; what was rendered longest ago is forgotten when there are many."""
        return key in self._kept

    def add(self, key: str, sources: Sources) -> None:
        """Keep a version under a short key, which is no JSON object; raises where a part does not parse."""
        if key.startswith("{"):
            raise ValueError("a key that looks like a template")
        for part, text in [*sources.parts.items(), *sources.partials.items()]:
            if is_larger(text, self._template_bytes_max):
                raise TemplateError(f"template.{part}", f"larger than {self._template_bytes_max} bytes")
        self._keep(key, sources)

    def check(self, source: str) -> None:
        """Raise unless a JSON object of Liquid by part can be rendered, given its variables."""
        # Looking for every fault takes half a millisecond, and most deliveries say what others have said.
        if source in self._sound:
            return
        sources = self._read(source)
        self._keep(source, sources)
        for fault in self._reader.faults(sources):
            raise TemplateError(f"template.{fault.part}", str(fault))
        if len(self._sound) >= self._kept_max:
            self._sound.clear()
        self._sound.add(source)

    def _variables(self, variables: str) -> Mapping[str, Any]:
        if len(variables) * 4 > self._variables_bytes_max and is_larger(variables, self._variables_bytes_max):
            raise TemplateError("variables", f"larger than {self._variables_bytes_max} bytes")
        try:
            return _decode_object(variables)
        except (msgspec.MsgspecError, RecursionError) as fault:
            raise TemplateError("variables", f"not a JSON object: {fault}") from fault

    def _read(self, source: str) -> Sources:
        if is_larger(source, self._template_bytes_max):
            raise TemplateError("template", f"larger than {self._template_bytes_max} bytes")
        try:
            return Sources(_decode_source(source))
        except msgspec.MsgspecError as fault:
            raise TemplateError("template", f"not an object of texts: {fault}") from fault

    def _keep(self, key: str, sources: Sources) -> tuple[Part, ...]:
        if (many := excess(sources)) is not None:
            raise TemplateError(f"template.{many.part}", many.words)
        partials = {one: Partials(sources.partials) for one in (self._plain, self._escaping)}
        parts = []
        for part, text in sources.parts.items():
            environment = self._escaping if part in ESCAPED_PARTS else self._plain
            parsed = parse(part, text, environment, sources, partials[environment])
            around = environment, self._filters[environment], partials[environment]
            parts.append(Part(part, parsed, *around, compiles=len(sources.parts) <= UNWATCHED_PARTS_MAX))
        self._kept[key] = kept = tuple(parts)
        if len(self._kept) > self._kept_max:
            self._kept.popitem(last=False)
        return kept


def _watched(parts: Iterable[Part], values: Mapping[str, Any]) -> dict[str, str]:
    """The texts of many parts, which have no more time together than one has."""
    began, texts = time.thread_time(), dict[str, str]()
    for part in parts:
        if time.thread_time() - began > CPU_SECONDS_MAX:
            raise TemplateError(f"template.{part.name}", "work limit reached, with the parts before it")
        texts[part.name] = part.render(values)
    return texts


def is_larger(text: str, bytes_max: int) -> bool:
    """Whether a text takes more bytes than that; nearly always its length alone says no."""
    return len(text) * 4 > bytes_max and len(text.encode("utf-8", "surrogatepass")) > bytes_max


def _is_unicode(text: str) -> bool:
    """Whether a text can be encoded at all."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _path(missing: UndefinedError) -> str:
    """The path as it stands in the source, where the library's words do not have it."""
    token = missing.token
    found = _PATH.match(token.source, token.start_index) if token is not None and token.start_index >= 0 else None
    return f"{found[0]}: " if found and found[0] not in str(missing.message) else ""
