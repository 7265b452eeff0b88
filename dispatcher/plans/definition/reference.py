"""The fields of a definition as JSON Schemas. A test compares them with the fields that the reader knows."""

from collections.abc import Mapping
from typing import Any

from dispatcher.engine.rules.life import ATTEMPTS_MAX, LANES
from dispatcher.plans.definition.definition import (
    CALL_SECONDS,
    CALL_SECONDS_MAX,
    LIST_TIMEOUT_SECONDS,
    TIMEOUT_SECONDS_MAX,
)
from dispatcher.plans.definition.nodes import ATTEMPTS, DELAY_MS_MAX, DIGEST_ITEMS, DIGEST_ITEMS_MAX, ON_FAILURE
from dispatcher.plans.definition.send_nodes import RECIPIENTS_MAX

Schema = dict[str, Any]


def _text(words: str, **more: object) -> Schema:
    return {"type": "string", "description": words, **more}


def _whole(words: str, low: int, high: int, default: int | None = None) -> Schema:
    number: Schema = {"type": "integer", "minimum": low, "maximum": high, "description": words}
    return number if default is None else number | {"default": default}


def _seconds(words: str, high: float) -> Schema:
    return {"type": "number", "exclusiveMinimum": 0, "maximum": high, "description": words}


def _mapping(words: str) -> Schema:
    return {"type": "object", "description": words}


def _object(words: str, fields: Mapping[str, Schema], *required: str) -> Schema:
    return {
        "type": "object",
        "description": words,
        "properties": dict(fields),
        "required": list(required),
        "additionalProperties": False,
    }


def _named(name: str) -> Schema:
    return {"$ref": f"#/components/schemas/{name}"}


def _several(name: str, words: str) -> Schema:
    return {"type": "array", "items": _named(name), "description": words}


_DURATION = "such as 2h30m, 90s, 3d or PT2H30M"
_LIQUID = "Liquid is rendered."
_DESCRIPTION = {"description": _text("A note for readers.", maxLength=2_000)}
_EVERY = _DESCRIPTION | {
    "on_failure": _text(
        "What follows when its attempts are used up: `retry` and `abort` end the run as failed (`abort` after one "
        "attempt), `continue` goes on without its result.",
        enum=list(ON_FAILURE),
        default="retry",
    ),
    "max_attempts": _whole("How often it is tried, the first time included.", 1, ATTEMPTS_MAX),
}
_RECIPIENTS: Schema = {
    "description": f"One recipient or several. {_LIQUID}",
    "oneOf": [
        {"type": "string"},
        {"type": "array", "items": {"type": "string"}, "minItems": 1, "maxItems": RECIPIENTS_MAX},
    ],
}
_CALL = {
    "function": _text("The name of a configured function, or the built-in `send-email` or `slack`."),
    "action": _text("What the function is asked to do."),
}
_LOCALE = {"locale": _text(f"The locale of a stored template, such as `de` or `pt-BR`. {_LIQUID}")}
_TOPIC = {"topic": _text("Who has unsubscribed from this topic gets nothing.")}
_VARIABLES = {"variables": _mapping(f"Values that the message reads beside the run's. {_LIQUID}")}

