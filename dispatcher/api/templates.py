"""Templates over HTTP: saving versions, looking at them, publishing one, and seeing what it would say."""

from collections.abc import Iterator, Sequence

from msgspec import Raw

from dispatcher.api import tags, template_models
from dispatcher.api.cursors import after, below, cursor
from dispatcher.api.endpoints import Call, Done, Endpoint
from dispatcher.api.listing import by_name, page
from dispatcher.api.problems import CHANGED, NOT_FOUND, Problem, faulty, not_found
from dispatcher.domain.drafts import PARTIAL_PARTS, Draft, Flaw, Version, freeze_here
from dispatcher.domain.locales import nearest
from dispatcher.domain.previewing import Bounds, preview
from dispatcher.domain.roles import Right
from dispatcher.domain.template import Sources
from dispatcher.errors import Fault, TemplateError, TemplateRefused
from dispatcher.store import drafting
from dispatcher.store import templates as store
from dispatcher.store.templates import LATEST, Found, Saved

NOUN = "templates"
VERSIONS_NOUN = "versions"


async def list_(call: Call) -> Done:
    """By name."""
    asked: template_models.TemplateQuery = call.query
    start = after(NOUN, asked.cursor) or asked.after or ""
    rows = await store.listed(call.database, call.workspace, start, asked.limit + 1, channel=asked.channel)
    return Done(template_models.Templates(*page(rows, asked.limit, template_models.Template, by_name(NOUN))))


async def show(call: Call) -> Done:
    """One version."""
    found = await _find(call, call.query.version)
    whole = template_models.WholeTemplate(
        name=found.name,
        channel=found.channel,
        version=found.number,
        latest=found.latest,
        published=found.published,
        default_locale=found.default_locale,
        rights=list(found.rights),
        variables=list(found.variables),
        locales={
            locale: template_models.Kept(dict(one.parts), dict(one.partials)) for locale, one in found.sources.items()
        },
        author=found.author,
        created_at=found.created_at,
    )
    return Done(whole, headers={"etag": tags.tag(found.latest)})


async def _find(call: Call, number: int | None) -> Found:
    name = call.named("template")
    found = (await store.find(call.database, call.workspace, [name], LATEST if number is None else str(number))).get(
        name
    )
    if found is None:
        raise not_found(f"template {name}" + ("" if number is None else f", or it has no version {number}"))
    return found


async def versions(call: Call) -> Done:
    """Of one, the newest first."""
    asked: template_models.TemplateVersionQuery = call.query
    name = (await _find(call, None)).name
    at = below(VERSIONS_NOUN, asked.cursor)
    rows = await store.history(call.database, call.workspace, name, asked.limit + 1, at)
    some = page(rows, asked.limit, template_models.TemplateVersion, lambda row: cursor(VERSIONS_NOUN, row["number"]))
    return Done(template_models.TemplateVersions(*some))


async def put(call: Call) -> Done:
    """Save one as a version; what says what is there already makes no other one."""
    given: template_models.PutTemplate = call.given
    name = call.named("template")
    before = None
    if call.if_match is not None:
        before = (await _find(call, None)).latest
        tags.require(call, f"template {name}", before)
    draft = _draft(name, given)
    pairs = await _frozen(call, [(draft, "$")], together=False)
    (saved,) = await _save(call, pairs, publish=given.publish)
    tags.require_next(f"template {name}", before, saved.number, created=saved.created)
    published = (await _find(call, None)).published
    answer = template_models.SavedTemplate(name, saved.number, saved.created, published)
    return Done(answer, 201 if saved.created else 200, {"etag": tags.tag(saved.number)})


