"""Partials: which of them a text takes in, and all that it takes in with them."""

from collections.abc import Iterator, Mapping, Sequence

from liquid import Environment, RenderContext
from liquid.ast import Node
from liquid.builtin.expressions import StringLiteral
from msgspec import Struct

from dispatcher.base.values.locales import nearest
from dispatcher.liquid.language import refuse_bombs

# All that one template takes in: more is no template any more, and each is read with it.
PARTIALS_MAX = 50
TAGS = ("render", "include")

_environment = Environment()


class Partial(Struct, frozen=True):
    """A partial as others take it in: its Liquid by locale."""

    default_locale: str
    locales: Mapping[str, str]

    def text(self, locale: str) -> str:
        """What it says in a locale."""
        return self.locales[nearest(locale, self.locales, self.default_locale)]


class Use(Struct, frozen=True):
    """A partial that is taken in: None where its name is known only when it is rendered."""

    name: str | None
    line: int


class Closure(Struct):
    """All that a text takes in, in one locale, and what stands in its way: for a use of it, words."""

    partials: dict[str, str]
    faults: list[tuple[Use, str]]


def used(text: str) -> list[Use]:
    """What a text takes in itself. One that does not parse takes in nothing: that is another's to say."""
    try:
        refuse_bombs(text)
        template = _environment.from_string(text)
    except Exception:  # the library raises what it pleases on texts that nobody writes
        return []
    context = RenderContext(template)
    found: list[Use] = []
    for node in _nodes(template.nodes, context):
        if node.token.value not in TAGS or not hasattr(node, "name"):
            continue
        name = node.name.value if isinstance(node.name, StringLiteral) else None
        found.append(Use(name, text.count("\n", 0, max(node.token.start_index, 0)) + 1))
    return found


def _nodes(nodes: Sequence[Node], context: RenderContext) -> Iterator[Node]:
    for node in nodes:
        yield node
        yield from _nodes(list(node.children(context, include_partials=False)), context)


def closure(text: str, locale: str, library: Mapping[str, Partial], inside: tuple[str, ...] = ()) -> Closure:
    """All that a text takes in, partials of partials too. `inside` names the partial that it is of."""
    found = Closure({}, [])
    for use in used(text):
        words = _take(use, locale, library, found, inside)
        if words is not None:
            found.faults.append((use, words))
    return found


def _take(use: Use, locale: str, library: Mapping[str, Partial], found: Closure, inside: tuple[str, ...]) -> str | None:
    """Take in one; answers what stands in its way."""
    name = use.name
    if name is None or name in inside or name not in library:
        return _refusal(name, inside)
    if name in found.partials:
        return None
    if len(found.partials) >= PARTIALS_MAX:
        return f"takes in more than {PARTIALS_MAX} partials"
    text = library[name].text(locale)
    found.partials[name] = text
    refusals = (_take(inner, locale, library, found, (*inside, name)) for inner in used(text))
    return next((words for words in refusals if words is not None), None)


def _refusal(name: str | None, inside: tuple[str, ...]) -> str:
    if name is None:
        return "the name of a partial is a text in quotes, so that it can be frozen with the version"
    if name in inside:
        return f"the partial {' takes in '.join([*inside, name])}: it would never end"
    by = f"the partial {inside[-1]} takes in {name}: " if inside else ""
    return f"{by}there is no published partial {name}"
