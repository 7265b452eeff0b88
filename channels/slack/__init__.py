"""Slack: posts messages by incoming webhooks, each of which leads to one room.

The options alone: the channel brings an HTTP client with it, which who only reads a configuration does without.
"""

from channels.slack.options import SlackOptions, WebhookSettings

__all__ = ["SlackOptions", "WebhookSettings"]
