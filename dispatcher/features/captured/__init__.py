"""Captured messages: what channels with the capture provider were given, in place of sending it."""
