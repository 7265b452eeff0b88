"""Models of the settings of a workspace."""

from datetime import UTC, datetime
from typing import Annotated

from msgspec import Meta, Struct

from dispatcher.base.values.time_zones import ZONE_MAX
from dispatcher.http.models import Asked


class NewSettings(Asked, frozen=True):
    """The settings of a workspace."""

    phone_region: (
        Annotated[
            str,
            Meta(min_length=2, max_length=2, description="Whose phone numbers those without + or 00 are, such as DE."),
        ]
        | None
    ) = None
    time_zone: Annotated[str, Meta(min_length=1, max_length=ZONE_MAX, description="Like Europe/Berlin.")] = "UTC"


class Settings(Struct, frozen=True):
    """The settings of a workspace, and who saved them when."""

    phone_region: str | None = None
    time_zone: str = "UTC"
    updated_at: datetime | None = None
    updated_by: str | None = None


SETTINGS = Settings("DE", "Europe/Berlin", datetime(2030, 1, 31, 8, 0, 0, tzinfo=UTC), "key ann")
