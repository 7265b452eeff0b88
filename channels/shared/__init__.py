"""What several channels use: composing mail, the HTTP client."""
