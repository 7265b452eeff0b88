"""Doors: what commands ask for, noun by noun, and the two ways to have it: through the store, or over HTTP."""
