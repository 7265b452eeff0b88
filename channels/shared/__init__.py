"""The parts that channels share: composing mail, the HTTP client."""
