"""Previewing: one locale of a template rendered once, with variables that are given or made up."""

import msgspec
from msgspec import Struct

from dispatcher.domain.parts import in_order
from dispatcher.domain.samples import samples
from dispatcher.domain.template import Renderer, Sources

# What is rendered once is called by any key that is no template.
_KEY = "preview"


class Bounds(Struct, frozen=True):
    """How large what goes in and comes out may be."""

    template_bytes_max: int
    variables_bytes_max: int
    rendered_bytes_max: int


def made_up(sources: Sources) -> str:
    """Variables that fit to how a template uses them, as a JSON object."""
    return msgspec.json.encode(samples(sources)).decode()


def preview(channel: str | None, sources: Sources, variables: str, bounds: Bounds) -> dict[str, str]:
    """The parts as they would be sent, in the order in which people read them. Raises TemplateError."""
    renderer = Renderer(bounds.template_bytes_max, bounds.variables_bytes_max, bounds.rendered_bytes_max, 1)
    renderer.add(_KEY, sources)
    rendered = renderer.render(_KEY, variables)
    return {part: rendered[part] for part in in_order(channel, rendered)}
