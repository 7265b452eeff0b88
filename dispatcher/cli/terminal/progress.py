"""A progress bar: how far long work is, on a terminal and nowhere else."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from dispatcher.cli.terminal.console import Output, plain


@contextmanager
def progress_bar(output: Output, label: str, total: int) -> Iterator[Callable[[int], None]]:
    """A bar of so many steps; what it gives says how many are done."""
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    shown = output.stderr.is_terminal and not output.as_json
    with Progress(*columns, console=output.stderr, transient=True, disable=not shown) as progress:
        bar = progress.add_task(plain(label), total=total)

        yield lambda completed: progress.update(bar, completed=completed)
