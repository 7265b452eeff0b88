"""A progress bar: how far long work is, on a terminal and nowhere else."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from dispatcher.cli.terminal.console import Voice, plain


@contextmanager
def progress_bar(voice: Voice, label: str, total: int) -> Iterator[Callable[[int], None]]:
    """A bar of so many steps; what it gives says how many are done."""
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    shown = voice.talk.is_terminal and not voice.as_json
    with Progress(*columns, console=voice.talk, transient=True, disable=not shown) as progress:
        bar = progress.add_task(plain(label), total=total)

        yield lambda completed: progress.update(bar, completed=completed)
