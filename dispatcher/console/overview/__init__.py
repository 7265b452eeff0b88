"""The overview: figures made of what the endpoint answers, and the stream that keeps open pages up to date."""
