"""Fuzzing over HTTP: requests made of the program's own document, their mutations, and the client that sends them."""
