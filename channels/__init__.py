"""Channels: one contract, and one file or folder per provider, all alike."""
