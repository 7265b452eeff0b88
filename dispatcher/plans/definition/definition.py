"""Compiles a definition, a graph or a list of steps, into a plan.

Every fault is reported at once, with its place. Whatever the input, the answer is a plan or faults.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct

from dispatcher.base.errors import Fault, quoted
from dispatcher.base.values.names import NAME, NAME_WORDS
from dispatcher.engine.rules.life import ATTEMPTS_MAX
from dispatcher.plans.definition import graph, source
from dispatcher.plans.definition.fields import Fields, Known, Shared, kind_of
from dispatcher.plans.definition.nodes import ATTEMPTS, node, step_node
from dispatcher.plans.definition.paths import ROOT, Faults, inside
from dispatcher.plans.definition.provided import Provided
from dispatcher.plans.definition.variables_read import Reader, VariableRead, single_variable
from dispatcher.plans.plan import Branch, Edge, Node, Plan, RequiredVariable, Send, TemplateUse
from dispatcher.plans.texts import has_liquid
from dispatcher.plans.walk.missing_steps import step_of

__all__ = ["Known", "compile_definition", "read_definition"]

NODES_MAX = 1_000
EDGES_MAX = 5_000
ID_CHARACTERS_MAX = 100
REQUIRED_FIELDS_MAX = 200
FIELD_CHARACTERS_MAX = 200
# A month of work, without waiting; and one call, which holds a connection.
TIMEOUT_SECONDS_MAX = 31 * 86_400.0
CALL_SECONDS_MAX = 3_600.0
CALL_SECONDS = 60.0
LIST_TIMEOUT_SECONDS = 300.0

# A node's results are read by its id: Liquid has no dots in names.
ID = re.compile(rf"[A-Za-z0-9_][A-Za-z0-9_-]{{0,{ID_CHARACTERS_MAX - 1}}}")
ID_WORDS = f"1 to {ID_CHARACTERS_MAX} letters, digits, _ and -"
_NO_ID = re.compile(r"[^A-Za-z0-9_-]+")


class _Parsed(Struct):
    """The nodes and edges of a definition, as far as they are read."""

    nodes: dict[str, Node]
    # Where each node is written; also of those with faults.
    places: dict[str, str]
    reads: dict[str, list[VariableRead]]
    graph_edges: list[graph.GraphEdge]
    edges: dict[str, list[Edge]]
    entry: str | None = None


def compile_definition(given: object, known: Known) -> Plan | list[Fault]:
    """The plan that a definition becomes, or everything that is wrong with it.

    It is given as a text of JSON or YAML, or as the object that such a text has.
    """
    faults = Faults()
    value = _value(given, faults)
    if value is None:
        return faults.found
    plan = _plan(Fields(ROOT, value, Shared(known, faults, Reader(faults))))
    return plan if plan is not None and not faults.found else faults.found


def read_definition(text: str | bytes) -> Mapping[str, Any] | list[Fault]:
    """The object of a text in JSON or YAML, whether or not it is a workflow; or its faults."""
    faults = Faults()
    value = _value(text, faults)
    return value if value is not None and not faults.found else faults.found


def _value(given: object, faults: Faults) -> Mapping[str, Any] | None:
    """The object of a definition; None where it cannot be looked at any further."""
    read = source.read(given, faults) if isinstance(given, str | bytes) else source.ParsedText(given)
    if read.value is None and faults.found:
        return None
    if not isinstance(read.value, dict):
        faults.add(ROOT, f"expected an object with name, and nodes or steps, got {kind_of(read.value)}")
        return None
    _count(read.value, faults)
    is_json = not faults.found and source.check(read, faults)
    return read.value if is_json else None


def _count(given: Mapping[str, Any], faults: Faults) -> None:
    """Refuse lists that are too long to be read."""
    for key, most in (("nodes", NODES_MAX), ("steps", NODES_MAX), ("edges", EDGES_MAX)):
        several = given.get(key)
        if isinstance(several, list) and len(several) > most:
            faults.add(inside(ROOT, key), f"has {len(several)} {key}, over {most}: cut the workflow in two")


def _plan(fields: Fields) -> Plan | None:
    name = fields.text("name", required=True)
    if name is not None and not NAME.fullmatch(name):
        fields.fault("name", f"{quoted(name)} is not a name: {NAME_WORDS}")
    fields.describe()
    required = _required(fields)
    attempts = _attempts(fields)
    timeout = fields.number("timeout_seconds", TIMEOUT_SECONDS_MAX)
    call_seconds = fields.number("visibility_timeout", CALL_SECONDS_MAX)
    is_list = fields.has("steps")
    if is_list and fields.has("nodes"):
        fields.fault("nodes", "is given beside steps: a workflow is a graph of nodes or a list of steps")
    elif not is_list and not fields.has("nodes"):
        fields.wrong("has neither nodes, as a graph, nor steps, as a list")
    parsed = _list(fields, attempts) if is_list else _graph(fields, attempts)
    fields.done()
    faults = fields.shared.faults
    # A graph with faults may have no order.
    if faults.found and not is_list:
        return None
    provided = Provided(parsed.nodes, graph.Order(parsed.nodes, parsed.graph_edges), is_list=is_list)
    provided.check(parsed.reads, faults)
    if faults.found:
        return None
    return Plan(
        name=name or "",
        entry=parsed.entry or "",
        nodes=parsed.nodes,
        edges={start: tuple(several) for start, several in parsed.edges.items()},
        required_fields=required,
        reads=_reads(parsed, provided, fields.places()),
        templates=_templates(parsed, provided),
        merges_data=is_list,
        timeout_seconds=timeout or (LIST_TIMEOUT_SECONDS if is_list else None),
        call_seconds_max=call_seconds or CALL_SECONDS,
    )


def _attempts(fields: Fields) -> int:
    if fields.get("max_retries") == 0:
        fields.fault("max_retries", "counts every attempt, the first one too: 1 means no retry")
        return ATTEMPTS
    return fields.whole("max_retries", 1, ATTEMPTS_MAX) or ATTEMPTS


def _required(fields: Fields) -> tuple[str, ...]:
    value = fields.get("required_fields")
    if value is None:
        return ()
    if not isinstance(value, list) or len(value) > REQUIRED_FIELDS_MAX:
        got = f"{len(value)} of them" if isinstance(value, list) else kind_of(value)
        fields.fault("required_fields", f"expected a list of up to {REQUIRED_FIELDS_MAX} names, got {got}")
        return ()
    place, faults = inside(fields.place, "required_fields"), fields.shared.faults
    for number, one in enumerate(value):
        at = inside(place, number)
        if not isinstance(one, str):
            faults.add(at, f"expected a name, got {kind_of(one)}")
        elif not one.strip() or len(one) > FIELD_CHARACTERS_MAX or has_liquid(one):
            faults.add(at, f"expected a name of 1 to {FIELD_CHARACTERS_MAX} characters, without braces")
        elif one in value[:number]:
            faults.add(at, f"{quoted(one)} is named twice")
    return tuple(one for one in value if isinstance(one, str))


def _objects(fields: Fields, key: str, *, required: bool) -> list[Fields]:
    """The objects of a list; other items are faults."""
    value = fields.get(key)
    if value is None and not required:
        return []
    if not isinstance(value, list) or (required and not value):
        got = "an empty one" if isinstance(value, list) else kind_of(value)
        fields.fault(key, f"expected a list of objects, got {got}")
        return []
    place = inside(fields.place, key)
    found: list[Fields] = []
    for number, one in enumerate(value):
        if isinstance(one, dict):
            found.append(Fields(inside(place, number), one, fields.shared))
        else:
            fields.shared.faults.add(inside(place, number), f"expected an object, got {kind_of(one)}")
    return found


def _list(fields: Fields, attempts: int) -> _Parsed:
    """A list of steps, as a graph without branches."""
    parsed = _Parsed({}, {}, {}, [], {})
    before: str | None = None
    for step, one in enumerate(_objects(fields, "steps", required=True)):
        name = _unique(one.text("name", ID_CHARACTERS_MAX, required=True), step, parsed.places)
        built = step_node(one, step, attempts)
        parsed.places[name] = one.place
        parsed.reads[name] = one.reads
        if built is not None:
            parsed.nodes[name] = built
        if before is not None:
            parsed.graph_edges.append(graph.GraphEdge(before, name, one.place))
            parsed.edges[before] = [Edge(name)]
        before = name
    parsed.entry = next(iter(parsed.places), None)
    return parsed


def _unique(name: str | None, step: int, taken: Mapping[str, object]) -> str:
    """A step's name as an id that no other step has."""
    plain = _NO_ID.sub("_", name or "").strip("_-")
    if not plain or step_of(plain) is not None:
        plain = f"step_{step}"
    found, number = plain, 2
    while found in taken:
        found, number = f"{plain}_{number}", number + 1
    return found