# The fields of each type of node, beside those of every node.
TYPES: Mapping[str, tuple[str, Mapping[str, Schema], tuple[str, ...]]] = {
    "function": (
        "Calls a function over HTTP; its answer is the node's result. `http` is the same.",
        _CALL | {"payload": {"description": f"JSON that the function is given. {_LIQUID}"}},
        ("function", "action"),
    ),
    "delay": (
        "Waits. Exactly one of `delayMs`, `duration` and `until` is given.",
        {
            "delayMs": _whole("Milliseconds.", 0, DELAY_MS_MAX),
            "duration": _text(f"How long: {_DURATION}."),
            "until": _text(f"Until when: a time in RFC 3339. {_LIQUID}"),
        },
        (),
    ),
    "branch": ("Follows the first of its edges whose condition holds.", {}, ()),
    "join": ("Waits until every branch that leads here has come or can come no more.", {}, ()),
    "wait": (
        "Waits for a signal.",
        {"event": _text("The signal's name."), "timeout": _text(f"How long at the most: {_DURATION}.")},
        ("event",),
    ),
    "digest": (
        "Collects the runs of a key while a window is open; the first of them goes on with all items.",
        {
            "key": _text(f"What is collected together. {_LIQUID}"),
            "window": _text(f"How long: {_DURATION}."),
            "max_items": _whole("How many items close the window early.", 1, DIGEST_ITEMS_MAX, DIGEST_ITEMS),
        },
        ("key", "window"),
    ),
}
SEND: tuple[str, Mapping[str, Schema], tuple[str, ...]] = (
    "Sends a message on the channel that the type names. Its content is a stored `template`, `parts`, or the parts as "
    "fields of the node.",
    {
        "to": _RECIPIENTS,
        "template": _text("The name of a stored template, or one variable that has it."),
        "parts": _mapping(f"The parts of the message, such as `subject`, `text` and `html` of an e-mail. {_LIQUID}"),
        **_VARIABLES,
        "options": _mapping(f"Options of the channel. {_LIQUID}"),
        **_LOCALE,
        **_TOPIC,
        "lane": _text("How urgent it is.", enum=list(LANES)),
        "expires_in": _text(f"It is not sent later than this after its node was reached: {_DURATION}."),
    },
    (),
)
SEND_EMAIL = _object(
    "The payload of the built-in function `send-email` (action `send`).",
    {
        "to_email": _RECIPIENTS,
        "to_name": _text(f"The recipient's name. {_LIQUID}"),
        "template_id": _text("The name of a stored template, or one variable that has it."),
        "subject": _text(f"The subject, where there is no template. {_LIQUID}"),
        "text": _text(f"The plain text. {_LIQUID}"),
        "html": _text(f"The HTML. {_LIQUID}"),
        **_VARIABLES,
        **_LOCALE,
        **_TOPIC,
    },
    "to_email",
)
SLACK = _object(
    "The payload of the built-in function `slack`.",
    {
        "channel": _text(f"The channel, as the webhooks of the configuration name it. {_LIQUID}"),
        "message": _text(f"The message; values in it are escaped. {_LIQUID}"),
    },
    "channel",
    "message",
)
EDGE = _object(
    "Leads from one node to another.",
    {
        "from": _text("The id of a node."),
        "to": _text("The id of a node."),
        "condition": _text("A Liquid condition, on the edges of a branch only; one edge may have none and is last."),
        **_DESCRIPTION,
    },
    "from",
    "to",
)
STEP = _object(
    "A step of a list: a call of a function.",
    {
        "name": _text("What the step is called."),
        **_CALL,
        "payload_template": {"description": f"JSON that the function is given. {_LIQUID}"},
        **_EVERY,
    },
    "name",
    "function",
    "action",
)
_BOTH = {
    "name": _text("The workflow's name."),
    **_DESCRIPTION,
    "required_fields": {
        "type": "array",
        "items": {"type": "string"},
        "description": "What a trigger must bring.",
    },
    "max_retries": _whole("How often a node is tried that does not say so itself.", 1, ATTEMPTS_MAX, ATTEMPTS),
    "timeout_seconds": _seconds(
        f"How long a run may take. A list has {LIST_TIMEOUT_SECONDS:g} by default, a graph has no limit.",
        TIMEOUT_SECONDS_MAX,
    ),
    "visibility_timeout": _seconds(
        f"How long a call of a function may take; {CALL_SECONDS:g} by default.", CALL_SECONDS_MAX
    ),
}
GRAPH = _object(
    "A workflow as a graph.",
    _BOTH
    | {
        "nodes": _several("WorkflowNode", "Its nodes."),
        "edges": _several("WorkflowEdge", "Its edges."),
        "entryNodeId": _text("The node where a run begins."),
    },
    "name",
    "nodes",
    "entryNodeId",
)
LIST = _object(
    "A workflow as a list of steps, one after the other.",
    _BOTH | {"steps": _several("WorkflowStep", "Its steps.")},
    "name",
    "steps",
)


def node(kind: str, words: str, fields: Mapping[str, Schema], required: tuple[str, ...]) -> Schema:
    """The schema of a node of a type; of a send its parts may be fields of it, too."""
    own = {"id": _text("What its result is called by."), "type": _text(kind)} | dict(fields) | _EVERY
    made = _object(words, own, "id", "type", *required)
    return made | {"additionalProperties": True} if kind == "a channel" else made


# Each with a name of its own, by which generated clients call it.
NODES: dict[str, Schema] = {
    **{f"Workflow{kind.title()}Node": node(f"`{kind}`", *each) for kind, each in TYPES.items()},
    "WorkflowSendNode": node("a channel", *SEND),
}
SCHEMAS: dict[str, Schema] = {
    "WorkflowDefinition": {
        "oneOf": [_named("WorkflowGraph"), _named("WorkflowList")],
        "description": "A workflow: a graph of nodes or a list of steps.",
    },
    "WorkflowGraph": GRAPH,
    "WorkflowList": LIST,
    **NODES,
    "WorkflowNode": {
        "anyOf": [_named(name) for name in NODES],
        "description": "A node of a workflow; its type says which fields it has.",
    },
    "WorkflowEdge": EDGE,
    "WorkflowStep": STEP,
    "SendEmailPayload": SEND_EMAIL,
    "SlackPayload": SLACK,
}
