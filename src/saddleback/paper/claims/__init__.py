"""The claims of the paper, each with our result and the verdict that follows from it."""

from __future__ import annotations

import math
from dataclasses import dataclass

from saddleback.plots.style import SUPERSCRIPTS

YES, PART, NO = "reproduced", "reproduced in part", "not reproduced"


@dataclass(frozen=True)
class Claim:
    """One claim of the paper, our result, and the verdict.

    Attributes
    ----------
    claim, result
        Texts that can be read without the page.
    verdict
        `YES`, `PART` or `NO`.
    figure
        Name of the figure that shows the result, if there is one.
    cells
        Its row in the table of its section; empty for the claim and the result themselves.
    """

    claim: str
    result: str
    verdict: str
    figure: str = ""
    cells: tuple[str, ...] = ()


@dataclass(frozen=True)
class Section:
    """Claims that share one table of the page.

    Attributes
    ----------
    title, introduction
        Heading, and the text above the table.
    headings
        Columns of the table, without the number of the claim and the verdict.
    claims
        Its rows.
    """

    title: str
    introduction: str
    headings: tuple[str, ...]
    claims: tuple[Claim, ...]


def verdict(*conditions: bool) -> str:
    """Return the verdict: all conditions hold, some, or none.

    Examples
    --------
    >>> verdict(True, True), verdict(True, False), verdict(False)
    ('reproduced', 'reproduced in part', 'not reproduced')
    """
    return YES if all(conditions) else PART if any(conditions) else NO


def number(value: float, digits: int = 2) -> str:
    """Write a number with a few significant digits and powers of ten in plain text.

    Examples
    --------
    >>> number(0.00381), number(233.0), number(3.14e5), number(1e-10, 1), number(0.0)
    ('0.0038', '230', '3.1·10⁵', '10⁻¹⁰', '0')
    """
    if not math.isfinite(value) or value == 0:
        return "0" if value == 0 else str(value).replace("inf", "∞")
    mantissa, _, power = f"{value:.{digits - 1}e}".partition("e")
    exponent = int(power)
    if -4 < exponent < 4:
        decimals = max(0, digits - 1 - exponent)
        return f"{float(f'{value:.{digits - 1}e}'):.{decimals}f}".replace("-", "−")
    mantissa = mantissa.rstrip("0").rstrip(".") if "." in mantissa else mantissa
    raised = f"10{str(exponent).translate(SUPERSCRIPTS)}"
    return raised if mantissa == "1" else f"{mantissa}·{raised}".replace("-", "−")


def rounding(error: float) -> str:
    """Write an error that is 0 but for rounding, whose digits depend on the machine.

    Examples
    --------
    >>> rounding(7e-15), rounding(0.003)
    ('below 10⁻¹²', '0.003')
    """
    return "below 10⁻¹²" if error < 1e-12 else number(error, 1)


def by_name(values: dict[str, float]) -> str:
    """Write values after their names: ``GES 0.19, GQ 0.31``."""
    return ", ".join(f"{name} {number(value)}" for name, value in values.items())
