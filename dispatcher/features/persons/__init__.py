"""Persons: what somebody was sent and why, everything there is about them, and taking them away."""
