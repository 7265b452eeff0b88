"""A plan: one immutable version of a workflow, as a graph of nodes, with all that was computed when it was saved.

Both forms of a definition become this. A node is visited once at most in a run: one that several edges lead to waits
for every path that can still come. Texts are Liquid unless their name says otherwise; `Any` is JSON with Liquid in its
texts.
"""

from collections.abc import Mapping
from typing import Any, Literal

import msgspec
from msgspec import Struct

OnFailure = Literal["retry", "continue", "abort"]
# A text that is nothing but one variable stands for its value, whatever that is: a list of recipients, a number.
Text = str

EMAIL_FUNCTION = "send-email"
SLACK_FUNCTION = "slack"
# The functions that need no configuration, and the channels that they send on; a configured one of that name wins.
BUILT_IN: Mapping[str, str] = {EMAIL_FUNCTION: "email", SLACK_FUNCTION: "chat"}


class _Node(Struct, frozen=True, kw_only=True, tag_field="kind", omit_defaults=True):
    """The fields of all nodes: `step` is the node's place in the definition, from 0."""

    step: int
    on_failure: OnFailure = "retry"
    # Attempts of each of its deliveries, the first one included.
    attempts: int = 3


class Send(_Node, frozen=True, kw_only=True, tag="send"):
    """Messages on one channel: a stored template by name, or the parts of one that stands here."""

    channel: str
    # Each renders to one recipient; a single variable that is a list gives several. A social post may leave it empty:
    # then it has one delivery, whose recipient is "".
    to: tuple[Text, ...]
    # The name that stands before the address of an e-mail.
    to_name: Text | None = None
    # A name, or a single variable that has it.
    template: Text | None = None
    parts: Mapping[str, Text] | None = None
    # Added to the context for this send only.
    variables: Mapping[str, Any] = {}
    options: Mapping[str, Any] = {}
    # The top-level names that the parts read; of a stored template they are looked up when it is frozen.
    reads: tuple[str, ...] = ()
    locale: Text | None = None
    topic: str | None = None
    lane: int | None = None
    expires_seconds: float | None = None
    # The body is rendered when it is ordered, and its values are escaped for Slack: no value can mention a user.
    escapes: bool = False
    # In an enrolment, in place of `to`: the kind of address of its contact; without one the step is skipped.
    contact_kind: str | None = None
    # The fields of the contact that the parts read.
    contact_fields: tuple[str, ...] = ()


class Call(_Node, frozen=True, kw_only=True, tag="call"):
    """A function call: a delivery on the channel `http`, whose answer comes back."""

    function: str
    action: str
    payload: Any = None


class Delay(_Node, frozen=True, kw_only=True, tag="delay"):
    """A delay of some seconds, or until a time (RFC 3339, rendered)."""

    seconds: float | None = None
    until: Text | None = None


class Day(_Node, frozen=True, kw_only=True, tag="day"):
    """A day of an enrolment: so many days after its anchor, at an hour on the wall, or at the anchor's time of day."""

    days: int
    hour: int | None = None
    zone: str = "UTC"
    # By the clocks of the contact, where it has a zone.
    contact_zone: bool = False


class Branch(_Node, frozen=True, kw_only=True, tag="branch"):
    """One of its edges is taken: the first whose condition holds, else the one without, else the path ends here."""


class Join(_Node, frozen=True, kw_only=True, tag="join"):
    """Paths meet here, as at every node that several edges lead to. A join does nothing else."""


class Wait(_Node, frozen=True, kw_only=True, tag="wait"):
    """An event of this name is awaited, for so long; when the time is over the node has failed with `timeout`."""

    event: str
    timeout_seconds: float | None = None


class Digest(_Node, frozen=True, kw_only=True, tag="digest"):
    """Runs of one key are collected for a while; the first of them goes on with the list, the others end here."""

    key: Text
    window_seconds: float
    items_max: int = 1_000


Node = Send | Call | Delay | Day | Branch | Join | Wait | Digest


class Edge(Struct, frozen=True, omit_defaults=True):
    """An edge to another node. The condition is the expression between `{% if` and `%}`."""

    to: str
    condition: str | None = None


class RequiredVariable(Struct, frozen=True):
    """A variable that a trigger must bring: as it is written, and as the steps to it (`["order", "items", "0"]`).

    Each step has to lead somewhere, as Liquid takes it: into an object by the key; into a list by a whole number within
    its length, from the end where it is negative. Where no key is called so, `size` is there of a list, an object and
    a text, `first` and `last` of a list that is not empty (`first` of such an object too). What stands behind a step
    that is a variable itself (`a[b].c`) is left out: `a` and `b` have to be there.
    """

    path: str
    at: tuple[str, ...]


class TemplateUse(Struct, frozen=True, omit_defaults=True):
    """A stored template that a node uses: its name, or the variable that has it; and which names the node provides.

    It may read `step_N_result` and `step_N_error` of the first `steps` steps: in a list those before it, in a graph
    all.
    """

    node: str
    channel: str
    steps: int = 0
    name: str | None = None
    variable: RequiredVariable | None = None
    provides: tuple[str, ...] = ()


class Plan(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One version. Nodes are in the order of their definition; `edges` has the outgoing ones of each, in theirs."""

    name: str
    entry: str
    nodes: Mapping[str, Node]
    edges: Mapping[str, tuple[Edge, ...]] = {}
    required_fields: tuple[str, ...] = ()
    # What nodes read and no node provides, without what stored templates read.
    reads: tuple[RequiredVariable, ...] = ()
    templates: tuple[TemplateUse, ...] = ()
    # A function's data becomes part of the context, as in a list of steps.
    merges_data: bool = False
    # How long a run may work, waiting aside; and one call.
    timeout_seconds: float | None = None
    call_seconds_max: float = 60.0
    # Of a sequence: it logs failures and skips only and keeps no results, since its deliveries are its log.
    is_sequence: bool = False
    # Days are counted from the step before, not from the enrolment.
    from_previous: bool = False
    # An event, and a condition on the contact, that end an enrolment.
    stop_on: str | None = None
    stop_if: str | None = None


encode = msgspec.json.Encoder().encode
decode = msgspec.json.Decoder(Plan).decode
