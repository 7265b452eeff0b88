"""The SMTP channel: mail over persistent connections to a relay or a submission server."""
