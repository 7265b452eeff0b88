"""The features: one folder for each thing that a user can name, with its rows, endpoints and commands."""
