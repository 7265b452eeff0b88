"""Previewing: one locale of a template rendered once, with variables that are given or made up."""

import msgspec
from msgspec import Struct

from dispatcher.liquid.pace import pace
from dispatcher.liquid.parts import in_order
from dispatcher.liquid.sample_variables import samples
from dispatcher.liquid.template import Renderer, Sources

# What is rendered once is called by any key that is no template.
_KEY = "preview"


class Bounds(Struct, frozen=True):
    """How large what goes in and comes out may be."""

    template_bytes_max: int
    variables_bytes_max: int
    rendered_bytes_max: int


def preview(
    hurried: bool, channel: str | None, sources: Sources, given: str | None, bounds: Bounds
) -> tuple[str, dict[str, str]]:
    """The variables as a JSON object, made up to fit where none are given, and the parts as they would be sent, in the
    order in which people read them. Raises TemplateError; hurried also NeedsWorker."""
    sizes = bounds.template_bytes_max, bounds.variables_bytes_max, bounds.rendered_bytes_max
    renderer = Renderer(*sizes, 1, pace(hurried=hurried))
    renderer.add(_KEY, sources)
    renderer.require_light(_KEY)
    variables = msgspec.json.encode(samples(sources)).decode() if given is None else given
    rendered = renderer.render(_KEY, variables)
    return variables, {part: rendered[part] for part in in_order(channel, rendered)}
