"""Drafts: what makes a version, and everything that keeps one from being made."""

from collections.abc import Mapping

import pytest

from channels.checks import template_check
from dispatcher.base.values.locales import canonical, nearest
from dispatcher.features.templates.rules import LOCALES_MAX, Draft, Flaw, Version, freeze
from dispatcher.liquid.partials import PARTIALS_MAX, Partial, partials_used
from dispatcher.liquid.sources import PARTS_MAX
from dispatcher.liquid.template import Sources

BYTES_MAX = 10_000
NO_PARTIALS: Mapping[str, Partial] = {}


def draft(body: str = "x", channel: str | None = "sms", **fields: object) -> Draft:
    """A draft with a body."""
    given = {"name": "one", "channel": channel, "default_locale": "en", "locales": {"en": {"body": body}}} | fields
    return Draft(**given)  # type: ignore[arg-type]  # whatever the test is about


def flaws(one: Draft, library: Mapping[str, Partial] = NO_PARTIALS) -> list[Flaw]:
    """The faults of a draft."""
    found = freeze(one, library, BYTES_MAX)
    assert isinstance(found, list), found
    return found


def partial(body: str) -> Partial:
    """A partial in one locale."""
    return Partial("en", {"en": body})


def test_a_version_has_all_that_it_takes_in_and_what_it_reads() -> None:
    library = {
        "a": partial("{% render 'b', who: name %}"),
        "b": Partial("en", {"en": "EN {{ who }}", "de": "DE {{ who }}"}),
    }
    one = draft(locales={"en": {"body": "{% render 'a' %}{{ order.id }}"}, "de-AT": {"body": "{% include 'b' %}"}})
    version = freeze(one, library, BYTES_MAX)
    assert isinstance(version, Version)
    assert version.sources == {
        "en": Sources({"body": "{% render 'a' %}{{ order.id }}"}, {"a": library["a"].text("en"), "b": "EN {{ who }}"}),
        "de-AT": Sources({"body": "{% include 'b' %}"}, {"b": "DE {{ who }}"}),
    }
    assert "order.id" in version.variables


@pytest.mark.parametrize(
    ("one", "words"),
    [
        (draft(name=""), "its name is not valid: "),
        (draft(name="a b"), "its name is not valid: "),
        (draft(name="a" * 101), "its name is not valid: "),
        (draft(rights=frozenset({"fly"})), "there is no right fly; there are raw_html"),
        (draft(locales={}), "has no locale"),
        (draft(default_locale="de"), "does not have its default locale de"),
        (draft(locales={"en": {"body": "x"}, "d_e": {"body": "x"}}), "d_e is not a locale in its stored form"),
        (
            draft(locales={"en": {"body": "x"}} | {f"de-x{n}": {"body": "x"} for n in range(LOCALES_MAX)}),
            "locales, over 64",
        ),
        (draft(locales={"en": {"body": "x", "html": "x"}}), "is no part of sms, which takes body"),
        (draft(locales={"en": {}}), "needs body"),
        (draft(channel="email", locales={"en": {"subject": "x"}}), "needs text or html"),
        (draft(channel="email", locales={"en": {"html": "x"}}), "needs subject"),
        (draft(channel="push", locales={"en": {"title": "x"}}), "needs body or data"),
        (draft(channel=None, locales={"en": {"html": "x", "body": "x"}}), "is no part of a partial, which takes body"),
        (draft(channel="pager", locales={"en": {"No": "x"}}), "is not the name of a part"),
        (draft(channel="pager", locales={"en": {}}), "needs any part"),
        (draft("x" * (BYTES_MAX + 1)), f"bytes with all that it takes in, over {BYTES_MAX}"),
    ],
)
def test_a_part_that_could_not_be_sent_is_a_flaw(one: Draft, words: str) -> None:
    (flaw,) = flaws(one)
    assert words in flaw.words


@pytest.mark.parametrize("channel", ["pager", "sms", "whatsapp", "voice", "chat", "social", "http", "push", None])
def test_a_body_is_enough_for_nearly_every_channel(channel: str | None) -> None:
    assert isinstance(freeze(draft(channel=channel), NO_PARTIALS, BYTES_MAX), Version)


POST = template_check("mastodon", {"characters_max": 100})


@pytest.mark.parametrize(
    ("text", "is_too_long"),
    [
        ("x" * 101, True),
        ("x" * 100, False),
        ("{{ a }}" + "x" * 101, True),
        ("x" * 60 + "{{ a }}" + "x" * 41, True),
        ("x" * 99 + "{{ a }}" + " " * 50, False),
        ("{% if a %}" + "x" * 200 + "{% endif %}x", False),
        ("{% capture a %}" + "x" * 200 + "{% endcapture %}x", False),
        ("{% raw %}" + "x" * 101 + "{% endraw %}", True),
        # A link is 23, whatever its variables are.
        ("https://shop.example.org/{{ a }}" + "/x" * 100, False),
        ("{% comment %}" + "x" * 200 + "{% endcomment %}", False),
    ],
)
def test_a_post_whose_own_text_is_over_the_limit_is_a_flaw(text: str, is_too_long: bool) -> None:
    found = freeze(draft(channel="social", locales={"en": {"body": text}}), NO_PARTIALS, BYTES_MAX, POST)
    assert isinstance(found, Version) is not is_too_long
    if not isinstance(found, Version):
        (flaw,) = found
        assert flaw.place("en") == "body"
        assert "the instance takes 100 (characters_max)" in flaw.words


