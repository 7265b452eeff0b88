"""Cases of traces."""
