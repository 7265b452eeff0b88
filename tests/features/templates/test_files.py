"""Template files: what is read is what was written, and every fault has its line."""

from collections.abc import Mapping

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dispatcher.base.errors import TemplateRefused
from dispatcher.features.templates.files import parse, text
from dispatcher.features.templates.rules import Draft, Flaw

EMAIL = """---
name: order
channel: email
locale: en
rights: [raw_html]
---

--- subject ---
Order {{ id }}
--- html ---

<p>
</p>

--- subject de ---
Bestellung
"""


def faults(content: str) -> list[str]:
    """The faults of a file."""
    with pytest.raises(TemplateRefused) as refused:
        parse(content, "x.liquid", "x")
    return [str(fault) for fault in refused.value.faults]


def test_a_file_is_read_with_the_lines_of_its_parts() -> None:
    written = parse(EMAIL, "order.liquid", "other")
    assert written.draft == Draft(
        name="order",
        channel="email",
        default_locale="en",
        locales={"en": {"subject": "Order {{ id }}", "html": "\n<p>\n</p>"}, "de": {"subject": "Bestellung"}},
        rights=frozenset({"raw_html"}),
    )
    assert written.lines == {("en", "subject"): 9, ("en", "html"): 11, ("de", "subject"): 16}
    assert str(written.fault(Flaw("is wrong", "en", "html", 3))) == "order.liquid:13: html:3: is wrong"
    assert str(written.fault(Flaw("is wrong", "de", "subject", 1))) == "order.liquid:16: subject de:1: is wrong"
    assert str(written.fault(Flaw("is wrong"))) == "order.liquid:1: is wrong"


def test_a_body_needs_no_heading_and_a_name_comes_from_the_file() -> None:
    draft = parse("---\nchannel: sms\n---\nHello\n\n--- there\n", "x", "mail/x").draft
    assert (draft.name, draft.default_locale, draft.locales) == (
        "mail/x",
        "default",
        {"default": {"body": "Hello\n\n--- there"}},
    )


@pytest.mark.parametrize("line", ["locale: no", "locale: 'no'", 'locale: "no"'])
def test_norwegian_is_no_truth_value(line: str) -> None:
    assert parse(f"---\nchannel: sms\n{line}\nname: 17\n---\nx", "x", "x").draft.default_locale == "no"


def test_lines_of_another_system_say_the_same() -> None:
    assert parse(EMAIL.replace("\n", "\r\n"), "x", "x").draft == parse(EMAIL, "x", "x").draft


@pytest.mark.parametrize(
    ("content", "found"),
    [
        ("", ["x.liquid:1: has no front matter: it begins with a line ---, and ends with another"]),
        (
            "hello\n---\nchannel: sms\n---\n",
            ["x.liquid:1: has no front matter: it begins with a line ---, and ends with another"],
        ),
        ("---\n---\nx", ["x.liquid:1: has no channel and is not a partial: `channel: email`, or `kind: partial`"]),
        ("---\njust words\n---\nx", ["x.liquid:2: expected keys and values, such as `channel: email`"]),
        ("---\nchannel: sms\nname: [a]\n---\nx", ["x.liquid:3: name: expected a text"]),
        ("---\nchannel: sms\nchannel: sms\n---\nx", ["x.liquid:3: channel is given twice"]),
        ("---\nkind: thing\n---\nx", ["x.liquid:2: kind: expected partial, or leave it out"]),
        (
            "---\nchannel: sms\nkind: partial\n---\nx",
            ["x.liquid:2: a partial has no channel: the template that includes it has one"],
        ),
        ("---\nchannel: sms\n---\nx\n--- body ---\ny", ["x.liquid:4: stands before the first heading"]),
        ("---\nchannel: sms\n---\n--- body ---\ny\n--- body ---\nz", ["x.liquid:6: body of default is given twice"]),
        ("---\nchannel: sms\n---\nx\n\0", ["x.liquid:5: body:2: has a NUL character"]),
        ("---\nchannel: sms\n---\n--- body d!e ---\ny", ["x.liquid:4: d!e is no locale, such as de or pt-BR"]),
        (
            "---\n!!python/object:os.system x\n---\nx",
            ["x.liquid:2: expected keys and values, such as `channel: email`"],
        ),
    ],
)
def test_every_fault_has_its_line(content: str, found: list[str]) -> None:
    assert faults(content) == found


def test_invalid_yaml_is_a_fault_with_its_line() -> None:
    (fault,) = faults("---\nchannel: sms\nname: [a\n---\nx")
    assert fault.startswith("x.liquid:")
    assert "is no YAML" in fault


LINE = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\r\n\0"), max_size=20)
SAID = st.lists(LINE, min_size=1, max_size=4).map("\n".join).map(lambda text: text.rstrip("\n"))
PARTS = st.dictionaries(st.sampled_from(["subject", "text", "html"]), SAID, min_size=1)


@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(
    said=st.dictionaries(st.sampled_from(["en", "de", "pt-BR"]), PARTS, min_size=1),
    raw=st.booleans(),
)
def test_written_files_are_read_back(said: Mapping[str, Mapping[str, str]], raw: bool) -> None:
    rights = frozenset({"raw_html"} if raw else ())
    draft = Draft(name="a/b.c", channel="email", default_locale=next(iter(said)), locales=said, rights=rights)
    assert parse(text(draft), "x", "x").draft == draft


@given(body=SAID)
def test_a_plain_body_is_what_is_read(body: str) -> None:
    draft = Draft(name="n", channel=None, default_locale="default", locales={"default": {"body": body}})
    assert parse(text(draft), "x", "x").draft == draft
