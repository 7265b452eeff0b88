"""Twilio: SMS, WhatsApp messages and calls by its API, one request each."""
