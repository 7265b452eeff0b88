"""Pages about recipients."""
