"""Rendering: python-liquid's dialect, strict about variables, compiled once per source and kept."""

import re
from collections import OrderedDict
from collections.abc import Mapping
from typing import Any

import msgspec
from liquid import DictLoader
from liquid.exceptions import LiquidError, UndefinedError
from liquid.template import BoundTemplate
from msgspec import Struct

from dispatcher.domain.liquid import BoundedEnvironment, count_nodes
from dispatcher.errors import TemplateError

_PATH = re.compile(r"[\w.\[\]'\"-]+")
ESCAPED_PARTS = frozenset({"html"})
RAW_HTML = "raw_html"
# How a claim names what a stored version says in one locale: `v:17:de`. A template that stands in its delivery begins
# with a brace.
STORED = "v:"

_decode_source = msgspec.json.Decoder(dict[str, str]).decode
_decode_object = msgspec.json.Decoder(dict[str, Any]).decode
_EMPTY: dict[str, Any] = {}


class Part(Struct, frozen=True):
    """One part of a template, parsed."""

    name: str
    environment: BoundedEnvironment
    template: BoundTemplate
    nodes: int


class Sources(Struct, frozen=True):
    """What a stored version says in one locale: Liquid by part, the partials that it uses, and what it may do."""

    parts: Mapping[str, str]
    partials: Mapping[str, str] = {}
    rights: frozenset[str] = frozenset()


class Fault(Struct, frozen=True):
    """One thing that is wrong with a part, and its line."""

    part: str
    line: int
    words: str


def faults(sources: Sources) -> list[Fault]:
    """Every fault of every part."""
    found: list[Fault] = []
    for name, text in sources.parts.items():
        environment = _environment(sources, name)
        try:
            used = environment.from_string(text).analyze().filters
        except LiquidError as fault:
            found.append(Fault(name, _line(fault), " ".join(str(fault.message).split())))
            continue
        if name in ESCAPED_PARTS and "safe" in used and RAW_HTML not in sources.rights:
            line = text.count("\n", 0, used["safe"][0].index) + 1
            found.append(Fault(name, line, f"the filter safe needs the right {RAW_HTML}"))
    return found


def variables(sources: Sources) -> tuple[str, ...]:
    """What the parts read, sorted; their own names are left out."""
    found: set[str] = set()
    for name, text in sources.parts.items():
        read = _environment(sources, name).from_string(text).analyze().globals
        found |= {str(one) for several in read.values() for one in several}
    return tuple(sorted(found))


def _environment(sources: Sources, part: str) -> BoundedEnvironment:
    environment = BoundedEnvironment(autoescape=part in ESCAPED_PARTS, text_max=1024 * 1024)
    environment.loader = DictLoader(dict(sources.partials))
    return environment


def _line(fault: LiquidError) -> int:
    try:
        position = fault.context()
    except ValueError:
        position = None
    return position[0] if position else 1


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

    def add(self, key: str, sources: Sources) -> None:
        """Keep what a stored version says in one locale under a short key."""
        compiled: list[Part] = []
        for name, text in sources.parts.items():
            environment = _environment(sources, name)
            try:
                compiled.append(Part(name, environment, environment.from_string(text), count_nodes(text)))
            except LiquidError as fault:
                raise TemplateError(f"template.{name}", f"does not parse: {_where(fault)}") from fault
        self._keep(key, tuple(compiled))

    def has(self, key: str) -> bool:
        """Whether a key is still kept."""
        return key in self._kept

    def _keep(self, key: str, compiled: tuple[Part, ...]) -> None:
        self._kept[key] = compiled
        if len(self._kept) > self._kept_max:
            self._kept.popitem(last=False)

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
        self._keep(source, compiled)
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
