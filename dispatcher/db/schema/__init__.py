"""The schema's baseline and its migrations."""
