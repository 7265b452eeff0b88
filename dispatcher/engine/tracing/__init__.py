"""Tracing: spans of the deliveries that are sampled, collected batch by batch and exported in a thread."""
