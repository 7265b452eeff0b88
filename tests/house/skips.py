"""A pytest plugin: in CI a skip is a failure, unless its reason says that it was to be expected.

A test that is skipped for want of something that CI was meant to have looks just like success.
"""

import os

import pytest

EXPECTED = "expected: "


def in_ci() -> bool:
    """As every CI service says it."""
    return os.environ.get("CI") == "true"


def unexpected(report: pytest.TestReport | pytest.CollectReport) -> str | None:
    """The reason of a skip that nobody announced. A failure that was expected is no skip."""
    if not report.skipped or hasattr(report, "wasxfail"):
        return None
    reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
    reason = reason.removeprefix("Skipped: ")
    return None if reason.startswith(EXPECTED) else reason


class Skips:
    """Collects the skips of one run and turns its exit status."""

    def __init__(self) -> None:
        self.found: list[str] = []

    def _note(self, report: pytest.TestReport | pytest.CollectReport) -> None:
        if (reason := unexpected(report)) is not None:
            self.found.append(f"{report.nodeid}: {reason}")

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """A test, or its fixtures, skipped."""
        self._note(report)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """A whole module skipped."""
        self._note(report)

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Only success is turned: a failure keeps its own status."""
        if self.found and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Name them, since the closing line still says that all is well."""
        if self.found:
            terminalreporter.section("skips that CI does not expect")
            for line in self.found:
                terminalreporter.write_line(line)


def pytest_configure(config: pytest.Config) -> None:
    """Outside CI nothing is watched."""
    if in_ci():
        config.pluginmanager.register(Skips(), "unexpected-skips")
