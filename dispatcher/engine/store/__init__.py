"""The engine's statements."""
