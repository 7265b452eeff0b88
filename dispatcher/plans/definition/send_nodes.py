"""Sends: the nodes that put messages on a channel, and the built-in functions that are another way to write one."""

from collections.abc import Mapping, Sequence

from dispatcher.base.errors import quoted
from dispatcher.base.values.locales import canonical
from dispatcher.base.values.names import NAME, NAME_WORDS
from dispatcher.engine.rules.life import LANES
from dispatcher.engine.rules.suppression import TOPIC, TOPIC_WORDS
from dispatcher.liquid import parts as channel_parts
from dispatcher.plans.definition.fields import Fields, kind_of
from dispatcher.plans.definition.paths import inside
from dispatcher.plans.definition.variables_read import VariableRead, single_variable
from dispatcher.plans.plan import Send, Text
from dispatcher.plans.texts import has_liquid

RECIPIENTS_MAX = 1_000
# A social post goes to its channel.
WITHOUT_RECIPIENT = "social"
EMAIL_ACTION = "send"


def send(fields: Fields, step: int, channel: str) -> Send:
    """A node of a channel's type."""
    variables = fields.object("variables")
    written = channel_parts.of(channel)
    template, parts, reads = _content(fields, channel, written.takes if written else ("body",))
    lane = fields.one_of("lane", LANES)
    return Send(
        step=step,
        channel=channel,
        to=_recipients(fields, required=channel != WITHOUT_RECIPIENT),
        template=template,
        parts=parts,
        variables=variables,
        options=fields.object("options"),
        reads=_names(fields, reads, variables),
        locale=_locale(fields),
        topic=_topic(fields),
        lane=None if lane is None else LANES[lane],
        expires_seconds=fields.seconds("expires_in"),
    )


def send_email(payload: Fields, step: int) -> Send:
    """The function `send-email`: a message on the channel `email`, with a stored template or with parts of its own."""
    variables = payload.object("variables")
    template, parts, reads = _content(payload, "email", ("subject", "text", "html"), has_id=True)
    return Send(
        step=step,
        channel="email",
        to=_recipients(payload, "to_email", required=True),
        to_name=payload.liquid("to_name"),
        template=template,
        parts=parts,
        variables=variables,
        reads=_names(payload, reads, variables),
        locale=_locale(payload),
        topic=_topic(payload),
    )


def slack(payload: Fields, step: int) -> Send:
    """The function `slack`: a message to a channel of Slack's, which is one of our webhooks."""
    channel = payload.liquid("channel", required=True) or ""
    message = payload.text("message", required=True) or ""
    # As in HTML, nothing may leave out the escaping.
    payload.reads += payload.shared.reader.text(inside(payload.place, "message"), message, "html")
    return Send(step=step, channel="chat", to=(channel,), parts={"body": message}, escapes=True)


def _names(fields: Fields, reads: Sequence[VariableRead], variables: Mapping[str, object]) -> tuple[str, ...]:
    """The top-level names that parts read; those that the node does not provide are the trigger's to bring."""
    fields.reads += [one for one in reads if one.name not in variables]
    return tuple(sorted({one.name for one in reads}))


def _only(fields: Fields, *names: str) -> str | None:
    """The field that is given, of several that exclude each other."""
    given = [name for name in names if fields.has(name)]
    for name in given[1:]:
        fields.fault(name, f"is given beside {given[0]}: keep one of them")
    return given[0] if given else None


def _recipients(fields: Fields, key: str = "to", *, required: bool) -> tuple[Text, ...]:
    value = fields.get(key)
    if not isinstance(value, list):
        one = fields.liquid(key, required=required)
        return () if one is None else (one,)
    if not value:
        fields.fault(key, "has no recipients")
    if len(value) > RECIPIENTS_MAX:
        fields.fault(key, f"has {len(value)} recipients, over {RECIPIENTS_MAX}")
        return ()
    place = inside(fields.place, key)
    found: list[Text] = []
    for number, one in enumerate(value):
        if not isinstance(one, str) or not one.strip():
            words = "is empty" if isinstance(one, str) else f"expected a text, got {kind_of(one)}"
            fields.shared.faults.add(inside(place, number), words)
        else:
            fields.reads += fields.shared.reader.text(inside(place, number), one)
            found.append(one)
    return tuple(found)


Content = tuple[Text | None, Mapping[str, Text] | None, list[VariableRead]]


def _content(fields: Fields, channel: str, plain: Sequence[str], *, has_id: bool = False) -> Content:
    """The stored template, or the parts of the node with the variables that they read."""
    names = ("template_id",) if has_id else ("template", "parts")
    given = [name for name in plain if fields.has(name)]
    chosen = _only(fields, *names)
    for name in given if chosen else ():
        fields.fault(name, f"is given beside {chosen}: keep one of them")
    if chosen in ("template", "template_id"):
        return _template(fields, chosen), None, []
    if chosen is None and not given:
        fields.wrong(f"has nothing to send: give {names[0]}, or {', '.join([*names[1:], *plain])}")
        return None, None, []
    where = fields.inner("parts") if chosen else fields
    if where is None:
        return None, {}, []
    return None, *_parts(where, channel, list(where.rest()) if chosen else given)


def _template(fields: Fields, key: str) -> Text | None:
    """The name of a stored template, or the variable that has it."""
    name = fields.liquid(key)
    if name is None:
        return None
    if has_liquid(name):
        if single_variable(name) is None:
            fields.fault(key, "is a name, or exactly one variable that has it, such as {{ template }}")
    elif not NAME.fullmatch(name):
        fields.fault(key, f"{quoted(name)} is not the name of a template: {NAME_WORDS}")
    return name


def _parts(fields: Fields, channel: str, given: Sequence[str]) -> tuple[Mapping[str, Text], list[VariableRead]]:
    found: dict[str, Text] = {}
    reads: list[VariableRead] = []
    for part in given:
        if wrong := channel_parts.unknown(channel, part):
            known = channel_parts.of(channel)
            fields.fault(part, wrong + fields.shared.faults.near(part, known.takes if known else ()))
            continue
        value = fields.get(part)
        if not isinstance(value, str):
            fields.fault(part, f"expected a text, got {kind_of(value)}")
            continue
        found[part] = value
        reads += fields.shared.reader.text(inside(fields.place, part), value, part)
    for words in channel_parts.missing(channel, given):
        fields.wrong(f"needs {words}")
    return found, reads


def _locale(fields: Fields) -> Text | None:
    locale = fields.liquid("locale")
    if locale is None or has_liquid(locale):
        return locale
    found = canonical(locale)
    if found is None:
        fields.fault("locale", f"{quoted(locale)} is not a locale, such as de or pt-BR")
    return found


def _topic(fields: Fields) -> str | None:
    topic = fields.text("topic")
    if topic is not None and not TOPIC.match(topic):
        fields.fault("topic", f"expected {TOPIC_WORDS}")
    return topic
