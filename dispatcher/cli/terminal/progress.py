"""A progress bar, on a terminal and nowhere else."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from dispatcher.cli.terminal.console import Output, plain


@contextmanager
def progress_bar(output: Output, label: str, total: int) -> Iterator[Callable[..., None]]:
    """Show a bar of so many steps; yields a function of the steps that are done, and of a new label."""
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

        def at(completed: int, label: str | None = None) -> None:
            progress.update(bar, completed=completed, description=None if label is None else plain(label))

        yield at
