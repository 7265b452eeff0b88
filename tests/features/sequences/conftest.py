"""Sequences on a stage."""

import pytest

from tests.features.runs.stage import Stage
from tests.features.sequences.steps import Sequences


@pytest.fixture
def drip(stage: Stage) -> Sequences:
    """Sequences on the test's database."""
    return Sequences(stage)
