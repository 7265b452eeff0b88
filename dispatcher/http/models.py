"""Models: what requests say and what answers say, as the program and its OpenAPI document know them."""

from datetime import UTC, datetime
from typing import Annotated, Any

from msgspec import Meta, Struct, defstruct

from dispatcher.http.cursors import ID_MAX

Text = Annotated[str, Meta(min_length=1, max_length=255)]
ShortText = Annotated[str, Meta(min_length=1, max_length=100)]
Limit = Annotated[int, Meta(ge=1, le=500, description="How many.")]
Cursor = Annotated[str, Meta(max_length=200, description="next_cursor of the answer before.")]
# Of a list in the order of texts, which stand in it.
LongCursor = Annotated[str, Meta(max_length=4_500, description="next_cursor of the answer before.")]
# Something to see. What is a blank in one of the two languages of patterns, Python's and ECMA's, is one.
SEEN = r"[^\s\u001c-\u001f\u0085\ufeff]"
Reason = Annotated[str, Meta(min_length=1, max_length=1_000, pattern=SEEN, description="Why; it is kept.")]
Moment = Annotated[datetime, Meta(tz=True, description="A time with its zone, in RFC 3339.")]
Json = dict[str, Any]
# What only operators may name: all others have the workspace of their key.
Tenant = Annotated[ShortText, Meta(description="Of another tenant: for operators only.")]
InWorkspace = Annotated[ShortText, Meta(description="Of another workspace: for operators only.")]
# What the number of a version can be.
VERSION_MAX = 2**31 - 1
Before = Annotated[int, Meta(ge=1, le=ID_MAX, description="Only those with a smaller id.")]
# The times of examples in the OpenAPI document.
BEGUN = datetime(2030, 1, 31, 8, 0, 0, tzinfo=UTC)
ENDED = datetime(2030, 1, 31, 8, 0, 1, tzinfo=UTC)


class Asked(Struct, frozen=True, forbid_unknown_fields=True):
    """The base of request models: unknown fields are refused."""


class PageQuery(Asked, frozen=True):
    """The part of a list without filters."""

    cursor: Cursor | None = None
    limit: Limit = 50


class Why(Asked, frozen=True):
    """Why it is done."""

    reason: Reason


class Acted(Struct, frozen=True):
    """The result of an action on a delivery."""

    id: int
    answer: str
    message: str


ACTED = Acted(17, "cancelled", "delivery 17 is cancelled")


class OwnKey(Struct, frozen=True):
    """The name, role and workspace of a key."""

    name: str
    role: str
    tenant_id: str
    workspace_id: str


def page_model(name: str, rows: str, row: Any, words: str) -> type[Any]:  # noqa: ANN401 - a struct, or Raw
    """The model of a page of a list, described by `words`: a field of its rows, and the cursor of the next page."""
    fields = [(rows, list[row]), ("next_cursor", str | None)]
    return defstruct(name, fields, frozen=True, namespace={"__doc__": words})
