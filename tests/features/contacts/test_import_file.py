"""A file of contacts: JSON and CSV say the same, and each line is read for itself."""

from dispatcher.base.errors import Fault
from dispatcher.cli.lines import Line
from dispatcher.features.contacts.import_file import ContactFile
from dispatcher.features.contacts.rules import ContactInput, read


def _read(*texts: str) -> list[ContactInput | list[Fault] | None]:
    file = ContactFile()
    found = [file.read(Line(number, text.encode())) for number, text in enumerate(texts, 1)]
    return [one if one is None or isinstance(one, list) else read(one, whole=False) for one in found]


def test_json_and_csv_say_the_same() -> None:
    (of_json,) = _read(
        '{"key": "a", "name": "Lee, Ann", "tags": ["x", "y"], "attributes": {"plan": "gold", "seats": 3}, '
        '"addresses": [{"address": "ann@example.org"}, {"kind": "push", "address": "t1"}]}'
    )
    header, of_csv = _read(
        "key,name,tags,email,push,attributes,attributes.plan,company",
        'a,"Lee, Ann",x; y,ann@example.org,t1,"{""seats"": 3}",gold,',
    )
    assert header is None
    assert isinstance(of_csv, ContactInput)
    assert of_csv == of_json


def test_a_line_with_a_fault_is_named_and_the_next_one_is_read() -> None:
    header, short, bad, sound = _read("key,time_zone", "a", "b,Mars/Base", "c,UTC")
    assert header is None
    assert short == [Fault("line", "has 1 column, not 2")]
    assert isinstance(bad, list)
    assert bad[0].path == "$.time_zone"
    assert isinstance(sound, ContactInput)


def test_unknown_columns_are_named_and_nothing_is_read() -> None:
    file = ContactFile()
    faults = file.read(Line(1, b"kay,name"))
    assert isinstance(faults, list)
    assert [("did you mean" in one.message, "no column key" in one.message) for one in faults] == [
        (True, False),
        (False, True),
    ]
    assert file.columns_are_faulty


def test_unreadable_files_are_named() -> None:
    file = ContactFile()
    answers = [file.read(Line(1, b'{"key": "a"')), file.read(Line(2, None)), file.read(Line(3, b'{"key": "\xff"}'))]
    assert [isinstance(one, list) and one[0].path for one in answers] == ["line"] * 3
