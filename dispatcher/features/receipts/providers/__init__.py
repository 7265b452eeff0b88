"""Receipts: what providers say about messages later on, taken only from those who can sign for it."""
