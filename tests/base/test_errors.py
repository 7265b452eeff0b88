"""Properties of the error tree."""

import copy
from collections.abc import Iterator

import pytest

from dispatcher.base import errors
from dispatcher.base.errors import ConfigError, DispatcherError, Fault, FaultyInput, InputError, TemplateError

FAULTS = (Fault("claim.batch_max", "is 0"), Fault("log.level", "is loud"))


def _tree(root: type[DispatcherError]) -> Iterator[type[DispatcherError]]:
    yield root
    for child in root.__subclasses__():
        yield from _tree(child)


ALL = sorted(_tree(DispatcherError), key=lambda cls: cls.__name__)
PLAIN = [cls for cls in ALL if not issubclass(cls, FaultyInput | TemplateError)]


@pytest.mark.parametrize("cls", ALL)
def test_every_error_is_drawn_in_the_tree(cls: type[DispatcherError]) -> None:
    assert cls.__name__ in (errors.__doc__ or "")


@pytest.mark.parametrize("cls", ALL)
def test_every_error_has_a_docstring_of_its_own(cls: type[DispatcherError]) -> None:
    assert cls.__dict__["__doc__"]


@pytest.mark.parametrize("cls", PLAIN)
def test_an_error_without_words_has_its_docstring(cls: type[DispatcherError]) -> None:
    assert str(cls()) == cls.__doc__
    assert str(cls("in its own words")) == "in its own words"


@pytest.mark.parametrize("cls", [ConfigError, InputError])
def test_an_error_about_faults_lists_each_on_a_line(cls: type[FaultyInput]) -> None:
    assert str(cls(FAULTS)) == "claim.batch_max: is 0\nlog.level: is loud"
    assert cls(iter(FAULTS)).faults == FAULTS


def test_an_error_about_no_fault_is_a_bug() -> None:
    with pytest.raises(ValueError, match="at least one"):
        ConfigError([])


def test_a_fault_cannot_forge_a_line() -> None:
    assert str(Fault("a\nb", "got \x1b[31m\r\n\udc80 ü")) == "a\\nb: got \\x1b[31m\\r\\n\\udc80 ü"


@pytest.mark.parametrize("error", [ConfigError(FAULTS), InputError(FAULTS), TemplateError("subject", "too long")])
def test_errors_with_fields_survive_being_copied(error: DispatcherError) -> None:
    for twin in (copy.copy(error), copy.deepcopy(error)):
        assert type(twin) is type(error)
        assert str(twin) == str(error)
        assert vars(twin) == vars(error)


def test_a_template_error_names_its_field() -> None:
    error = TemplateError("subject", "unknown filter")
    assert (error.field, error.reason, str(error)) == ("subject", "unknown filter", "subject: unknown filter")


def test_a_lost_database_is_caught_as_a_connection_error() -> None:
    with pytest.raises(ConnectionError):
        raise errors.DatabaseUnavailable
