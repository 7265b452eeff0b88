"""What can be set of Slack, and what it must know of a webhook."""

from typing import Annotated

from msgspec import Meta, Struct

from channels.targets import Target

WebhookSettings = Target


class SlackOptions(Struct, frozen=True, forbid_unknown_fields=True):
    """What all webhooks have in common."""

    # For one call as a whole; with the licence it has to fit into call_seconds_max.
    timeout_seconds: Annotated[float, Meta(gt=0, le=600)] = 10.0
