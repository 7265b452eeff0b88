"""Cases about sequences."""
