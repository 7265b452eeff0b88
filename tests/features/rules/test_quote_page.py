"""The page of a quote: a PDF that is the same bytes for the same variables."""

import json
import threading

import pytest

from dispatcher.base.errors import TemplateError
from dispatcher.features.rules.quote_page import page

QUOTE = json.dumps({"quote": {"number": "Q-17", "total": "1,200 €", "note": "x" * 5_000}, "lead": {"name": "Åse Ł 漢"}})


def test_the_same_variables_make_the_same_bytes() -> None:
    first = page("quote", QUOTE)
    assert first.startswith(b"%PDF-")
    assert page("quote", QUOTE) == first
    assert page("quote", "{}") != first


def test_pages_that_are_made_at_once_do_not_mix() -> None:
    texts = [json.dumps({"quote": {"number": str(number), "note": chr(65 + number) * 40}}) for number in range(8)]
    alone = [page("quote", text) for text in texts]
    together: dict[int, bytes] = {}
    threads = [
        threading.Thread(target=lambda place=place: together.update({place: page("quote", texts[place])}))
        for place in range(len(texts))
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [together[place] for place in range(len(texts))] == alone


def test_another_page_is_refused_by_name() -> None:
    with pytest.raises(TemplateError, match="there are quote"):
        page("bill", "{}")


def test_many_rows_are_cut_and_break_pages() -> None:
    many = json.dumps({"quote": {f"row_{number}": "text" for number in range(1_000)}})
    assert page("quote", many).count(b"/Type /Page\n") > 2
