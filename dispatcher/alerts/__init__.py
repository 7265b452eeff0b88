"""Alerts: what is wrong with the dispatcher itself, told to people in a Slack channel.

An alert is no delivery. It does not go through the outbox, which may be the very thing that is broken, and it is no way
around it either: there is no envelope here and no channel, only one POST of words of our own to one configured URL.
"""

from dispatcher.alerts.slack import SlackAlerts

__all__ = ["SlackAlerts"]
