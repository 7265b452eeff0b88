"""The endpoints about templates: saving, listing, publishing and previewing versions."""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence

import msgspec
from msgspec import Raw, Struct

from channels.checks import Check, template_check
from dispatcher.base.errors import Fault, TemplateError, TemplateRefused, did_you_mean, quoted
from dispatcher.base.values.locales import nearest
from dispatcher.base.values.sms_segments import segments_of
from dispatcher.config.settings import Channel
from dispatcher.features.templates import models, store
from dispatcher.features.templates.rules import PARTIAL_PARTS, Draft, Flaw, Version, freeze_or_defer, preview
from dispatcher.features.templates.store import LATEST, Found
from dispatcher.http import etags
from dispatcher.http.cursors import cursor, read_id, read_name
from dispatcher.http.endpoints import Call, Done, endpoint
from dispatcher.http.listing import by_name, page
from dispatcher.http.models import PageQuery
from dispatcher.http.problems import CHANGED, NOT_FOUND, Problem, faulty, not_found
from dispatcher.http.roles import Right, may
from dispatcher.liquid.template import Bounds, Sources

NOUN = "templates"
VERSIONS_NOUN = "versions"
_RIGHT = Right.TEMPLATES
_ONE = "/templates/{name}"
_PARTS = {"subject": "Hello", "text": "Hello {{ name }}"}
_VERSION = {"channel": "email", "locales": {"en": {"parts": _PARTS}}, "default_locale": "en"}


class _Frozen(Struct, frozen=True):
    """A sound draft, the version that it becomes, and the newest stored version of its name."""

    draft: Draft
    version: Version
    before: Found | None


USES_MAX = 500
# The right that its page takes.
_SEEN_WITH = {
    "campaign": Right.CAMPAIGNS,
    "rule": Right.RULES,
    "sequence": Right.SEQUENCES,
    "workflow": Right.WORKFLOWS,
}


@endpoint("GET", "/templates", _RIGHT, query=models.TemplateQuery, answered=models.TEMPLATES)
async def list_templates(call: Call) -> Done:
    """List templates by name."""
    asked: models.TemplateQuery = call.query
    start = read_name(NOUN, asked.cursor) or asked.after or ""
    rows = await store.listed(call.database, call.workspace, start, asked.limit + 1, channel=asked.channel)
    return Done(models.Templates(*page(rows, asked.limit, models.Template, by_name(NOUN))))


@endpoint(
    "GET",
    _ONE,
    _RIGHT,
    query=models.OneTemplateQuery,
    answered=models.WHOLE_TEMPLATE,
    problems=(NOT_FOUND,),
    tagged=True,
)
async def get_template(call: Call) -> Done:
    """Show a version of a template: its content and the variables that it reads.

    Its ETag is that of the newest version, also where an older one is shown.
    """
    found = await _find(call, call.query.version)
    whole = msgspec.convert(found, models.WholeTemplate, from_attributes=True)
    return Done(whole, headers={"etag": etags.tag(found.latest)})


async def _find(call: Call, number: int | None = None) -> Found:
    name = call.named("template")
    which = LATEST if number is None else str(number)
    found = (await store.find(call.database, call.workspace, [name], which)).get(name)
    if found is None:
        raise not_found(f"template {name}") if number is None else await _missing(call, number)
    return found


async def _missing(call: Call, number: int | None) -> Problem:
    newest = await _find(call)
    return Problem(NOT_FOUND, f"template {newest.name} has no version {number}; its newest is {newest.latest}")


@endpoint(
    "GET",
    f"{_ONE}/versions",
    _RIGHT,
    query=PageQuery,
    answered=models.TEMPLATE_VERSIONS,
    problems=(NOT_FOUND,),
)
async def list_template_versions(call: Call) -> Done:
    """List the versions of a template, the newest first."""
    asked: PageQuery = call.query
    name = (await _find(call)).name
    at = read_id(VERSIONS_NOUN, asked.cursor)
    rows = await store.history(call.database, call.workspace, name, asked.limit + 1, at)
    some = page(rows, asked.limit, models.TemplateVersion, lambda row: cursor(VERSIONS_NOUN, row["number"]))
    return Done(models.TemplateVersions(*some))


@endpoint("GET", f"{_ONE}/uses", _RIGHT, answered=models.TEMPLATE_USES, problems=(NOT_FOUND,))
async def list_template_uses(call: Call) -> Done:
    """List what sends a template: campaigns, rules, sequences by their drafts, workflows by their newest versions."""
    name = (await _find(call)).name
    found = await store.uses(call.database, call.workspace, name, USES_MAX + 1)
    seen = [models.TemplateUser(kind, user) for kind, user in found[:USES_MAX] if _sees(call, kind)]  # type: ignore[arg-type]  # its SQL names them
    return Done(models.TemplateUses(seen, len(found) <= USES_MAX))


