"""Nodes: each type's fields, as what the walk needs of them."""

from collections.abc import Callable

from msgspec import structs

from dispatcher.base.errors import quoted
from dispatcher.base.values.durations import MOMENT_WORDS, moment
from dispatcher.engine.rules.life import ATTEMPTS_MAX
from dispatcher.plans.definition import send_nodes
from dispatcher.plans.definition.fields import Fields
from dispatcher.plans.plan import (
    BUILT_IN,
    EMAIL_FUNCTION,
    SLACK_FUNCTION,
    Branch,
    Call,
    Delay,
    Digest,
    Join,
    Node,
    Wait,
)
from dispatcher.plans.texts import has_liquid

ACTION_CHARACTERS_MAX = 200
EVENT_CHARACTERS_MAX = 200
DELAY_MS_MAX = 3_660 * 86_400_000
DIGEST_ITEMS_MAX = 10_000
DIGEST_ITEMS = 1_000
ATTEMPTS = 3
ON_FAILURE = ("retry", "continue", "abort")
# The channel of calls; no node has it as its type.
CALLS = "http"


def node(fields: Fields, step: int, attempts: int) -> Node | None:
    """The node that an object of the graph form describes; None where its type is unknown."""
    made = _typed(fields, step)
    return None if made is None else _finish(fields, made, attempts)


def step_node(fields: Fields, step: int, attempts: int) -> Node | None:
    """The node that a step of the list form describes."""
    made = _call(fields, step, "payload_template")
    return _finish(fields, made, attempts)


def _finish(fields: Fields, made: Node, attempts: int) -> Node:
    """Read the fields that all nodes have, and refuse unknown ones."""
    on_failure = fields.one_of("on_failure", ON_FAILURE) or "retry"
    own = fields.whole("max_attempts", 1, ATTEMPTS_MAX)
    fields.describe()
    fields.done()
    default = attempts if on_failure == "retry" else 1
    return structs.replace(made, on_failure=on_failure, attempts=own or default)


def _typed(fields: Fields, step: int) -> Node | None:
    kind = fields.text("type", required=True)
    if kind is None:
        return None
    make = _TYPES.get(kind)
    if make is not None:
        return make(fields, step)
    channels = sorted(set(fields.shared.known.channels) - {CALLS})
    if kind in channels:
        return send_nodes.send(fields, step, kind)
    known = [*channels, *_TYPES]
    hint = fields.shared.faults.near(_OTHERWISE.get(kind, kind), known) or f"; known are {', '.join(known)}"
    fields.fault("type", f"there is no type or channel {quoted(kind)}{hint}")
    return None


def _call(fields: Fields, step: int, payload: str = "payload") -> Node:
    """A function call, or the send that a built-in function is."""
    function = fields.plain("function", ACTION_CHARACTERS_MAX, required=True)
    action = fields.plain("action", ACTION_CHARACTERS_MAX, required=True)
    known = fields.shared.known.functions
    # A configured function of such a name wins.
    if function is not None and function in BUILT_IN and function not in known:
        return _built_in(fields, step, function, action, payload)
    if function is not None and function not in known:
        names = sorted({*known, *BUILT_IN})
        hint = fields.shared.faults.near(function, names) or f"; known are {', '.join(names)}"
        fields.fault("function", f"there is no function {quoted(function)}{hint}")
    given = fields.json(payload)
    return Call(
        step=step,
        function=function or "",
        action=action or "",
        payload={} if given is None else given,
    )


def _built_in(fields: Fields, step: int, function: str, action: str | None, payload: str) -> Node:
    channel = BUILT_IN[function]
    if channel not in fields.shared.known.channels:
        fields.fault("function", f"{function} sends on the channel {channel}, which is not configured")
    if function == EMAIL_FUNCTION and action not in (None, send_nodes.EMAIL_ACTION):
        fields.fault("action", f"{function} knows the action {send_nodes.EMAIL_ACTION}, not {quoted(action or '')}")
    inner = fields.inner(payload)
    if inner is None:
        return Join(step=step)  # it has a fault, and nothing is made of it
    made = send_nodes.slack(inner, step) if function == SLACK_FUNCTION else send_nodes.send_email(inner, step)
    inner.done()
    return made


def _delay(fields: Fields, step: int) -> Delay:
    given = [key for key in ("delayMs", "duration", "until") if fields.has(key)]
    for key in given[1:]:
        fields.fault(key, f"is given beside {given[0]}: keep one of them")
    if not given:
        fields.wrong("has no delay: give delayMs or duration, or until")
    milliseconds = fields.whole("delayMs", 0, DELAY_MS_MAX)
    seconds = fields.seconds("duration", may_be_zero=True)
    until = fields.liquid("until")
    if until is not None and not has_liquid(until) and moment(until) is None:
        fields.fault("until", f"{quoted(until)} is not a time: expected {MOMENT_WORDS}")
    return Delay(step=step, seconds=seconds if milliseconds is None else milliseconds / 1000, until=until)


def _branch(fields: Fields, step: int) -> Branch:
    if fields.has("condition"):
        fields.fault("condition", "stands on the edges of a branch: one on each")
    return Branch(step=step)


def _wait(fields: Fields, step: int) -> Wait:
    event = fields.plain("event", EVENT_CHARACTERS_MAX, required=True)
    return Wait(step=step, event=event or "", timeout_seconds=fields.seconds("timeout"))


def _digest(fields: Fields, step: int) -> Digest:
    return Digest(
        step=step,
        key=fields.liquid("key", required=True) or "",
        window_seconds=fields.seconds("window", required=True) or 0.0,
        items_max=fields.whole("max_items", 1, DIGEST_ITEMS_MAX) or DIGEST_ITEMS,
    )


_TYPES: dict[str, Callable[[Fields, int], Node]] = {
    "http": _call,
    "function": _call,
    "delay": _delay,
    "branch": _branch,
    "join": lambda _fields, step: Join(step=step),
    "wait": _wait,
    "digest": _digest,
}
# What other products call these types.
_OTHERWISE = {"wait_for_event": "wait", "wait-for-event": "wait", "condition": "branch", "webhook": "http"}
