"""Quiet hours and send windows of a workspace, in the time zones of recipients."""
