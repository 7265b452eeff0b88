"""Slack: posts messages by incoming webhooks, each of which leads to one room."""
