"""Properties of planned messages: the bytes that would be sent, from which version, and why some cannot be made."""

from collections.abc import Mapping
from datetime import UTC, datetime

import pytest
from msgspec import structs

from dispatcher.base.errors import TriggerRefused
from dispatcher.engine.rules.unsubscribe_links import Links
from dispatcher.features.templates.models import Locale
from dispatcher.features.templates.store import Found
from dispatcher.liquid.template import Bounds, Renderer
from dispatcher.plans.simulation import planned
from dispatcher.plans.simulation.planned import CpuBudget, Rendering, planned_step
from dispatcher.plans.simulation.simulation import Step
from dispatcher.plans.walk.run import Order

ORDER = Order(
    node="mail",
    channel="email",
    recipients=("a@b.c", "d@e.f"),
    template=None,
    parts={"text": "Hello {{ name }}", "subject": "Hä"},
    variables={"name": "Ann", "other": 1},
    options={},
    attempts=3,
)
WELCOME = Found(
    name="welcome",
    channel="email",
    latest=2,
    published=2,
    id=9,
    version=2,
    default_locale="en",
    rights=(),
    variables=("name", "step_1_error"),
    locales={
        "en": Locale({"text": "Hi {{ name }}{{ step_1_error }}"}, {}),
        "de": Locale({"text": "Hallo {{ name }}"}, {}),
    },
    author="ann",
    created_at=datetime(2030, 1, 1, tzinfo=UTC),
)


def rendering(
    stored: Mapping[str, Found] | None = None, links: Links | None = None, budget: CpuBudget | None = None
) -> Rendering:
    return Rendering(Renderer(Bounds(100_000, 100_000, 100_000, 10)), links, "default", stored or {}, budget)


def test_each_recipient_gets_the_parts_in_their_order_with_their_bytes() -> None:
    first, second = rendering().messages(ORDER)
    assert (first.recipient, second.recipient) == ("a@b.c", "d@e.f")
    assert list(first.parts.items()) == [("subject", "Hä"), ("text", "Hello Ann")]
    assert first.bytes == 3 + 9


@pytest.mark.parametrize(("locale", "text", "found"), [("de-AT", "Hallo Ann", "de"), (None, "Hi Ann", "en")])
def test_a_stored_template_is_taken_in_the_nearest_locale(locale: str | None, text: str, found: str) -> None:
    order = structs.replace(ORDER, template="welcome", parts=None, locale=locale)
    message = rendering({"welcome": WELCOME}).messages(order)[0]
    assert (message.parts, message.locale, message.version) == ({"text": text}, found, 2)


@pytest.mark.parametrize("channel", ["email", "sms"])
def test_a_template_that_is_not_there_for_the_channel_is_an_error(channel: str) -> None:
    stored = {} if channel == "email" else {"welcome": WELCOME}
    order = structs.replace(ORDER, template="welcome", parts=None, channel=channel)
    errors = [message.error for message in rendering(stored).messages(order)]
    assert errors == [f"template: there is no published template welcome for {channel}"] * 2


def test_a_mail_about_a_topic_has_the_link_of_its_recipient() -> None:
    links = Links("https://example.org", "a-secret-of-more-than-thirty-two-characters")
    order = structs.replace(ORDER, topic="news", parts={"text": "{{ unsubscribe_url }}"})
    first, second = (message.parts["text"] for message in rendering(links=links).messages(order))
    assert first.startswith("https://example.org/u/")
    assert first != second
    assert rendering(links=links).messages(structs.replace(order, topic=None))[0].error is not None


def test_a_node_fails_where_none_of_its_messages_can_be_made() -> None:
    step = Step(node="mail", step=1, kind="send", at=0.0)
    good, bad = rendering().messages(ORDER)[0], rendering().messages(structs.replace(ORDER, variables={}))[0]
    assert bad.error is not None
    assert "name" in bad.error
    assert planned_step(step, [bad, bad]).fails == bad.error
    assert planned_step(step, [bad, structs.replace(bad, rendered=False, error=None)]).fails == bad.error
    assert planned_step(step, [good, bad]).fails is None
    assert planned_step(step, []).fails is None


def test_of_very_many_recipients_the_first_ones_are_shown() -> None:
    order = structs.replace(ORDER, recipients=[f"{number}@b.c" for number in range(1_000)])
    messages = rendering().messages(order)
    assert [one.recipient for one in messages] == list(order.recipients)
    assert sum(one.rendered for one in messages) == planned.RENDERED_OF_NODE_MAX
    assert all(bool(one.parts) == one.rendered for one in messages)


def test_the_rendered_output_of_all_nodes_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two bodies of 12 bytes are over 20 of them; what comes then is named, and not shown."""
    monkeypatch.setattr(planned, "SHOWN_BYTES_MAX", 20)
    one = rendering()
    assert [message.rendered for _ in range(2) for message in one.messages(ORDER)] == [True, True, False, False]


def test_a_plan_that_takes_too_long_is_refused() -> None:
    bombs = structs.replace(ORDER, parts={"text": "{% for x in (1..19999) %}{{ name }}{% endfor %}"})
    one = rendering(budget=CpuBudget(seconds_max=0.0))
    with pytest.raises(TriggerRefused, match="of a processor's time"):
        one.messages(bombs)
