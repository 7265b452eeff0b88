"""Sequences: a definition, read with all of its faults, and the plan that it is compiled to.

A plan is a line: for each step a node `day-ID`, which waits for its time, then a node `ID`, which sends to the contact.
"""

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any, Literal

from msgspec import Struct
from msgspec.structs import replace

from dispatcher.base.errors import Fault
from dispatcher.base.values.time_zones import zone_fault
from dispatcher.engine.rules.life import LANES
from dispatcher.engine.rules.unsubscribe_links import VARIABLE as LINK
from dispatcher.liquid import parts as channel_parts
from dispatcher.plans.definition.definition import Known, compile_definition
from dispatcher.plans.definition.paths import Faults
from dispatcher.plans.definition.variables_read import Reader, VariableRead
from dispatcher.plans.plan import Day, Edge, Plan, Send

STEPS_MAX = 200
# Of each message, as of any delivery.
ATTEMPTS = 5
DAYS_MAX = 3_660
ORDER_MAX = 100_000
# What a step can read, beside the link to unsubscribe.
CONTACT = "contact"
_KINDS = {"email": "email", "push": "push", "social": "social", "sms": "phone", "whatsapp": "phone", "voice": "phone"}

Anchor = Literal["enrolment", "previous_step"]
OnFailure = Literal["pause", "continue"]


class Settings(Struct, frozen=True, kw_only=True, rename="camel"):
    """What holds for all steps of a sequence."""

    time_zone: str = "UTC"
    use_contact_time_zone: bool = False
    anchor: Anchor = "enrolment"
    on_failure: OnFailure = "pause"
    stop_on: str | None = None
    stop_if: str | None = None
    lane: Literal["transactional", "normal", "bulk"] = "bulk"
    topic: str | None = None
    description: str | None = None


class Step(Struct, frozen=True, kw_only=True, rename="camel"):
    """A step: when, on which channel, and what. Its id is what it was stored under."""

    id: int | None = None
    name: str | None = None
    day_offset: int
    step_order: int
    send_hour: int | None = None
    channel: str
    template: str | None = None
    content: str | Mapping[str, str] | None = None


def address_kind(channel: str) -> str:
    """The kind of a contact's address that a channel writes to."""
    return _KINDS.get(channel, "chat")


def faults_of(settings: Settings, steps: Sequence[Step], known: Known) -> list[Fault]:
    """Everything that is wrong with a definition."""
    made = compile_sequence("sequence", settings, steps, known)
    return made if isinstance(made, list) else []


def compile_sequence(name: str, settings: Settings, steps: Sequence[Step], known: Known) -> Plan | list[Fault]:
    """The plan of a sequence, or everything that is wrong with it. Steps that have no id yet are numbered by place."""
    ordered = sorted(enumerate(steps), key=lambda one: one[1].step_order)
    faults = [*_setting_faults(settings), *_step_faults(steps)]
    if len(steps) > STEPS_MAX:
        return [*faults, Fault("$.steps", f"has {len(steps)} steps, over {STEPS_MAX}")]
    if not steps:
        return faults or Plan(name=name, entry="", nodes={}, is_sequence=True)
    ids = [str(one.id if one.id is not None else f"new{place}") for place, one in ordered]
    nodes = [_node(one, settings, node) for (_, one), node in zip(ordered, ids, strict=True)]
    probe = {"id": "stop_if", "type": "branch"}
    graph: dict[str, Any] = {
        "name": "sequence",
        "entryNodeId": ids[0],
        "nodes": nodes,
        "edges": [{"from": one, "to": two} for one, two in pairwise(ids)],
    }
    if settings.stop_if is not None:
        graph["nodes"] = [*nodes, probe, {"id": "end", "type": "join"}]
        ends = [{"from": ids[-1], "to": "stop_if"}, {"from": "stop_if", "to": "end", "condition": settings.stop_if}]
        graph["edges"] = [*graph["edges"], *ends]
    plan = compile_definition(graph, known)
    places = [f"$.steps[{place}]" for place, _ in ordered]
    if isinstance(plan, list):
        return [*faults, *(_moved(one, places) for one in plan)]
    for place, one in enumerate(steps):
        faults += _reads(one, f"$.steps[{place}]")[1]
    if settings.stop_if is not None:
        faults += _unknown(Reader(Faults()).condition("$.stopIf", settings.stop_if))
    return faults or _line(name, settings, [one for _, one in ordered], ids, plan)


def _setting_faults(settings: Settings) -> list[Fault]:
    words = zone_fault(settings.time_zone)
    return [] if words is None else [Fault("$.timeZone", words)]