def _sees(call: Call, kind: str) -> bool:
    return call.shown is None or may(call.shown.role, _SEEN_WITH[kind])


@endpoint(
    "PUT",
    _ONE,
    _RIGHT,
    given=models.PutTemplate,
    example=_VERSION,
    answered=models.SAVED_TEMPLATE,
    status=201,
    problems=(NOT_FOUND, CHANGED),
    large=True,
    tagged=True,
)
async def put_template(call: Call) -> Done:
    """Save a template as a new version.

    It is refused with every fault and its line. Content that equals the newest version makes no other one; deliveries
    get the published version.
    """
    given: models.PutTemplate = call.given
    name = call.named("template")
    before = None
    if call.if_match is not None:
        before = (await _find(call)).latest
        etags.require(call, f"template {name}", before)
    frozen = await _frozen(call, [(models.draft_of(name, given), "$")], own_partials=False)
    (saved,) = await _saved(call, frozen, publish=given.publish)
    number = saved.version or 0
    etags.require_next(f"template {name}", before, number, created=saved.created)
    return Done(saved, 201 if saved.created else 200, {"etag": etags.tag(number)})


@endpoint(
    "POST",
    "/templates",
    _RIGHT,
    given=models.SaveTemplates,
    example={"templates": [{"name": "welcome"} | _VERSION], "check": True},
    answered=models.SAVED_TEMPLATES,
    large=True,
)
async def save_templates(call: Call) -> Done:
    """Save several templates, all or none.

    As from a folder under version control: they include each other's partials, then published ones. With `check`
    nothing is saved.
    """
    given: models.SaveTemplates = call.given
    if call.shown is not None and (count := len(given.templates)) > models.SAVED_AT_ONCE_MAX:
        raise faulty([Fault("$.templates", f"has {count} items, over {models.SAVED_AT_ONCE_MAX}")])
    counts = Counter(one.name for one in given.templates)
    if len(counts) < len(given.templates):
        raise faulty(Fault("$.templates", f"has {name} twice") for name in sorted(counts) if counts[name] > 1)
    drafts = [(models.draft_of(one.name, one), f"$.templates[{place}]") for place, one in enumerate(given.templates)]
    frozen = await _frozen(call, drafts, own_partials=True)
    names = [one.draft.name for one in frozen]
    saved = [_checked(one) for one in frozen] if given.check else await _saved(call, frozen, publish=given.publish)
    others = sorted(set(await store.names(call.database, call.workspace)) - set(names))
    return Done(models.SavedTemplates(saved, others))


def _checked(one: _Frozen) -> models.SavedTemplate:
    if one.before is None:
        return models.SavedTemplate(one.draft.name, None, created=True, published=None)
    created = not _is_same(one.version, one.before)
    return models.SavedTemplate(one.draft.name, None if created else one.before.latest, created, one.before.published)


def _is_same(version: Version, found: models.WholeTemplate) -> bool:
    """Whether a stored version has this content."""
    locales = {locale: models.Locale(dict(one.parts), dict(one.partials)) for locale, one in version.sources.items()}
    return (version.default_locale, version.rights, locales) == (found.default_locale, found.rights, found.locales)


async def _saved(call: Call, frozen: Sequence[_Frozen], *, publish: bool) -> list[models.SavedTemplate]:
    pairs = [(one.draft, one.version) for one in frozen]
    try:
        saved = await store.put(call.database, call.workspace, pairs, call.actor, publish=publish)
    except TemplateRefused as refused:
        raise faulty(Fault("$.channel", fault.message) for fault in refused.faults) from refused
    names = [draft.name for draft, _ in pairs]
    stored = await store.find(call.database, call.workspace, names)
    return [
        models.SavedTemplate(name, one.number, one.created, stored[name].published)
        for name, one in zip(names, saved, strict=True)
    ]


