"""Partials: those that a text takes in, directly and through other partials."""

from collections.abc import Mapping

from liquid import Environment
from liquid.builtin.tags.include_tag import IncludeNode
from liquid.builtin.tags.render_tag import RenderNode
from msgspec import Struct

from dispatcher.base.values.locales import nearest
from dispatcher.liquid.language import refuse_bombs
from dispatcher.liquid.sources import partial_name, walk_nodes

# Each is read with the template that takes it in.
PARTIALS_MAX = 50

_environment = Environment()


class Partial(Struct, frozen=True):
    """The Liquid of a partial, by locale."""

    default_locale: str
    locales: Mapping[str, str]

    def text(self, locale: str) -> str:
        """Its Liquid in the nearest locale."""
        return self.locales[nearest(locale, self.locales, self.default_locale)]


class Use(Struct, frozen=True):
    """A use of a partial; the name is None where it is computed when it is rendered."""

    name: str | None
    line: int


class Closure(Struct):
    """All partials that a text takes in, in one locale, and the uses that are refused, each with the reason."""

    partials: dict[str, str]
    faults: list[tuple[Use, str]]


def partials_used(text: str) -> list[Use]:
    """The partials that a text itself takes in; none for a text that does not parse, which is reported elsewhere."""
    try:
        refuse_bombs(text)
        nodes = _environment.from_string(text).nodes
    except Exception:  # the library raises various errors on odd texts
        return []
    return [
        Use(partial_name(node), text.count("\n", 0, max(node.token.start_index, 0)) + 1)
        for node in walk_nodes(nodes, _environment)
        if isinstance(node, RenderNode | IncludeNode)
    ]


def closure(text: str, locale: str, library: Mapping[str, Partial], inside: tuple[str, ...] = ()) -> Closure:
    """All partials that a text takes in, partials of partials too. `inside` names the partial that has the text."""
    found = Closure({}, [])
    for use in partials_used(text):
        words = _take(use, locale, library, found, inside)
        if words is not None:
            found.faults.append((use, words))
    return found


def _take(use: Use, locale: str, library: Mapping[str, Partial], found: Closure, inside: tuple[str, ...]) -> str | None:
    """Take in one partial; return the reason where it is refused."""
    name = use.name
    if name is None or name in inside or name not in library:
        return _refusal(name, inside)
    if name in found.partials:
        return None
    if len(found.partials) >= PARTIALS_MAX:
        return f"takes in more than {PARTIALS_MAX} partials"
    text = library[name].text(locale)
    found.partials[name] = text
    refusals = (_take(inner, locale, library, found, (*inside, name)) for inner in partials_used(text))
    return next((words for words in refusals if words is not None), None)


def _refusal(name: str | None, inside: tuple[str, ...]) -> str:
    if name is None:
        return "the name of a partial is a text in quotes, so that it can be frozen with the version"
    if name in inside:
        return f"the partial {' takes in '.join([*inside, name])}: it would never end"
    by = f"the partial {inside[-1]} takes in {name}: " if inside else ""
    return f"{by}there is no published partial {name}"
