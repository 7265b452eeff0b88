"""Fuzzing over HTTP: requests made of the program's own document, what is done to them, and who sends them."""