def _graph(fields: Fields, attempts: int) -> _Parsed:
    parsed = _Parsed({}, {}, {}, [], {})
    for step, one in enumerate(_objects(fields, "nodes", required=fields.has("nodes"))):
        name = _id(one, parsed)
        built = node(one, step, attempts)
        if name is None:
            continue
        parsed.places[name] = one.place
        parsed.reads[name] = one.reads
        if built is not None:
            parsed.nodes[name] = built
    for one in _objects(fields, "edges", required=False):
        _edge(one, parsed)
    _check_choices(fields, parsed)
    parsed.entry = fields.text("entryNodeId", required=fields.has("nodes"))
    entry = parsed.entry
    if entry is not None and entry not in parsed.places:
        fields.fault("entryNodeId", _no_node(fields, entry, parsed))
        entry = None
    graph.check(entry, parsed.places, parsed.graph_edges, fields.shared.faults)
    return parsed


def _id(fields: Fields, parsed: _Parsed) -> str | None:
    name = fields.text("id", required=True)
    if name is None:
        return None
    if not ID.fullmatch(name):
        fields.fault("id", f"{quoted(name)} is not an id: {ID_WORDS}")
    elif step_of(name) is not None:
        fields.fault("id", f"{name} is where the result of another node goes")
    elif name in parsed.places:
        fields.fault("id", f"{name} is the id of {parsed.places[name]} too")
        return None
    return name


