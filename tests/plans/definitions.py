"""Definitions as Hypothesis makes them: good ones of both forms, and the same with something done to them."""

import copy
from collections.abc import Sequence
from typing import Any

from hypothesis import strategies as st

from dispatcher.plans.definition.definition import Known

CHANNELS = ("email", "sms", "whatsapp", "push", "voice", "social", "chat", "pager")
FUNCTIONS = ("charge", "enrich")
KNOWN = Known([*CHANNELS, "http"], FUNCTIONS)
Definition = dict[str, Any]

ids = st.from_regex(r"\A[a-z_][a-z0-9_-]{0,6}\Z")
paths = st.sampled_from(["name", "user.email", "order.items[0].name", "rows.size", 'odd["a b"]', "step_own"])
variables = paths.map(lambda path: f"{{{{ {path} }}}}")
texts = st.one_of(
    st.sampled_from(["plain", "a | b", "ü {", "{% for x in rows %}{{ x.name }}{% endfor %}", "{{ name | upcase }}!"]),
    variables,
)
durations = st.sampled_from(["PT2H30M", "P3D", "2h30m", "3d", "45s", "PT0.5S", "1w"])
conditions = st.sampled_from(["total > 100", "user.name contains 'x'", "a == blank or b", "rows.size != 0"])
scalars = st.one_of(st.none(), st.booleans(), st.integers(-(2**53), 2**53), st.floats(-1e9, 1e9), texts)
payloads = st.recursive(
    scalars,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.sampled_from(["a", "b c", "ü"]), inner, max_size=3)
    ),
    max_leaves=5,
)
objects = st.dictionaries(st.sampled_from(["a", "b", "name"]), payloads, max_size=3)
templates = st.one_of(st.sampled_from(["welcome", "mail/welcome.v2"]), variables)
recipients = st.one_of(variables, st.lists(st.one_of(variables, st.just("ann@example.org")), min_size=1, max_size=3))

_contents = {
    "email": st.one_of(
        st.fixed_dictionaries({"template": templates}),
        st.fixed_dictionaries({"subject": texts, "html": texts}, optional={"text": texts}),
        st.fixed_dictionaries({"parts": st.fixed_dictionaries({"subject": texts, "text": texts})}),
    ),
    "push": st.fixed_dictionaries({"body": texts}, optional={"title": texts}),
}
_content = st.one_of(
    st.fixed_dictionaries({"template": templates}),
    st.fixed_dictionaries({"body": texts}),
    st.fixed_dictionaries({"parts": st.fixed_dictionaries({"body": texts})}),
)


@st.composite
def sends(draw: st.DrawFn) -> Definition:
    """A message on one of the channels."""
    channel = draw(st.sampled_from(CHANNELS))
    made: Definition = {"type": channel, **draw(_contents.get(channel, _content))}
    if channel != "social" or draw(st.booleans()):
        made["to"] = draw(recipients)
    return made | draw(
        st.fixed_dictionaries(
            {},
            optional={
                "variables": objects,
                "options": objects,
                "locale": st.sampled_from(["de", "pt-BR", "{{ user.locale }}"]),
                "topic": st.just("news"),
                "lane": st.sampled_from(["transactional", "normal", "bulk"]),
                "expires_in": durations,
            },
        )
    )


_mail_options: st.SearchStrategy[Definition] = st.fixed_dictionaries(
    {}, optional={"to_name": texts, "variables": objects, "locale": st.just("de")}
)


@st.composite
def calls(draw: st.DrawFn, payload: str = "payload") -> Definition:
    """A function call; the built-in ones have payloads of their own."""
    match draw(st.sampled_from(["charge", "enrich", "send-email", "slack"])):
        case "send-email":
            inner: Definition = {"to_email": draw(recipients), "template_id": draw(templates), **draw(_mail_options)}
            return {"function": "send-email", "action": "send", payload: inner}
        case "slack":
            inner = {"channel": "team", "message": draw(texts)}
            return {"function": "slack", "action": draw(st.sampled_from(["faq_inquiry", "x"])), payload: inner}
        case function:
            return {"function": function, "action": "run"} | draw(
                st.fixed_dictionaries({}, optional={payload: payloads})
            )


delays = st.one_of(
    st.fixed_dictionaries({"delayMs": st.integers(0, 10_000)}),
    st.fixed_dictionaries({"duration": durations}),
    st.fixed_dictionaries({"until": st.sampled_from(["2030-01-31T12:00:00Z", "{{ order.until }}"])}),
).map(lambda made: {"type": "delay", **made})
waits = st.fixed_dictionaries(
    {"type": st.just("wait"), "event": st.sampled_from(["paid", "opened"])}, optional={"timeout": durations}
)
digests = st.fixed_dictionaries(
    {"type": st.just("digest"), "key": texts, "window": durations}, optional={"max_items": st.integers(1, 10_000)}
)
common = st.fixed_dictionaries(
    {},
    optional={
        "on_failure": st.sampled_from(["retry", "continue", "abort"]),
        "max_attempts": st.integers(1, 100),
        "description": st.just("says why"),
    },
)
header = st.fixed_dictionaries(
    {"name": st.sampled_from(["welcome", "order/placed.v2"])},
    optional={
        "required_fields": st.just(["name", "order"]),
        "max_retries": st.integers(1, 5),
        "timeout_seconds": st.integers(1, 3_600),
        "visibility_timeout": st.integers(1, 600),
        "description": st.just("what it is for"),
    },
)


