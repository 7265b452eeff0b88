"""Receipts: requests of providers about messages, read after their signature is checked."""
