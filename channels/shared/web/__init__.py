"""The HTTP client for outgoing URLs, and the code that the channels over HTTP share."""
