"""Rendering: python-liquid's dialect, strict about variables, compiled once per source and kept."""

from collections import OrderedDict
from collections.abc import Mapping
from typing import Any

import msgspec
from liquid import Environment, StrictUndefined
from liquid.exceptions import LiquidError, UndefinedError
from liquid.template import BoundTemplate

from dispatcher.errors import TemplateError

# Work that one template may do. The library counts loops per nest and not in total, and does not look into filters.
LOOP_ITERATIONS_MAX = 20_000
CONTEXT_DEPTH_MAX = 20
NESTING_MAX = 50
ESCAPED_PARTS = frozenset({"html"})

_decode_source = msgspec.json.Decoder(dict[str, str]).decode
_decode_object = msgspec.json.Decoder(dict[str, Any]).decode
_EMPTY: dict[str, Any] = {}


def _environment(autoescape: bool, output_bytes_max: int) -> Environment:
    class Bounded(Environment):
        """The library's environment with our bounds, which it reads from its class."""

        loop_iteration_limit = LOOP_ITERATIONS_MAX
        context_depth_limit = CONTEXT_DEPTH_MAX
        block_nesting_limit = NESTING_MAX
        output_stream_limit = output_bytes_max

    return Bounded(undefined=StrictUndefined, autoescape=autoescape)


class Renderer:
    """Renders the parts of a template; what a source compiles to is kept, least used out first."""

    def __init__(
        self, template_bytes_max: int, variables_bytes_max: int, rendered_bytes_max: int, kept_max: int
    ) -> None:
        self._template_bytes_max = template_bytes_max
        self._variables_bytes_max = variables_bytes_max
        self._rendered_bytes_max = rendered_bytes_max
        self._kept_max = kept_max
        self._kept: OrderedDict[str, tuple[tuple[str, BoundTemplate], ...]] = OrderedDict()
        self._plain = _environment(False, rendered_bytes_max)
        self._escaping = _environment(True, rendered_bytes_max)

    def render(self, source: str, variables: str) -> dict[str, str]:
        """Render every part of `source` (a JSON object of Liquid by part) with `variables` (a JSON object)."""
        compiled = self._kept.get(source)
        if compiled is None:
            compiled = self._compile(source)
        else:
            self._kept.move_to_end(source)
        values = self._variables(variables)
        parts: dict[str, str] = {}
        for part, template in compiled:
            try:
                parts[part] = template.render(values)
            except UndefinedError as missing:
                raise TemplateError(f"template.{part}", f"missing variable: {_where(missing)}") from missing
            except LiquidError as fault:
                raise TemplateError(f"template.{part}", _where(fault)) from fault
            except RecursionError as fault:
                raise TemplateError(f"template.{part}", "nested too deep") from fault
            if _is_larger(parts[part], self._rendered_bytes_max):
                raise TemplateError(f"template.{part}", f"renders to more than {self._rendered_bytes_max} bytes")
        return parts

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

    def _compile(self, source: str) -> tuple[tuple[str, BoundTemplate], ...]:
        if _is_larger(source, self._template_bytes_max):
            raise TemplateError("template", f"larger than {self._template_bytes_max} bytes")
        try:
            texts = _decode_source(source)
        except msgspec.MsgspecError as fault:
            raise TemplateError("template", f"not an object of texts: {fault}") from fault
        compiled = tuple((part, self._parse(part, text)) for part, text in texts.items())
        self._kept[source] = compiled
        if len(self._kept) > self._kept_max:
            self._kept.popitem(last=False)
        return compiled

    def _parse(self, part: str, text: str) -> BoundTemplate:
        environment = self._escaping if part in ESCAPED_PARTS else self._plain
        try:
            return environment.from_string(text)
        except LiquidError as fault:
            raise TemplateError(f"template.{part}", f"does not parse: {_where(fault)}") from fault
        except RecursionError as fault:
            raise TemplateError(f"template.{part}", "nested too deep") from fault


def _is_larger(text: str, bytes_max: int) -> bool:
    """Whether a text takes more bytes than that; nearly always its length alone says no."""
    return len(text) * 4 > bytes_max and len(text.encode("utf-8", "surrogatepass")) > bytes_max


def _where(fault: LiquidError) -> str:
    """The library's words without its drawing of the source, and with the line they are about."""
    text = " ".join(str(fault.message).split())
    try:
        position = fault.context()
    except ValueError:  # the fault is behind the end of the source
        position = None
    return f"line {position[0]}: {text}" if position else text