def _no_node(fields: Fields, name: str, parsed: _Parsed) -> str:
    return f"there is no node {quoted(name)}{fields.shared.faults.near(name, parsed.places)}"


def _edge(fields: Fields, parsed: _Parsed) -> None:
    ends = [fields.text(key, required=True) for key in ("from", "to")]
    for key, name in zip(("from", "to"), ends, strict=True):
        if name is not None and name not in parsed.places:
            fields.fault(key, _no_node(fields, name, parsed))
    condition = fields.text("condition")
    reads = [] if condition is None else fields.shared.reader.condition(inside(fields.place, "condition"), condition)
    fields.describe()
    fields.done()
    start, end = ends
    if start is None or end is None or start not in parsed.places or end not in parsed.places:
        return
    parsed.reads[start] += reads
    parsed.graph_edges.append(graph.GraphEdge(start, end, fields.place))
    parsed.edges.setdefault(start, []).append(Edge(end, condition))


def _check_choices(fields: Fields, parsed: _Parsed) -> None:
    """Refuse conditions on edges of other nodes, and branches without a choice."""
    ways: dict[str, list[graph.GraphEdge]] = {}
    for way in parsed.graph_edges:
        ways.setdefault(way.start, []).append(way)
    for name, built in parsed.nodes.items():
        leaving = ways.get(name, [])
        edges = parsed.edges.get(name, [])
        if isinstance(built, Branch):
            _check_branch(fields, parsed.places[name], leaving, edges)
            continue
        seen: set[str] = set()
        for way, edge in zip(leaving, edges, strict=True):
            if edge.condition is not None:
                words = f"only the edges of a branch have conditions: put a node of type branch behind {name}"
                fields.shared.faults.add(inside(way.place, "condition"), words)
            if edge.to in seen:
                fields.shared.faults.add(way.place, f"leads from {name} to {edge.to} once more: take it out")
            seen.add(edge.to)


def _check_branch(fields: Fields, place: str, ways: Sequence[graph.GraphEdge], edges: Sequence[Edge]) -> None:
    faults = fields.shared.faults
    if not edges:
        faults.add(place, "is a branch with nothing to choose from: lead edges with conditions out of it")
    for way in [way for way, edge in zip(ways, edges, strict=True) if edge.condition is None][:-1]:
        faults.add(way.place, f"is a second edge of {way.start} without a condition: one is taken otherwise")
    if edges and edges[-1].condition is not None:
        for way, edge in zip(ways, edges, strict=True):
            if edge.condition is None:
                words = f"has no condition, so that no edge behind it is taken: put it last of those of {way.start}"
                faults.add(way.place, words)


def _reads(parsed: _Parsed, provided: Provided, places: Mapping[str, int]) -> tuple[RequiredVariable, ...]:
    """The required variables of a trigger, in order of appearance."""
    needed = [one for name, reads in parsed.reads.items() for one in reads if not provided.has(name, one.name)]
    found: dict[tuple[str, ...], RequiredVariable] = {}
    for one in sorted(needed, key=lambda one: places.get(one.place, 0)):
        found.setdefault(one.read.at, one.read)
    return tuple(found.values())


def _templates(parsed: _Parsed, provided: Provided) -> tuple[TemplateUse, ...]:
    """The stored templates that are known before the run: not those that a step will name."""
    found: list[TemplateUse] = []
    for name, built in parsed.nodes.items():
        if not isinstance(built, Send) or built.template is None:
            continue
        own = tuple(sorted(built.variables))
        number = provided.steps_before(name)
        steps = single_variable(built.template)
        if steps is None:
            found.append(TemplateUse(name, built.channel, steps=number, name=built.template, provides=own))
            continue
        at = tuple(map(str, steps))
        variable = next(
            (one.read for one in parsed.reads[name] if one.read.at == at), RequiredVariable(".".join(at), at)
        )
        if not provided.has(name, at[0]):
            found.append(TemplateUse(name, built.channel, steps=number, variable=variable, provides=own))
    return tuple(found)
