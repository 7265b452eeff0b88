"""The version, as metadata, logs and the command line give it."""

VERSION = "0.1.0"
