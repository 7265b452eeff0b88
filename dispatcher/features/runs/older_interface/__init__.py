"""The older HTTP interface."""
