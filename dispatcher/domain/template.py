"""Rendering: python-liquid's dialect, strict about variables, compiled once per source and kept."""

import re
from collections import OrderedDict
from collections.abc import Mapping
from typing import Any

import msgspec
from liquid.exceptions import LiquidError, UndefinedError
from liquid.template import BoundTemplate
from msgspec import Struct

from dispatcher.domain.liquid import BoundedEnvironment, count_nodes
from dispatcher.errors import TemplateError

_PATH = re.compile(r"[\w.\[\]'\"-]+")
ESCAPED_PARTS = frozenset({"html"})

_decode_source = msgspec.json.Decoder(dict[str, str]).decode
_decode_object = msgspec.json.Decoder(dict[str, Any]).decode
_EMPTY: dict[str, Any] = {}


class Part(Struct, frozen=True):
    """One part of a template, parsed."""

    name: str
    environment: BoundedEnvironment
    template: BoundTemplate
    nodes: int


class Renderer:
    """Renders the parts of a template; what a source compiles to is kept, least used out first."""

    def __init__(
        self, template_bytes_max: int, variables_bytes_max: int, rendered_bytes_max: int, kept_max: int
    ) -> None:
        self._template_bytes_max = template_bytes_max
        self._variables_bytes_max = variables_bytes_max
        self._rendered_bytes_max = rendered_bytes_max
        self._kept_max = kept_max
        self._kept: OrderedDict[str, tuple[Part, ...]] = OrderedDict()
        self._plain = BoundedEnvironment(autoescape=False, text_max=rendered_bytes_max)
        self._escaping = BoundedEnvironment(autoescape=True, text_max=rendered_bytes_max)

    def render(self, source: str, variables: str) -> dict[str, str]:
        """Render every part of `source` (a JSON object of Liquid by part) with `variables` (a JSON object)."""
        compiled = self._kept.get(source)
        if compiled is None:
            compiled = self._compile(source)
        else:
            self._kept.move_to_end(source)
        values = self._variables(variables)
        return {part.name: self._render(part, values) for part in compiled}

    def _render(self, part: Part, values: Mapping[str, Any]) -> str:
        field = f"template.{part.name}"
        try:
            text = part.environment.run(part.template, part.nodes, values)
        except UndefinedError as missing:
            raise TemplateError(field, f"missing variable: {_path(missing)}{_where(missing)}") from missing
        except LiquidError as fault:
            raise TemplateError(field, _where(fault)) from fault
        except Exception as fault:
            # Filters raise what they please on values that they were not made for. Whatever it is, it is this
            # template's fault; raised further it would crash the renderer, and the epoch with it, again and again.
            # Its words are left out: they repeat what they are about.
            raise TemplateError(field, f"cannot be rendered: {type(fault).__name__}") from fault
        if _is_larger(text, self._rendered_bytes_max):
            raise TemplateError(field, f"renders to more than {self._rendered_bytes_max} bytes")
        if "\x00" in text or not (text.isascii() or _is_unicode(text)):
            raise TemplateError(field, "renders a character that is none: NUL, or half of a surrogate pair")
        return text

    def check(self, source: str) -> None:
        """Raise unless every part of `source` parses."""
        if source not in self._kept:
            self._compile(source)

    def _variables(self, variables: str) -> Mapping[str, Any]:
        if variables == "{}":
            return _EMPTY
        if _is_larger(variables, self._variables_bytes_max):
            raise TemplateError("variables", f"larger than {self._variables_bytes_max} bytes")
        try:
            return _decode_object(variables)
        except (msgspec.MsgspecError, RecursionError) as fault:
            raise TemplateError("variables", f"not a JSON object: {fault}") from fault

    def _compile(self, source: str) -> tuple[Part, ...]:
        if _is_larger(source, self._template_bytes_max):
            raise TemplateError("template", f"larger than {self._template_bytes_max} bytes")
        try:
            texts = _decode_source(source)
        except msgspec.MsgspecError as fault:
            raise TemplateError("template", f"not an object of texts: {fault}") from fault
        compiled = tuple(self._parse(part, text) for part, text in texts.items())
        self._kept[source] = compiled
        if len(self._kept) > self._kept_max:
            self._kept.popitem(last=False)
        return compiled

    def _parse(self, part: str, text: str) -> Part:
        environment = self._escaping if part in ESCAPED_PARTS else self._plain
        try:
            return Part(part, environment, environment.from_string(text), count_nodes(text))
        except LiquidError as fault:
            raise TemplateError(f"template.{part}", f"does not parse: {_where(fault)}") from fault
        except Exception as fault:
            # As in rendering: numbers of thousands of digits, nesting beyond the stack.
            raise TemplateError(f"template.{part}", f"does not parse: {type(fault).__name__}") from fault


def _is_larger(text: str, bytes_max: int) -> bool:
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


def _where(fault: LiquidError) -> str:
    """The library's words without its drawing of the source, and with the line they are about."""
    text = " ".join(str(fault.message).split())
    try:
        position = fault.context()
    except ValueError:  # the fault is behind the end of the source
        position = None
    return f"line {position[0]}: {text}" if position else text