def _step_faults(steps: Sequence[Step]) -> list[Fault]:
    faults: list[Fault] = []
    orders: dict[int, int] = {}
    names: dict[str, int] = {}
    for place, one in enumerate(steps):
        path = f"$.steps[{place}]"
        if not 0 <= one.day_offset <= DAYS_MAX:
            faults.append(Fault(f"{path}.dayOffset", f"expected 0 to {DAYS_MAX}, got {one.day_offset}"))
        if not 0 <= one.step_order <= ORDER_MAX:
            faults.append(Fault(f"{path}.stepOrder", f"expected 0 to {ORDER_MAX}, got {one.step_order}"))
        if one.send_hour is not None and one.send_hour not in range(24):
            faults.append(Fault(f"{path}.sendHour", f"expected 0 to 23, got {one.send_hour}"))
        if (first := orders.setdefault(one.step_order, place)) != place:
            faults.append(Fault(f"{path}.stepOrder", f"is {one.step_order}, as that of $.steps[{first}]: use another"))
        if one.name is not None and (first := names.setdefault(one.name, place)) != place:
            faults.append(Fault(f"{path}.name", f"is {one.name!r}, as that of $.steps[{first}]: use another"))
        if (one.template is None) == (one.content is None):
            faults.append(Fault(path, "give content or template, one of them"))
    return faults


def _node(step: Step, settings: Settings, node: str) -> dict[str, Any]:
    """A step as a node of a definition."""
    made: dict[str, Any] = {"id": node, "type": step.channel}
    if step.channel != "social":
        made["to"] = "{{ contact.key }}"
    if settings.topic is not None:
        made["topic"] = settings.topic
    if step.template is not None:
        return made | {"template": step.template}
    return made | {"parts": parts_of(step)}


def parts_of(step: Step) -> Mapping[str, str]:
    """The parts of what a step has to say."""
    if not isinstance(step.content, str):
        return step.content or {}
    known = channel_parts.of(step.channel)
    if step.channel == "email":
        # A plain text for e-mail has the step's name as its subject.
        return {"subject": step.name, "text": step.content} if step.name is not None else {"text": step.content}
    return {"body" if known is None or "body" in known.takes else known.takes[0]: step.content}


def _moved(fault: Fault, places: Sequence[str]) -> Fault:
    """A fault of the graph, at its place in the sequence."""
    for number, place in enumerate(places):
        head = f"$.nodes[{number}]"
        if fault.path == head or fault.path.startswith((f"{head}.", f"{head}[")):
            tail = fault.path.removeprefix(head)
            words = fault.message.replace("there is no type or channel", "there is no channel")
            if tail.startswith(".parts"):
                tail = ".content" + tail.removeprefix(".parts")
            return Fault(place + (".channel" if tail == ".type" else tail), words)
    if fault.path.startswith("$.edges["):
        return Fault("$.stopIf", fault.message)
    return fault


def _reads(step: Step, path: str) -> tuple[tuple[str, ...], list[Fault]]:
    """The fields of the contact that a step reads, and what it reads that there is not: nobody could bring it."""
    faults = Faults()
    reader = Reader(faults)
    found = [
        one
        for part, text in ({} if step.content is None else parts_of(step)).items()
        for one in reader.text(_content_path(step, path, part), text, part)
    ]
    fields = {one.read.at[1] if one.read.at[1:] else "" for one in found if one.name == CONTACT}
    return tuple(sorted(fields)), _unknown(found)


def _content_path(step: Step, path: str, part: str) -> str:
    return f"{path}.content" if isinstance(step.content, str) else f"{path}.content.{part}"


def _unknown(reads: Iterable[VariableRead]) -> list[Fault]:
    return [
        Fault(one.place, f"reads {one.read.path}: there is only {CONTACT}, as in {CONTACT}.attributes.{one.name}")
        for one in reads
        if one.name not in (CONTACT, LINK)
    ]


def _line(name: str, settings: Settings, steps: Sequence[Step], ids: Sequence[str], compiled: Plan) -> Plan:
    nodes: dict[str, Day | Send] = {}
    for number, (step, node) in enumerate(zip(steps, ids, strict=True)):
        send = compiled.nodes[node]
        assert isinstance(send, Send)  # noqa: S101 - that is what its type was compiled to
        nodes[f"day-{node}"] = Day(
            step=2 * number,
            days=step.day_offset,
            hour=step.send_hour,
            zone=settings.time_zone,
            contact_zone=settings.use_contact_time_zone,
        )
        nodes[node] = replace(
            send,
            step=2 * number + 1,
            to=(),
            contact_kind=address_kind(step.channel),
            contact_fields=_reads(step, "")[0],
            lane=LANES[settings.lane],
            attempts=ATTEMPTS,
            on_failure="continue" if settings.on_failure == "continue" else "retry",
        )
    line = list(nodes)
    return Plan(
        name=name,
        entry=line[0],
        nodes=nodes,
        edges={one: (Edge(two),) for one, two in pairwise(line)},
        templates=compiled.templates,
        is_sequence=True,
        from_previous=settings.anchor == "previous_step",
        stop_on=settings.stop_on,
        stop_if=settings.stop_if,
    )
