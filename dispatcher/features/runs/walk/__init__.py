"""Walking runs."""
