"""Capture: keeps each message in a table, where it can be looked at and asserted on. Nothing leaves the machine."""

from channels.capture.channel import Capture, CaptureOptions

__all__ = ["Capture", "CaptureOptions"]
