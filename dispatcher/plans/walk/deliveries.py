"""What a node orders: its texts made ready, and the deliveries, or the digest, that they come to in a context."""

from typing import Any, Final

from dispatcher.base.errors import TemplateError
from dispatcher.plans.plan import Call, Digest, Send
from dispatcher.plans.texts import Bounds, Context, Texts, Value, as_json
from dispatcher.plans.walk.missing_steps import filled
from dispatcher.plans.walk.run import Order, Wish

CALL_CHANNEL: Final = "http"
# A body that is made when it is ordered, and is the same whenever it is tried again.
MADE_PARTS: Final = {"body": "{{ body }}"}
# Names that are copied have them; others that cannot be seen are left out of a name.
_JOINERS: Final = frozenset("\u200c\u200d")
NAME_CHARACTERS_MAX: Final = 320


class Sends:
    """A send, ready to be ordered."""

    __slots__ = (
        *("_body", "_bounds", "_locale", "_name", "_names", "_node", "_options", "_own", "_paths", "_place"),
        *("_template", "_to"),
    )

    def __init__(self, place: str, node: Send, texts: Texts, bounds: Bounds) -> None:
        self._place = place
        self._node = node
        self._bounds = bounds
        self._to = tuple(texts.text("to", one) for one in node.to)
        self._name = texts.text("to_name", node.to_name) if node.to_name is not None else None
        self._body = texts.slack("body", (node.parts or {})["body"]) if node.escapes else None
        self._template = texts.text("template", node.template) if node.template is not None else None
        self._locale = texts.text("locale", node.locale) if node.locale is not None else None
        self._options = texts.json("options", node.options)
        self._own: Value | None = texts.json("variables", node.variables) if node.variables else None
        self._paths = texts.step_paths((node.parts or {}).values())
        self._names = tuple(dict.fromkeys([*node.reads, *(str(path[0]) for path in self._paths)]))

    def order(self, context: Context) -> Order:
        """The deliveries; raises where a text cannot be rendered or there is nobody to send to."""
        node = self._node
        recipients = self._recipients(context)
        options = self._options.of(context)
        return Order(
            node=self._place,
            channel=node.channel,
            recipients=recipients,
            template=_name(self._template, context),
            parts=node.parts if self._body is None else MADE_PARTS,
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
            return {"body": self._body.of(context)}
        values = {**context, **self._own.of(context)} if self._own is not None else context
        if self._node.parts is None:
            return values
        read = {name: values[name] for name in self._names if name in values}
        return filled(read, self._paths) if self._paths else read

    def _recipients(self, context: Context) -> tuple[str, ...]:
        if not self._to:
            # A post has no recipient: its channel stands in the place of one.
            return (self._node.channel,)
        found: dict[str, None] = {}
        name = "" if self._name is None else _phrase(_plain("to_name", self._name.of(context)))
        for one in self._to:
            value = one.of(context)
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


class Calls:
    """A function call, ready to be ordered."""

    __slots__ = ("_node", "_options", "_payload", "_place", "_recipients")

    def __init__(self, place: str, node: Call, texts: Texts, seconds_max: float) -> None:
        self._place = place
        self._node = node
        self._payload = texts.json("payload", node.payload)
        self._options = {"timeout_seconds": seconds_max}
        self._recipients = (node.function,)

    def order(self, context: Context) -> Order:
        """The delivery; raises where a text cannot be rendered."""
        node = self._node
        body = as_json("payload", {"action": node.action, "payload": self._payload.of(context)}).decode()
        return Order(
            node=self._place,
            channel=CALL_CHANNEL,
            recipients=self._recipients,
            template=None,
            parts=MADE_PARTS,
            variables={"body": body},
            options=self._options,
            attempts=node.attempts,
        )


class Digests:
    """A digest, ready to be wished for."""

    __slots__ = ("_bounds", "_key", "_node", "_place")

    def __init__(self, place: str, node: Digest, texts: Texts, bounds: Bounds) -> None:
        self._place = place
        self._node = node
        self._key = texts.text("key", node.key)
        self._bounds = bounds

    def wish(self, context: Context, item: Any) -> Wish:  # noqa: ANN401 - JSON
        """What the database is to be asked."""
        key = _plain("key", self._key.of(context))
        if len(key) > self._bounds.key_characters_max:
            raise TemplateError("key", f"longer than {self._bounds.key_characters_max} characters")
        node = self._node
        return Wish(node=self._place, key=key, window_seconds=node.window_seconds, items_max=node.items_max, item=item)


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


def _name(template: Value | None, context: Context) -> str | None:
    if template is None:
        return None
    name = _plain("template", template.of(context)).strip()
    if not name:
        raise TemplateError("template", "an empty name")
    return name


def _optional_text(name: str, value: Value | None, context: Context) -> str | None:
    return None if value is None else _plain(name, value.of(context)).strip() or None
