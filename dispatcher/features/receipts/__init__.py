"""Receipts: what providers say later about messages that they took."""
