"""Pages about the system itself."""
