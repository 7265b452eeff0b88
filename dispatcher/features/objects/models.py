"""Models of the requests and answers about objects."""

from datetime import datetime
from typing import Annotated

from msgspec import Meta, Struct, structs

from dispatcher.engine.rules.object_cache import MEDIA_TYPE
from dispatcher.http.models import BEGUN, Asked, Limit, LongCursor, page_model

# What the schema allows.
OBJECT_BYTES_MAX = 16 * 1024 * 1024


class ObjectQuery(Asked, frozen=True):
    """Which objects."""

    after: Annotated[str, Meta(min_length=1, max_length=200, description="Only names after this one.")] | None = None
    cursor: LongCursor | None = None
    limit: Limit = 50


MediaType = Annotated[str, Meta(max_length=100, pattern=rf"^{MEDIA_TYPE}$(?!\n)", description="Media type.")]
ANY_BYTES = "application/octet-stream"


class PutQuery(Asked, frozen=True):
    """Parameters of a file that is the body."""

    content_type: Annotated[MediaType | None, Meta(description="Media type, if the body is the file itself.")] = None


class NewObject(Asked, frozen=True):
    """A file to store."""

    content: Annotated[
        bytes,
        Meta(
            max_length=OBJECT_BYTES_MAX,
            description="In base64.",
            extra_json_schema={"pattern": "^([A-Za-z0-9+/]{4})*([A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$(?!\\n)"},
        ),
    ]
    content_type: MediaType = ANY_BYTES


class Object(Struct, frozen=True, kw_only=True):
    """An object, without its content."""

    name: str
    content_type: str
    size: Annotated[int, Meta(description="In bytes.")]
    sha256: str
    created_at: datetime
    erased_at: Annotated[datetime | None, Meta(description="When its content was erased.")]


Objects = page_model("Objects", "objects", Object, "A page, by name.")


class PutObject(Object, frozen=True, kw_only=True):
    """The result of storing: stored, same (it was there), or restored (it had been erased)."""

    answer: str


class ErasedObject(Struct, frozen=True):
    """The result of erasing: erased, or erased before."""

    name: str
    answer: str


OBJECT = Object(
    name="terms/2030.pdf",
    content_type="application/pdf",
    size=3,
    sha256="ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad",
    created_at=BEGUN,
    erased_at=None,
)
OBJECTS = Objects([OBJECT], next_cursor=None)
PUT_OBJECT = PutObject(**structs.asdict(OBJECT), answer="stored")
ERASED_OBJECT = ErasedObject("terms/2030.pdf", "erased")
