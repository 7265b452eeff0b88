"""Frequency caps: at most so many messages to one recipient in a period."""