async def save_many(call: Call) -> Done:
    """Save those that belong together, or say what that would do."""
    given: template_models.SaveTemplates = call.given
    twice = sorted({one.name for one in given.templates if [o.name for o in given.templates].count(one.name) > 1})
    if twice:
        raise faulty([Fault("$.templates", f"{name} is there twice") for name in twice])
    drafts = [(_draft(one.name, one), f"$.templates[{place}]") for place, one in enumerate(given.templates)]
    pairs = await _frozen(call, drafts, together=True)
    names = [draft.name for draft, _ in pairs]
    stored = await store.find(call.database, call.workspace, names)
    if given.check:
        saved = [_checked(draft, version, stored.get(draft.name)) for draft, version in pairs]
    else:
        done = await _save(call, pairs, publish=given.publish)
        stored = await store.find(call.database, call.workspace, names)
        saved = [
            template_models.SavedTemplate(name, one.number, one.created, stored[name].published)
            for name, one in zip(names, done, strict=True)
        ]
    others = sorted(set(await store.names(call.database, call.workspace)) - set(names))
    return Done(template_models.SavedTemplates(saved, others))


def _checked(draft: Draft, version: Version, stored: Found | None) -> template_models.SavedTemplate:
    if stored is None:
        return template_models.SavedTemplate(draft.name, None, created=True, published=None)
    created = not drafting.same(version, stored)
    return template_models.SavedTemplate(draft.name, None if created else stored.latest, created, stored.published)


def _draft(name: str, given: template_models.NewVersion) -> Draft:
    return Draft(
        name=name,
        channel=given.channel,
        default_locale=given.default_locale,
        locales={locale: said.parts for locale, said in given.locales.items()},
        rights=frozenset(given.rights),
    )


async def _frozen(call: Call, drafts: Sequence[tuple[Draft, str]], *, together: bool) -> list[tuple[Draft, Version]]:
    """The versions that drafts become, each with its place in the body; or every fault of every one."""
    config = call.served.config()
    meant = [draft for draft, _ in drafts]
    library = await drafting.library(store.published(call.database, call.workspace), meant, together=together)
    stored = await store.find(call.database, call.workspace, [draft.name for draft in meant])
    frozen: list[tuple[Draft, Version]] = []
    found: list[Fault] = []
    for draft, place in drafts:
        words = drafting.misplaced(draft, stored.get(draft.name), config.channels)
        found += [] if words is None else [Fault(f"{place}.channel", words)]
        version = await call.served.offload.call_if_heavy(
            call.workspace.tenant_id, freeze_here, draft, library, config.limits.template_bytes_max
        )
        if isinstance(version, Version):
            frozen.append((draft, version))
        else:
            found += _faults(draft, version, place)
    if found:
        raise faulty(found)
    return frozen


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


async def _save(call: Call, pairs: Sequence[tuple[Draft, Version]], *, publish: bool) -> list[Saved]:
    try:
        return await store.put(call.database, call.workspace, pairs, call.actor, publish=publish)
    except TemplateRefused as refused:
        raise faulty(Fault("$.channel", fault.message) for fault in refused.faults) from refused


async def publish(call: Call) -> Done:
    """Let deliveries by this name be frozen to a version from now on."""
    name, number = call.named("template"), call.given.version
    done = await store.publish(call.database, call.workspace, name, number, call.actor)
    if done is None:
        raise await _missing(call, number)
    return Done(template_models.PublishedTemplate(name, done.number, done.number_before))


async def _missing(call: Call, number: int | None) -> Problem:
    latest = (await _find(call, None)).latest
    return not_found(f"version {number} of the template {call.path['name']}; its newest is {latest}")


async def show_rendered(call: Call) -> Done:
    """One language of a version or a draft, rendered; nothing is written."""
    given: template_models.PreviewTemplate = call.given
    if given.draft is not None:
        if given.version is not None:
            raise faulty([Fault("$.version", "is one of what is stored, and draft stands in its place")])
        ((draft, version),) = await _frozen(
            call, [(_draft(call.named("template"), given.draft), "$.draft")], together=False
        )
        number, sources = None, version.sources
    else:
        found = await _find(call, given.version)
        draft, number, sources = found.draft, found.number, found.sources
    locale = nearest(given.locale, sources, draft.default_locale)
    text = None if given.variables is None else call.raw("variables")
    variables, parts = await _rendered(call, draft.channel, sources[locale], text)
    return Done(
        template_models.Preview(
            name=draft.name,
            version=number,
            locale=locale,
            variables=Raw(variables.encode()),
            made_up=text is None,
            parts=parts,
        )
    )


