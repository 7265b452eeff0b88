"""Workflows: definitions of what runs do, kept as versions."""
