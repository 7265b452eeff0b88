"""Dispatcher: a notification engine on Postgres that can prove that it never sent a message twice."""

from dispatcher.base.version import VERSION

__version__ = VERSION
