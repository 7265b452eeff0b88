"""Properties of what is given on the command line: JSON, files, and NAME=VALUE."""

import json
import sys
from pathlib import Path

import pytest
import typer

from dispatcher.cli import arguments as given
from dispatcher.cli.arguments import object_text, object_with_pairs


def test_an_object_comes_from_the_option_a_file_or_standard_input(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "input.json"
    file.write_bytes(b'\xef\xbb\xbf{"a": 1}')
    given = tmp_path / "given.json"
    given.write_text('{"b": 2}')
    assert object_text("--input", ' {"c": 3}') == ' {"c": 3}'
    assert json.loads(object_text("--input", f"@{file}")) == json.loads(object_text("--input", str(file))) == {"a": 1}
    with given.open() as stdin:
        monkeypatch.setattr(sys, "stdin", stdin)
        assert json.loads(object_text("--input", "-")) == {"b": 2}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("@/nowhere", "cannot be read"),
        ("{", "not a JSON object"),
        ("a\0b", "UTF-8"),
        ("{" + '"a":{' * 100_000, "not a JSON object"),
    ],
)
def test_values_other_than_objects_are_refused(text: str, words: str) -> None:
    with pytest.raises(typer.BadParameter, match=words):
        object_text("--input", text)


def test_a_file_that_is_too_large_is_not_read_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(given, "FILE_BYTES_MAX", 10)
    file = tmp_path / "large.json"
    file.write_text('{"a": "0123456789"}')
    with pytest.raises(typer.BadParameter, match="has more than 10 bytes"):
        object_text("--input", str(file))


def test_pairs_come_over_the_object_as_json_or_text() -> None:
    found = object_with_pairs("--input", '{"a": 1, "b": 1.50}', "--var", ["a=2", "c=x y", 'd={"e": null}', "f="])
    assert found == '{"a":2,"b":1.50,"c":"x y","d":{"e": null},"f":""}'
    assert object_with_pairs("--input", None, "--var", []) == "{}"
    with pytest.raises(typer.BadParameter, match="NAME=VALUE"):
        object_with_pairs("--input", None, "--var", ["=1"])
