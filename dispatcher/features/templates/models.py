"""Models of the requests and answers about templates."""

from datetime import datetime
from typing import Annotated, Literal

from msgspec import Meta, Raw, Struct, field, structs

from dispatcher.base.values.locales import UNNAMED
from dispatcher.base.values.sms_segments import Segments
from dispatcher.features.templates.rules import Draft
from dispatcher.http.models import BEGUN, VERSION_MAX, Asked, Json, Limit, LongCursor, ShortText, Text, page_model

# Of a server: its event loop reads them.
SAVED_AT_ONCE_MAX = 500
Number = Annotated[int, Meta(ge=1, le=VERSION_MAX, description="Of the version; the newest without it.")]


class TemplateQuery(Asked, frozen=True):
    """Which templates."""

    channel: Annotated[Text | None, Meta(description="For which channel.")] = None
    after: Annotated[ShortText | None, Meta(description="Only names after this one.")] = None
    cursor: LongCursor | None = None
    limit: Limit = 50


class OneTemplateQuery(Asked, frozen=True):
    """Which version of a template."""

    version: Number | None = None


class NewLocale(Asked, frozen=True):
    """The parts of a template in one language."""

    parts: Annotated[dict[str, str], Meta(description="Liquid by part.", examples=[{"subject": "Hello"}])]


class NewVersion(Asked, frozen=True, kw_only=True):
    """The source of a template."""

    channel: Annotated[ShortText | None, Meta(description="Null: a partial, which other templates include.")]
    locales: Annotated[dict[str, NewLocale], Meta(description="The content by language: de, pt-BR.")]
    default_locale: Annotated[str, Meta(max_length=100, description="For recipients of other languages.")] = UNNAMED
    rights: Annotated[list[str], Meta(max_length=10, description="raw_html, if it needs that.")] = field(
        default_factory=list
    )


class PutTemplate(NewVersion, frozen=True, kw_only=True):
    """A template to save as a version."""

    publish: Annotated[bool, Meta(description="Publish it as well.")] = False


class NamedTemplate(NewVersion, frozen=True, kw_only=True):
    """One of several templates."""

    name: ShortText


class SaveTemplates(Asked, frozen=True, kw_only=True):
    """Templates to save, all or none. They include each other's partials first."""

    templates: Annotated[list[NamedTemplate], Meta(min_length=1, extra_json_schema={"maxItems": SAVED_AT_ONCE_MAX})]
    publish: Annotated[bool, Meta(description="Publish them as well.")] = False
    check: Annotated[bool, Meta(description="Only check, and save nothing.")] = False


class SavedTemplate(Struct, frozen=True):
    """The version with the content, whether it is new, and the published version."""

    name: str
    version: Annotated[int | None, Meta(description="Null if it was only checked and would be new.")]
    created: bool
    published: int | None


class SavedTemplates(Struct, frozen=True):
    """The results in the order of the request."""

    templates: list[SavedTemplate]
    others: Annotated[list[str], Meta(description="Stored templates that are not in the request.")]


class Template(Struct, frozen=True, kw_only=True):
    """A template, with its newest version."""

    name: str
    channel: str | None
    latest: int
    published: int | None
    locales: list[str]
    rights: list[str]
    variables: list[str]
    author: str
    created_at: datetime


Templates = page_model("Templates", "templates", Template, "A page, by name.")


class Locale(Struct, frozen=True):
    """The content of a version in one language, with the partials that it includes."""

    parts: dict[str, str]
    partials: dict[str, str]


class WholeTemplate(Struct, frozen=True, kw_only=True):
    """A version with its content, and the variables that it reads."""

    name: str
    channel: str | None
    version: int
    latest: int
    published: int | None
    default_locale: str
    rights: tuple[str, ...]
    variables: tuple[str, ...]
    locales: dict[str, Locale]
    author: str
    created_at: datetime

    @property
    def draft(self) -> Draft:
        """Return the source of the template."""
        return draft_of(self.name, self)


def draft_of(name: str, one: NewVersion | WholeTemplate) -> Draft:
    """Return the source of a template, under a name."""
    return Draft(
        name=name,
        channel=one.channel,
        default_locale=one.default_locale,
        locales={locale: said.parts for locale, said in one.locales.items()},
        rights=frozenset(one.rights),
    )


class TemplateVersion(Struct, frozen=True, kw_only=True):
    """A version, and its last publication."""

    number: int
    author: str
    created_at: datetime
    locales: list[str]
    published_at: datetime | None
    published_by: str | None


TemplateVersions = page_model("TemplateVersions", "versions", TemplateVersion, "A page, the newest first.")


class TemplateUser(Struct, frozen=True):
    """What sends a template: a campaign, a rule, a sequence by its draft, or a workflow by its newest version."""

    kind: Literal["campaign", "rule", "sequence", "workflow"]
    name: str


class TemplateUses(Struct, frozen=True):
    """What sends a template, as far as the key may see it."""

    uses: list[TemplateUser]
    is_all: bool


class PublishTemplate(Asked, frozen=True):
    """The version to publish."""

    version: Number | None = None


class PublishedTemplate(Struct, frozen=True):
    """The published version, and the one before."""

    name: str
    published: int
    before: int | None


class PreviewTemplate(Asked, frozen=True, kw_only=True):
    """The stored version or the draft to render, in one language."""

    version: Number | None = None
    draft: Annotated[NewVersion | None, Meta(description="Instead of the stored template.")] = None
    locale: Annotated[str, Meta(max_length=100, description="The nearest one of the template is used.")] | None = None
    variables: Annotated[Json | None, Meta(description="Samples without it.")] = None


class Preview(Struct, frozen=True, kw_only=True):
    """A rendered template."""

    name: str
    version: int | None
    locale: str
    # As they were written: reading them would round their numbers.
    variables: Raw
    made_up: bool
    parts: dict[str, str] = field(default_factory=dict)
    sms: Annotated[Segments | None, Meta(description="The segments of an SMS.")] = None


_TEMPLATE = Template(
    name="welcome",
    channel="email",
    latest=3,
    published=2,
    locales=["de", "en"],
    rights=[],
    variables=["name"],
    author="key ann",
    created_at=BEGUN,
)
TEMPLATES = Templates([_TEMPLATE], next_cursor=None)
_LOCALE = Locale({"subject": "Hello", "text": "Hello {{ name }}"}, {})
_VERSION = {"version": 3, "default_locale": "en", "locales": {"en": _LOCALE}, "rights": (), "variables": ("name",)}
WHOLE_TEMPLATE = WholeTemplate(**structs.asdict(_TEMPLATE) | _VERSION)
SAVED_TEMPLATE = SavedTemplate("welcome", 3, created=True, published=2)
SAVED_TEMPLATES = SavedTemplates([SAVED_TEMPLATE], others=["old"])
TEMPLATE_VERSIONS = TemplateVersions(
    [
        TemplateVersion(
            number=3, author="key ann", created_at=BEGUN, locales=["en"], published_at=None, published_by=None
        )
    ],
    next_cursor="dmVyc2lvbnMgMw",
)
TEMPLATE_USES = TemplateUses([TemplateUser("campaign", "spring-sale"), TemplateUser("workflow", "onboarding")], True)
PUBLISHED_TEMPLATE = PublishedTemplate("welcome", published=3, before=2)
PREVIEW = Preview(
    name="welcome",
    version=3,
    locale="en",
    variables=Raw(b'{"name":"Ann Sample"}'),
    made_up=True,
    parts={"subject": "Hello", "text": "Hello Ann Sample"},
)
