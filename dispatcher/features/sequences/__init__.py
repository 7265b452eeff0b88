"""Sequences: messages to contacts over days."""
