"""Drafts of template files: saving them by the endpoints, and their texts for comparison."""

import re
from collections.abc import Mapping, Sequence
from difflib import unified_diff
from typing import Any

from dispatcher.base.errors import Fault, TemplateRefused
from dispatcher.cli.calls.caller import Caller
from dispatcher.features.templates import endpoints, store
from dispatcher.features.templates.files import TemplateFile, text
from dispatcher.features.templates.models import SavedTemplates, WholeTemplate
from dispatcher.features.templates.rules import PARTIAL_PARTS, Draft, Flaw
from dispatcher.http.problems import FAULTY, NOT_FOUND, Problem
from dispatcher.liquid.partials import Partial, closure

# The place of a fault: a template, perhaps a locale and a part.
_PLACE = re.compile(r"\$\.templates\[(\d+)\](?:\.locales\.(.+?)(?:\.parts\.([^.]+))?)?(?:\..*)?")
_LINE = re.compile(r"line (\d+): (.*)", re.DOTALL)


def body_of(draft: Draft) -> dict[str, Any]:
    """Return a draft as the body of a request."""
    return {
        "channel": draft.channel,
        "default_locale": draft.default_locale,
        "locales": {locale: {"parts": parts} for locale, parts in draft.locales.items()},
        "rights": sorted(draft.rights),
    }


def save(
    caller: Caller,
    files: Sequence[TemplateFile],
    faults: Sequence[Fault] = (),
    *,
    check: bool = False,
    publish: bool = False,
) -> SavedTemplates:
    """Save files, all or none, or only `check` them. TemplateRefused has the given `faults` and all others."""
    found, saved = list(faults), SavedTemplates([], [])
    templates = [{"name": one.draft.name, **body_of(one.draft)} for one in files]
    said = {"templates": templates, "check": check, "publish": publish}
    try:
        if files:
            saved = caller.ask(endpoints.save_templates, body=said)
    except Problem as problem:
        if problem.kind is not FAULTY:
            raise
        found += (_fault(one, files) for one in problem.faults)
    if found:
        raise TemplateRefused(found)
    return saved


def _fault(fault: Fault, files: Sequence[TemplateFile]) -> Fault:
    """A fault of a request, with its line in the file."""
    place = _PLACE.fullmatch(fault.path)
    if place is None:
        return fault
    at = _LINE.fullmatch(fault.message)
    if fault.message.startswith(PARTIAL_PARTS):
        flaw = Flaw(fault.message)
    elif at is None:
        flaw = Flaw(fault.message, place[2] or "", place[3] or "")
    else:
        flaw = Flaw(at[2], place[2] or "", place[3] or "", int(at[1]))
    return files[int(place[1])].fault(flaw)


def library(caller: Caller, drafts: Sequence[Draft], *, own_partials: bool) -> dict[str, Partial]:
    """Return the partials that drafts include."""

    async def published(names: Sequence[str]) -> dict[str, WholeTemplate]:
        newest = [one for name in names if (one := await _find(caller, name)) is not None]
        return {
            one.name: await caller.asked(endpoints.get_template, one.name, version=one.published)
            for one in newest
            if one.published is not None
        }

    return caller.run(lambda: store.library(published, drafts, own_partials=own_partials))


def find(caller: Caller, name: str) -> WholeTemplate | None:
    """Return the newest version of a template, or None."""
    return caller.run(lambda: _find(caller, name))


async def _find(caller: Caller, name: str) -> WholeTemplate | None:
    try:
        found: WholeTemplate = await caller.asked(endpoints.get_template, name)
    except Problem as problem:
        if problem.kind is not NOT_FOUND:
            raise
        return None
    return found


def readable(draft: Draft, partials: Mapping[str, Partial]) -> str:
    """Return a draft as a text for comparison, with the partials that it includes."""
    inside = (draft.name,) if draft.channel is None else ()
    taken = {
        locale: {
            name: text
            for part in said.values()
            for name, text in closure(part, locale, partials, inside).partials.items()
        }
        for locale, said in draft.locales.items()
    }
    return _readable(draft, taken)


def readable_version(found: WholeTemplate) -> str:
    """Return a version as a text for comparison."""
    return _readable(found.draft, {locale: one.partials for locale, one in found.locales.items()})


def _readable(draft: Draft, taken: Mapping[str, Mapping[str, str]]) -> str:
    return text(draft) + "".join(
        f"--- takes in {name} ({locale}) ---\n{said}\n"
        for locale, partials in sorted(taken.items())
        for name, said in sorted(partials.items())
    )


def difference(old: str, new: str, old_name: str, new_name: str) -> str:
    """Return a unified diff; empty if there is no difference."""
    lines = unified_diff(old.splitlines(), new.splitlines(), old_name, new_name, lineterm="")
    return "\n".join(lines)
