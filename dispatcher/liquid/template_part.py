"""One part of a template, rendered by the library, and as Python code once it was rendered a few times."""

import re
from collections.abc import Callable, Mapping
from typing import Any

from liquid.exceptions import LiquidError, UndefinedError

from dispatcher.base.errors import NeedsWorker, TemplateError
from dispatcher.liquid.compiler import Function, compiled
from dispatcher.liquid.language import BoundedEnvironment, Partials, TimeLimitError
from dispatcher.liquid.sources import Parsed, where

_PATH = re.compile(r"[\w.\[\]'\"-]+")
# Compiling takes as long as some twenty renderings: a text that was written for one recipient is not compiled.
RENDERED_BEFORE_COMPILED = 5
Filters = Mapping[str, Callable[..., Any]]


class Part:
    """One part of a template.

    What was parsed goes when there is code: it is seven objects a node, among which Python's collector searches for
    cycles while everything else waits. Where the library has to look again, it is parsed again.
    """

    def __init__(
        self,
        name: str,
        parse: Callable[[], Parsed],
        environment: BoundedEnvironment,
        filters: Filters,
        partials: Partials,
        renderings_left: int = RENDERED_BEFORE_COMPILED,
    ) -> None:
        self.name = name
        self._parse = parse
        parsed = parse()
        self._parsed: Parsed | None = parsed
        # About how many nodes one rendering has, loops aside.
        self.nodes = parsed.nodes
        self._environment = environment
        self._filters = filters
        self._partials = partials
        self._bytes_max = environment.text_max
        # How often it is rendered before it is compiled.
        self.renderings_left = renderings_left
        self._function: Function | None = None

    @property
    def nodes_cached(self) -> int:
        """How many nodes are cached."""
        return 1 if self._parsed is None else self.nodes

    def render(self, values: Mapping[str, Any]) -> str:
        """The text of this part."""
        if self._function is not None:
            text = self._by_function(values)
            if text is not None:
                return text
        elif self.renderings_left:
            self.renderings_left -= 1
            if not self.renderings_left and self.compile():
                return self.render(values)
        try:
            return self._by_library(values)
        except TemplateError as fault:
            # What the library has no time for may be little for compiled code: no template fails only the first time.
            text = None
            if self.renderings_left and isinstance(fault.__cause__, TimeLimitError) and self.compile():
                text = self._by_function(values)
            if text is None:
                raise
            return text

    def compile(self) -> bool:
        """Make Python code of it, and say whether that can be done."""
        parsed, self.renderings_left = self._parsed or self._parse(), 0
        self._function = compiled(parsed.template, self._environment, self._filters, self._partials, parsed.nodes)
        if self._function is None:
            return False
        self._parsed = None
        self._partials.forget()
        return True

    def _by_function(self, values: Mapping[str, Any]) -> str | None:
        """The text; None where the library is to say what becomes of it."""
        self._environment.work.begin(self.nodes)
        try:
            text = self._function(values) if self._function else None
        except NeedsWorker:
            raise
        except Exception:  # whatever it was, the library comes across it too
            return None
        if text is None or (len(text) * 4 > self._bytes_max and is_larger(text, self._bytes_max)):
            return None
        return text if "\x00" not in text and (text.isascii() or is_unicode(text)) else None

    def _by_library(self, values: Mapping[str, Any]) -> str:
        field = f"template.{self.name}"
        try:
            parsed = self._parsed or self._parse()
            text = self._environment.run(parsed.template, parsed.nodes, values, self._partials)
        except NeedsWorker:
            raise
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
        if "\x00" in text or not (text.isascii() or is_unicode(text)):
            raise TemplateError(field, "renders NUL, or half of a surrogate pair: remove it from the values")
        return text

    def _where(self, fault: LiquidError) -> str:
        """The words of a fault, with its line, and with the partial that the line is in."""
        source = fault.token.source if fault.token is not None else None
        names = [name for name, text in self._partials.templates.items() if text is source]
        return f"partial '{names[0]}' {where(fault)}" if names else where(fault)


def is_larger(text: str, bytes_max: int) -> bool:
    """Whether a text takes more bytes than that; nearly always its length alone says no."""
    return len(text) * 4 > bytes_max and len(text.encode("utf-8", "surrogatepass")) > bytes_max


def is_unicode(text: str) -> bool:
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
