"""Deliveries: single messages, each to one recipient over one channel."""
