"""The HTTP server: listener, admission, backpressure, authentication, idempotency."""
