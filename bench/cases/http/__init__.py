"""Cases of the listener: the API, its answers to garbage, and what a scrape costs."""
