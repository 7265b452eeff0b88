"""Slack: posts messages by incoming webhooks, each of which leads to one room."""

from channels.slack.channel import Slack, SlackOptions, WebhookSettings

__all__ = ["Slack", "SlackOptions", "WebhookSettings"]
