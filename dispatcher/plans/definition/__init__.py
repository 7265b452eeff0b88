"""Definitions as people write them, and how they become plans."""
