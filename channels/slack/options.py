"""The options of the Slack channel."""

from typing import Annotated

from msgspec import Meta, Struct


class SlackOptions(Struct, frozen=True, forbid_unknown_fields=True):
    """The options that all webhooks share."""

    # For one call as a whole; with the licence it has to fit into call_seconds_max.
    timeout_seconds: Annotated[float, Meta(gt=0, le=600)] = 10.0
