"""A temperature at which all keys count the same, or the nearest alone."""

from __future__ import annotations

from collections.abc import Iterator

from ccl_plugins.training.findings import Finding
from ccl_plugins.watching.symptoms.symptom import Beginning, Symptom

TEMPERATURES = (0.01, 3.0)
"""Beyond these, only the nearest key counts, or all count the same."""


class WrongTemperature(Symptom):
    """A temperature is too high or too low, one end of a schedule is, or a learned one became so."""

    def begin(self, seen: Beginning) -> Iterator[Finding]:
        """Compare each with the range that is usual."""
        for setting, value in seen.temperatures:
            high = value > TEMPERATURES[1]
            if not high and not value < TEMPERATURES[0]:
                continue
            name = "high" if high else "low"
            yield Finding(
                f"the-temperature-is-too-{name}",
                seen.step,
                f"the temperature is too {name}: at {value:.3g}"
                f" {'all keys count nearly the same' if high else 'only the nearest key counts'};"
                f" {'lower' if high else 'raise'} {setting}, to 0.05 to 1",
                about=setting,
            )

    look = begin
