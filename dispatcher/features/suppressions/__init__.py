"""Suppressions: addresses that get no messages, or none about a topic."""
