"""Alerts: errors of the dispatcher itself, posted to a Slack channel, or to Sentry.

An alert is not a delivery. It does not go through the outbox, which may be broken itself: it is one POST of our own
text to one configured URL, without an envelope or a channel.
"""

from dispatcher.alerts.sentry import SentryAlerts
from dispatcher.alerts.slack import SlackAlerts

__all__ = ["SentryAlerts", "SlackAlerts"]