def test_only_some_providers_check_templates() -> None:
    assert template_check("capture", {}) is None
    assert template_check("mastodon", {}) is not None


def test_every_flaw_is_named_by_locale_part_and_line() -> None:
    said = {"subject": "{{ a", "html": "x\ny\n{% if %}", "text": "\n\n{% render 'none' %}"}
    found = flaws(draft(channel="email", locales={"en": {"subject": "x"}, "de": said}))
    assert {flaw.place("en") for flaw in found} == {"en", "subject de:1", "html de:3", "text de:3"}


@pytest.mark.parametrize(
    ("body", "library", "words"),
    [
        ("{% render 'a' %}", {}, "there is no published partial a"),
        ("{% include a %}", {}, "the name of a partial is a text in quotes"),
        (
            "{% render 'a' %}",
            {"a": partial("{% render 'b' %}")},
            "the partial a takes in b: there is no published partial b",
        ),
        (
            "{% render 'a' %}",
            {"a": partial("{% render 'b' %}"), "b": partial("{% include 'a' %}")},
            "the partial a takes in b takes in a: it would never end",
        ),
        (
            "".join(f"{{% render 'p{n}' %}}" for n in range(PARTIALS_MAX + 1)),
            {f"p{n}": partial("x") for n in range(PARTIALS_MAX + 1)},
            f"takes in more than {PARTIALS_MAX} partials",
        ),
        ("{% for a in b %}{% if a %}\n{% render 'x' %}{% endif %}{% endfor %}", {}, "there is no published partial x"),
    ],
)
def test_a_partial_that_cannot_be_taken_in_is_a_flaw(body: str, library: Mapping[str, Partial], words: str) -> None:
    (flaw,) = flaws(draft(body), library)
    assert flaw.words == words or flaw.words.startswith(words)


def test_a_partial_does_not_take_in_itself() -> None:
    (flaw,) = flaws(draft("{% render 'one' %}", channel=None), {"one": partial("older")})
    assert flaw.words == "the partial one takes in one: it would never end"


def test_a_fault_beside_a_partial_that_is_missing_is_named_too() -> None:
    said = {"subject": "x", "text": "{% render 'none' %}", "html": "\n{% endfor %}"}
    assert [(flaw.part, flaw.line) for flaw in flaws(draft(channel="email", locales={"en": said}))] == [
        ("text", 1),
        ("html", 2),
    ]


@pytest.mark.parametrize(
    "body", ["{% if", "{% render %}", "{% include %}", "{% for %}" * 100, f"{{{{ {'9' * 9999} }}}}"]
)
def test_a_template_that_does_not_parse_has_no_partials_and_a_flaw(body: str) -> None:
    assert partials_used(body) == []
    assert flaws(draft(body))


def test_escaping_is_left_only_by_right() -> None:
    locales = {"en": {"subject": "x", "html": "{{ a | safe }}"}}
    assert "safe" in flaws(draft(channel="email", locales=locales))[0].words
    trusted = draft(channel="email", locales=locales, rights=frozenset({"raw_html"}))
    version = freeze(trusted, NO_PARTIALS, BYTES_MAX)
    assert isinstance(version, Version)
    assert version.sources["en"].rights == {"raw_html"}


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("de", "de"),
        ("DE_at", "de-AT"),
        ("zh-hant-tw", "zh-Hant-TW"),
        ("default", "default"),
        ("", None),
        ("d", None),
        ("de AT", None),
        ("de-", None),
        ("../x", None),
        ("de\n", None),
    ],
)
def test_locales_have_one_form(text: str, kept: str | None) -> None:
    assert canonical(text) == kept


def test_the_nearest_locale_is_never_one_that_is_only_alike() -> None:
    assert nearest("de", ["de-AT", "en"], "en") == "en"
    assert nearest("deu", ["de", "en"], "en") == "en"
    assert nearest(None, ["de", "en"], "de") == "de"


def test_of_more_than_a_version_can_have_no_more_is_read() -> None:
    """Reading a part takes a while, and a request has room for 100,000 of them."""
    wrong = {"body": "{% nothing %}"}
    many = freeze(draft(locales={f"de-x{number}": wrong for number in range(LOCALES_MAX + 5)}), NO_PARTIALS, BYTES_MAX)
    assert isinstance(many, list)
    assert sum(flaw.part == "body" for flaw in many) == LOCALES_MAX
    parts = {f"part{number}": "{% nothing %}" for number in range(PARTS_MAX + 5)}
    broad = freeze(draft(channel="pager", locales={"en": parts}), NO_PARTIALS, BYTES_MAX)
    assert isinstance(broad, list)
    assert [(flaw.part, flaw.words) for flaw in broad] == [
        (f"part{PARTS_MAX}", f"is one of {PARTS_MAX + 5} parts, over {PARTS_MAX}")
    ]
