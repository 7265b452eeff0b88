"""Webhooks: endpoints that are told what happens to deliveries and runs."""
