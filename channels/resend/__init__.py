"""Resend: hands e-mail to Resend's HTTP API, one message a call or many, under keys that it de-duplicates by."""