@st.composite
def _nodes(draw: st.DrawFn, name: str, may_branch: bool) -> Definition:
    kinds = [sends(), calls().map(lambda made: {"type": "http", **made}), delays, waits, digests]
    kinds += [st.just({"type": "join"})] + ([st.just({"type": "branch"})] if may_branch else [])
    return {"id": name, **draw(st.one_of(kinds)), **draw(common)}


@st.composite
def graphs(draw: st.DrawFn, nodes_max: int = 8) -> Definition:
    """A good definition of the graph form: every node is reached, and edges lead forward only."""
    names = draw(st.lists(ids, min_size=1, max_size=nodes_max, unique=True))
    last = len(names) - 1
    starts = {end: draw(st.integers(0, end - 1)) for end in range(1, len(names))}
    ways = {(start, end) for end, start in starts.items()}
    for _ in range(draw(st.integers(0, 4)) if last else 0):
        start = draw(st.integers(0, last - 1))
        ways.add((start, draw(st.integers(start + 1, last))))
    leaving = {start for start, _ in ways}
    nodes = [draw(_nodes(name, number in leaving)) for number, name in enumerate(names)]
    edges = _edges(draw, names, nodes, draw(st.permutations(sorted(ways))))
    made: Definition = {**draw(header), "entryNodeId": names[0], "nodes": draw(st.permutations(nodes)), "edges": edges}
    if not edges and draw(st.booleans()):
        del made["edges"]
    return made


def _edges(
    draw: st.DrawFn, names: Sequence[str], nodes: Sequence[Definition], ways: Sequence[tuple[int, int]]
) -> list[Definition]:
    """Edges; those of a branch have conditions, all but perhaps the last one."""
    left = {start: sum(one == start for one, _ in ways) for start, _ in ways}
    edges: list[Definition] = []
    for start, end in ways:
        left[start] -= 1
        edge = {"from": names[start], "to": names[end]}
        if nodes[start]["type"] == "branch" and (left[start] or draw(st.booleans())):
            edge["condition"] = draw(conditions)
        edges.append(edge)
    return edges


@st.composite
def _steps(draw: st.DrawFn) -> Definition:
    name = draw(st.sampled_from(["mail", "Tell the team", "mail", "step_1_result", "ü"]))
    return {"name": name, **draw(calls("payload_template")), **draw(common)}


@st.composite
def lists(draw: st.DrawFn) -> Definition:
    """A good definition of the list form."""
    return {**draw(header), "steps": draw(st.lists(_steps(), min_size=1, max_size=5))}


definitions = st.one_of(graphs(), lists())

# What people, other programs and enemies put where something else belongs.
_STRANGE: tuple[Any, ...] = (
    None,
    True,
    0,
    -1,
    1.5,
    2**70,
    10**5_000,
    float("nan"),
    float("inf"),
    "",
    " ",
    "x" * 3_000,
    "{{",
    "{{ a | nope }}",
    "{% if %}",
    "{% unknown %}",
    "{{ a }}{{ b }}",
    "a\0b",
    "\ud800",
    "P1M",
    "5 days",
    "step_1_result",
    "|" * 6_000,
    [],
    {},
    [[]],
    [None],
    {"a": {"b": {"c": "d"}}},
    {1: 2},
    {"\ud800": 1, "a\0": 2},
    b"bytes",
    {1, 2},
    object(),
)


def _holders(value: object) -> list[Any]:
    """Every object and list inside of a value, itself included."""
    found: list[Any] = []
    waiting = [value]
    while waiting:
        one = waiting.pop()
        if isinstance(one, dict | list):
            found.append(one)
            waiting.extend(one.values() if isinstance(one, dict) else one)
    return found


@st.composite
def spoilt(draw: st.DrawFn) -> Definition:
    """A good definition to which a few things were done."""
    made: Definition = copy.deepcopy(draw(definitions))
    for _ in range(draw(st.integers(1, 3))):
        holder = draw(st.sampled_from(_holders(made)))
        strange = copy.deepcopy(draw(st.sampled_from(_STRANGE)))
        if isinstance(holder, dict):
            keys = list(holder)
            match draw(st.sampled_from(["drop", "exchange", "add", "rename"])):
                case "add":
                    holder[draw(st.sampled_from(["type", "to", "id", "durtion", "from", "steps", "nodes"]))] = strange
                case "drop" if keys:
                    del holder[draw(st.sampled_from(keys))]
                case "rename" if keys:
                    key = draw(st.sampled_from(keys))
                    holder[f"{key}s"] = holder.pop(key)
                case _ if keys:
                    holder[draw(st.sampled_from(keys))] = strange
                case _:
                    pass
        else:
            holder.insert(draw(st.integers(0, len(holder))), draw(st.sampled_from([strange, *holder])))
    return made
