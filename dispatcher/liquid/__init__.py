"""The template language."""
