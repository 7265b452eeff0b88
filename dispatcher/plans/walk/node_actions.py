"""The actions of nodes: their texts, prepared, and the deliveries or digest requests that they give in a context."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from dispatcher.base.errors import TemplateError
from dispatcher.plans.plan import Call, Digest, Send
from dispatcher.plans.texts import Bounds, Context, Texts, Value, as_json
from dispatcher.plans.walk.missing_steps import fill_missing
from dispatcher.plans.walk.run import DigestRequest, Order

CALL_CHANNEL: Final = "http"
# A body that is made when it is ordered, and is the same whenever it is tried again.
RENDERED_PARTS: Final = {"body": "{{ body }}"}
# Names that are copied have them; others that cannot be seen are left out of a name.
_JOINERS: Final = frozenset("\u200c\u200d")
NAME_CHARACTERS_MAX: Final = 320


class SendAction:
    """A send whose texts are prepared."""

    def __init__(self, name: str, node: Send, texts: Texts, bounds: Bounds) -> None:
        parts = node.parts or {}
        self._name = name
        self._node = node
        self._bounds = bounds
        self._to = tuple(texts.text("to", one) for one in node.to)
        self._to_name = texts.text("to_name", node.to_name) if node.to_name is not None else None
        self._body = texts.slack("body", parts["body"]) if node.escapes else None
        self._template = texts.text("template", node.template) if node.template is not None else None
        self._locale = texts.text("locale", node.locale) if node.locale is not None else None
        self._options = texts.json("options", node.options)
        self._own: Value | None = texts.json("variables", node.variables) if node.variables else None
        self._paths = texts.step_paths(parts.values())
        self._names = tuple(dict.fromkeys([*node.reads, *(str(path[0]) for path in self._paths)]))

    def order(self, context: Context) -> Order:
        """The deliveries of the node; raises a TemplateError where a text cannot be rendered or none is left."""
        node = self._node
        recipients = () if node.contact_kind is not None else self._recipients(context)
        options = self._options(context)
        return Order(
            node=self._name,
            channel=node.channel,
            recipients=recipients,
            template=_template_name(self._template, context),
            parts=node.parts if self._body is None else RENDERED_PARTS,
            variables=self._variables(context),
            options=options,
            attempts=node.attempts,
            locale=_optional_text("locale", self._locale, context),
            topic=node.topic,
            lane=node.lane,
            expires_seconds=node.expires_seconds,
        )

    def _variables(self, context: Context) -> Context:
        if self._body is not None:
            return {"body": self._body(context)}
        values = {**context, **self._own(context)} if self._own is not None else context
        if self._node.parts is None:
            return values
        read = {name: values[name] for name in self._names if name in values}
        if self._node.contact_kind is not None and "contact" in read:
            read["contact"] = contact_fields(read["contact"], self._node.contact_fields)
        return fill_missing(read, self._paths) if self._paths else read

    def _recipients(self, context: Context) -> tuple[str, ...]:
        if not self._to:
            # A post has no recipient: its channel stands in the place of one.
            return (self._node.channel,)
        found: dict[str, None] = {}
        name = "" if self._to_name is None else _phrase(_plain("to_name", self._to_name(context)))
        for one in self._to:
            value = one(context)
            for recipient in value if isinstance(value, list) else (value,):
                text = _plain("to", recipient).strip()
                if text:
                    # One that has a name of its own keeps it.
                    found[f"{name} <{text}>" if name and not text.endswith(">") else text] = None
            if len(found) > self._bounds.recipients_max:
                raise TemplateError("to", f"more than {self._bounds.recipients_max} recipients")
        if not found:
            raise TemplateError("to", "no recipient")
        return tuple(found)


def contact_fields(contact: Mapping[str, Any], names: Sequence[str]) -> Mapping[str, Any]:
    """The fields of a contact that are read; all of them where a text reads it as a whole."""
    return contact if "" in names else {name: contact[name] for name in names if name in contact}


def call_action(name: str, node: Call, texts: Texts, seconds_max: float) -> Callable[[Context], Order]:
    """The function that makes the delivery of a call; it raises a TemplateError where a text cannot be rendered."""
    payload = texts.json("payload", node.payload)
    options, recipients = {"timeout_seconds": seconds_max}, (node.function,)

    def order(context: Context) -> Order:
        body = as_json("payload", {"action": node.action, "payload": payload(context)}).decode()
        return Order(
            node=name,
            channel=CALL_CHANNEL,
            recipients=recipients,
            template=None,
            parts=RENDERED_PARTS,
            variables={"body": body},
            options=options,
            attempts=node.attempts,
        )

    return order


def digest_action(name: str, node: Digest, texts: Texts, bounds: Bounds) -> Callable[[Context, Any], DigestRequest]:
    """The function that makes the request of a digest for an item."""
    key_text = texts.text("key", node.key)

    def request(context: Context, item: Any) -> DigestRequest:  # noqa: ANN401 - JSON
        key = _plain("key", key_text(context))
        if len(key) > bounds.key_characters_max:
            raise TemplateError("key", f"longer than {bounds.key_characters_max} characters")
        return DigestRequest(
            node=name, key=key, window_seconds=node.window_seconds, items_max=node.items_max, item=item
        )

    return request


def _plain(name: str, value: Any) -> str:  # noqa: ANN401 - JSON
    """A text, or a number as one; null is an empty one."""
    if type(value) is str:
        return value
    if value is None:
        return ""
    if isinstance(value, str | int | float) and not isinstance(value, bool):
        return str(value)
    raise TemplateError(name, f"a text is needed, not {_kind(value)}")


def _phrase(name: str) -> str:
    """A name as it stands before an address, in quotes; empty where nothing of it can be seen."""
    seen = " ".join(name.split())
    plain = "".join(c for c in seen if c.isprintable() or c in _JOINERS)[:NAME_CHARACTERS_MAX].strip()
    return '"' + plain.replace("\\", "\\\\").replace('"', '\\"') + '"' if plain.strip("".join(_JOINERS)) else ""


def _kind(value: Any) -> str:  # noqa: ANN401 - JSON
    if isinstance(value, bool):
        return "true or false"
    return "a list" if isinstance(value, list) else "an object"


def _template_name(template: Value | None, context: Context) -> str | None:
    if template is None:
        return None
    name = _plain("template", template(context)).strip()
    if not name:
        raise TemplateError("template", "an empty name")
    return name


def _optional_text(name: str, value: Value | None, context: Context) -> str | None:
    return None if value is None else _plain(name, value(context)).strip() or None
