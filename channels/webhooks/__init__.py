"""Outgoing webhooks: signed events for the endpoints of a workspace, in the form of Standard Webhooks."""
