"""Templates: the list, one with its versions, what changed between two, previews, and publishing."""

from typing import Any
from urllib.parse import quote

import msgspec

from dispatcher.console.page import Answer, Field, Form, Visit, form, page
from dispatcher.console.pages.messages.template_diff import changes
from dispatcher.console.rendering import plain
from dispatcher.features.contacts.endpoints import get_contact
from dispatcher.features.templates.endpoints import (
    get_template,
    list_template_uses,
    list_template_versions,
    list_templates,
    preview_template,
    publish_template,
)
from dispatcher.features.templates.models import Preview, WholeTemplate
from dispatcher.http.problems import FAULTY, NOT_FOUND, Problem
from dispatcher.http.roles import Right

ROWS = 50
VERSIONS = 20
# Where what uses a template is shown.
_PLACES = {"campaign": "campaigns", "rule": "rules", "sequence": "sequences", "workflow": "workflows"}
# What a template reads of a contact, as campaigns hand it over.
_OF_CONTACT = ("key", "name", "company", "status", "locale", "time_zone", "tags", "attributes")


@page("/templates", Right.TEMPLATES)
async def templates(visit: Visit) -> Answer:
    """List templates by name."""
    found = await visit.ask(list_templates, query={"limit": ROWS, **visit.query})
    return visit.show("messages/templates.html", found=found, channels=sorted(visit.config().channels))


@page("/templates/{name}", Right.TEMPLATES)
async def template(visit: Visit) -> Answer:
    """Show a version of a template with its content, its other versions, and what uses it."""
    one: WholeTemplate = await visit.ask(get_template, query={"version": visit.query.get("version")})
    history = await visit.ask(list_template_versions, query={"limit": VERSIONS, "cursor": visit.query.get("cursor")})
    return visit.show(
        "messages/template.html",
        one=one,
        history=history,
        locale=_locale(visit, one),
        uses=await visit.ask(list_template_uses),
        places=_PLACES,
    )


def _locale(visit: Visit, one: WholeTemplate) -> str:
    asked = visit.query.get("locale", "")
    return (
        asked if asked in one.locales else one.default_locale if one.default_locale in one.locales else min(one.locales)
    )


@page("/templates/{name}/diff", Right.TEMPLATES)
async def diff(visit: Visit) -> Answer:
    """Show what changed between two versions: by default the published one, or the one before, and the newest."""
    new: WholeTemplate = await visit.ask(get_template, query={"version": visit.query.get("to")})
    before = visit.query.get("from") or (
        new.published if new.published and new.published < new.version else max(new.version - 1, 1)
    )
    old: WholeTemplate = await visit.ask(get_template, query={"version": before})
    return visit.show("messages/template_diff.html", old=old, new=new, changes=changes(_texts(old), _texts(new)))


def _texts(one: WholeTemplate) -> dict[str, str]:
    """Return the texts of a version by locale and part; of partials, too."""
    found = {"rights": "\n".join(one.rights)} if one.rights else {}
    for locale, content in sorted(one.locales.items()):
        found |= {f"{locale} {name}": text for name, text in content.parts.items()}
        found |= {f"{locale} partial {name}": text for name, text in content.partials.items()}
    return found


@page("/templates/{name}/preview", Right.TEMPLATES)
async def preview(visit: Visit) -> Answer:
    """Show a template as it is rendered, with sample variables, given ones, or a contact's."""
    one: WholeTemplate = await visit.ask(get_template, query={"version": visit.query.get("version")})
    shown, problem = None, None
    try:
        shown = await _previewed(visit)
    except Problem as found:
        if found.kind not in (FAULTY, NOT_FOUND):
            raise
        problem = found
    return visit.show("messages/template_preview.html", one=one, shown=shown, problem=problem)


@page("/templates/{name}/preview/html", Right.TEMPLATES, raw=True)
async def preview_html(visit: Visit) -> Answer:
    """Show the HTML of a preview, in a frame where it can do nothing."""
    shown = await _previewed(visit)
    if "html" not in shown.parts:
        raise Problem(NOT_FOUND, f"template {shown.name} has no HTML")
    return visit.message(shown.parts["html"])


async def _previewed(visit: Visit) -> Preview:
    """Return the preview that the query asks for. Raises Problem."""
    version = visit.query.get("version", "")
    given = visit.query.get("variables", "").strip()
    asked: dict[str, object] = {
        "version": int(version) if version.isascii() and version.isdecimal() else None,
        "locale": visit.query.get("locale") or None,
        "variables": _object(given) if given else None,
    }
    name = visit.path["name"]
    shown: Preview = await visit.ask(preview_template, name, body=asked)
    if (key := visit.query.get("contact", "").strip()) and visit.may(Right.CONTACTS):
        contact = await visit.ask(get_contact, key)
        known = {field: plain(getattr(contact, field)) for field in _OF_CONTACT}
        asked |= {"variables": plain(shown.variables) | {"contact": known}, "locale": asked["locale"] or contact.locale}
        shown = await visit.ask(preview_template, name, body=asked)
    return shown


def _object(text: str) -> dict[str, Any]:
    try:
        return msgspec.json.decode(text, type=dict[str, Any])
    except msgspec.MsgspecError as fault:
        raise Problem(FAULTY, f"the variables are not a JSON object: {fault}") from fault


@form("/templates/{name}/publish", publish_template)
async def publish(visit: Visit) -> Form:
    """Publish a version of a template."""
    one: WholeTemplate = await visit.ask(get_template, query={"version": visit.query.get("version")})
    name = visit.path["name"]
    instead = f" in place of version {one.published}" if one.published else ""
    return Form(
        title=f"Publish version {one.version} of {name}?",
        text=f"New deliveries get it{instead}. Deliveries that exist keep the version that they have.",
        fields=[Field("version", "Version", "number", value=one.version, required=True)],
        reason=False,
        button="Publish it",
        done=f"Version {one.version} is published.",
        back=f"/templates/{quote(name, safe='')}",
    )
