"""Webhooks of our own: posts signed events to the endpoints of a workspace, as Standard Webhooks ask.

The options alone: the channel brings an HTTP client with it, which who only reads a configuration does without.
"""

from channels.webhooks.options import WebhooksOptions

__all__ = ["WebhooksOptions"]