async def _frozen(call: Call, drafts: Sequence[tuple[Draft, str]], *, own_partials: bool) -> list[_Frozen]:
    """The versions that drafts, each with its place in the body, become. Raises Problem with all faults of all."""
    config = call.served.config()
    only = [draft for draft, _ in drafts]
    library = await store.library(store.published(call.database, call.workspace), only, own_partials=own_partials)
    stored = await store.find(call.database, call.workspace, [draft.name for draft in only])
    frozen: list[_Frozen] = []
    found: list[Fault] = []
    for draft, place in drafts:
        before = stored.get(draft.name)
        words = _placement_fault(draft, before, config.channels)
        found += [] if words is None else [Fault(f"{place}.channel", words)]
        check = _check(draft, config.channels)
        version = await call.served.offload.call_if_heavy(
            call.workspace.tenant_id, freeze_or_defer, draft, library, config.limits.template_bytes_max, check
        )
        if isinstance(version, Version):
            frozen.append(_Frozen(draft, version, before))
        else:
            found += _faults(draft, version, place)
    if found:
        raise faulty(found)
    return frozen


def _check(draft: Draft, channels: Mapping[str, Channel]) -> Check | None:
    """The check of the first provider with one, of those that send messages of a draft."""
    channel = channels.get(draft.channel or "")
    providers = [] if channel is None else channel.each_provider.values()
    return next((check for one in providers if (check := template_check(one.provider, one.options))), None)


def _placement_fault(draft: Draft, before: models.WholeTemplate | None, channels: Collection[str]) -> str | None:
    """Why a draft cannot have its channel, or None."""
    if draft.channel is not None and draft.channel not in channels:
        hint = did_you_mean(draft.channel, channels)
        return f"unknown channel {quoted(draft.channel)}{hint}; known are {', '.join(sorted(channels))}"
    if before is not None and before.channel != draft.channel:
        was = "a partial" if before.channel is None else f"for {before.channel}"
        return f"the template {draft.name} is {was}, and stays that: another needs a name of its own"
    return None


def _faults(draft: Draft, flaws: Sequence[Flaw], place: str) -> Iterator[Fault]:
    for flaw in flaws:
        path, words = place, flaw.words
        if flaw.locale:
            path += f".locales.{flaw.locale}"
        if flaw.part.startswith(PARTIAL_PARTS):
            words = f"{flaw.place(draft.default_locale)}: {words}"
        elif flaw.part:
            path += f".parts.{flaw.part}"
            words = f"line {flaw.line}: {words}" if flaw.line else words
        yield Fault(path, words)


@endpoint(
    "POST",
    f"{_ONE}/publish",
    _RIGHT,
    given=models.PublishTemplate,
    example={"version": 1},
    answered=models.PUBLISHED_TEMPLATE,
    problems=(NOT_FOUND,),
)
async def publish_template(call: Call) -> Done:
    """Publish a version of a template, also an older one.

    From now on new deliveries with this template have this version. Deliveries that exist keep theirs.
    """
    name, number = call.named("template"), call.given.version
    done = await store.publish(call.database, call.workspace, name, number, call.actor)
    if done is None:
        raise await _missing(call, number)
    return Done(models.PublishedTemplate(name, done["number"], done["number_before"]))


@endpoint(
    "POST",
    f"{_ONE}/preview",
    _RIGHT,
    given=models.PreviewTemplate,
    example={"locale": "de-AT", "variables": {"name": "Ann"}},
    answered=models.PREVIEW,
    problems=(NOT_FOUND,),
    large=True,
)
async def preview_template(call: Call) -> Done:
    """Render a template with given or made-up variables, and write nothing."""
    given: models.PreviewTemplate = call.given
    if given.draft is not None:
        if given.version is not None:
            raise faulty([Fault("$.version", "is of a stored template: leave out version, or draft")])
        draft, number = models.draft_of(call.named("template"), given.draft), None
        (one,) = await _frozen(call, [(draft, "$.draft")], own_partials=False)
        sources = one.version.sources
    else:
        found = await _find(call, given.version)
        draft, number, sources = found.draft, found.version, found.sources
    locale = nearest(given.locale, sources, draft.default_locale)
    text = None if given.variables is None else call.raw("variables")
    variables, parts = await _rendered(call, draft.channel, sources[locale], text)
    return Done(
        models.Preview(
            name=draft.name,
            version=number,
            locale=locale,
            variables=Raw(variables.encode()),
            made_up=text is None,
            parts=parts,
            sms=segments_of(draft.channel, parts),
        )
    )


async def _rendered(call: Call, channel: str | None, sources: Sources, given: str | None) -> tuple[str, dict[str, str]]:
    bounds = Bounds.of(call.served.config().limits)
    try:
        return await call.served.offload.call_if_heavy(
            call.workspace.tenant_id, preview, channel, sources, given, bounds
        )
    except TemplateError as fault:
        raise faulty([Fault("$.variables", str(fault))]) from fault
