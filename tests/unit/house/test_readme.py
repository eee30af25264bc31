"""The README says what the code does: its tables are the code's."""

from __future__ import annotations

from tests.kit.readme import README, metrics_table, options_table, section, simulated


def test_every_option_stands_in_the_readme_as_in_the_code() -> None:
    """Names, defaults and meanings of options are equal, none is missing, none is invented."""
    assert options_table() == section(README.read_text(), "options")


def test_every_metric_stands_in_the_readme_as_in_the_code() -> None:
    """Names, labels and meanings of metrics are equal."""
    assert metrics_table() == section(README.read_text(), "metrics")


def test_the_readme_has_the_pipeline_that_is_run() -> None:
    """The example between its markers is a fenced Python block with the format in it."""
    pipeline = section(README.read_text(), "pipeline")

    assert pipeline.startswith("```python\n")
    assert 'format("cohort")' in pipeline


def test_the_readme_has_what_the_command_answers() -> None:
    """The example of ``cohort simulate``: the case as it stands there, run, gives the output as it stands there."""
    text = README.read_text()
    assert simulated(text) == section(text, "simulate")
