"""Previewing: one locale of a template rendered once, with variables that are given or made up."""

import msgspec

from dispatcher.liquid.parts import in_order
from dispatcher.liquid.render_limits import render_limits
from dispatcher.liquid.sample_variables import samples
from dispatcher.liquid.template import Bounds, Renderer, Sources

# What is rendered once is called by any key that is no template.
_KEY = "preview"


def preview(
    hurried: bool, channel: str | None, sources: Sources, given: str | None, bounds: Bounds
) -> tuple[str, dict[str, str]]:
    """The variables as a JSON object, made up to fit where none are given, and the parts as they would be sent, in the
    order in which people read them. Raises TemplateError; hurried also NeedsWorker."""
    renderer = Renderer(bounds, render_limits(on_event_loop=hurried))
    renderer.add(_KEY, sources)
    renderer.require_event_loop(_KEY)
    variables = msgspec.json.encode(samples(sources)).decode() if given is None else given
    rendered = renderer.render(_KEY, variables)
    return variables, {part: rendered[part] for part in in_order(channel, rendered)}