async def _rendered(call: Call, channel: str | None, sources: Sources, given: str | None) -> tuple[str, dict[str, str]]:
    limits = call.served.config().limits
    bounds = Bounds(limits.template_bytes_max, limits.variables_bytes_max, limits.rendered_bytes_max)
    offload, tenant_id = call.served.offload, call.workspace.tenant_id
    try:
        return await offload.call_if_heavy(tenant_id, preview, channel, sources, given, bounds)
    except TemplateError as fault:
        raise faulty([Fault("$.variables", str(fault))]) from fault


_SAID = {"channel": "email", "locales": {"en": {"parts": {"subject": "Hello", "text": "Hello {{ name }}"}}}}
_VERSION = _SAID | {"default_locale": "en"}

ENDPOINTS = (
    Endpoint(
        operation="listTemplates",
        method="GET",
        path="/templates",
        right=Right.TEMPLATES,
        summary="List templates by name",
        query=template_models.TemplateQuery,
        answer=template_models.Templates,
        handle=list_,
    ),
    Endpoint(
        operation="saveTemplates",
        method="POST",
        path="/templates",
        right=Right.TEMPLATES,
        summary="Save templates that belong together, all or none",
        description="As from a folder under version control: they take in each other's partials, and then what is "
        "published. With `check` nothing is saved.",
        given=template_models.SaveTemplates,
        example={"templates": [{"name": "welcome"} | _VERSION], "check": True},
        answer=template_models.SavedTemplates,
        handle=save_many,
        large=True,
    ),
    Endpoint(
        operation="getTemplate",
        method="GET",
        path="/templates/{name}",
        right=Right.TEMPLATES,
        summary="Show a version of a template: what it says and which variables it reads",
        description="Its ETag is that of the newest version, whichever is shown.",
        query=template_models.OneTemplateQuery,
        answer=template_models.WholeTemplate,
        problems=(NOT_FOUND,),
        handle=show,
        tagged=True,
    ),
    Endpoint(
        operation="putTemplate",
        method="PUT",
        path="/templates/{name}",
        right=Right.TEMPLATES,
        summary="Save a template as a new version",
        description="It is refused with every fault and its line. What is saved already makes no other version; "
        "deliveries get the published one.",
        given=template_models.PutTemplate,
        example=_VERSION,
        answer=template_models.SavedTemplate,
        status=201,
        problems=(NOT_FOUND, CHANGED),
        handle=put,
        large=True,
        tagged=True,
    ),
    Endpoint(
        operation="listTemplateVersions",
        method="GET",
        path="/templates/{name}/versions",
        right=Right.TEMPLATES,
        summary="List the versions of a template, the newest first",
        query=template_models.TemplateVersionQuery,
        answer=template_models.TemplateVersions,
        problems=(NOT_FOUND,),
        handle=versions,
    ),
    Endpoint(
        operation="publishTemplate",
        method="POST",
        path="/templates/{name}/publish",
        right=Right.TEMPLATES,
        summary="Publish a version of a template, also an older one",
        description="From now on deliveries by this name are frozen to it. What is on its way keeps its version.",
        given=template_models.PublishTemplate,
        example={"version": 1},
        answer=template_models.PublishedTemplate,
        problems=(NOT_FOUND,),
        handle=publish,
    ),
    Endpoint(
        operation="previewTemplate",
        method="POST",
        path="/templates/{name}/preview",
        right=Right.TEMPLATES,
        summary="Render a template with given or made-up variables, and write nothing",
        given=template_models.PreviewTemplate,
        example={"locale": "de-AT", "variables": {"name": "Ann"}},
        answer=template_models.Preview,
        problems=(NOT_FOUND,),
        handle=show_rendered,
        large=True,
    ),
)
