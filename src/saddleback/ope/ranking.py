"""Several candidate policies compared with one baseline, with simultaneous lower bounds.

With T candidates, each bound is Student's at level 1 − α/T (Bonferroni), minus the gap, so that all
of them hold with probability 1 − α, provided that the gaps bound the bias. Only a usable candidate
can be the best.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import scipy

from saddleback import _validate
from saddleback._display import Tabular, card_html, html_table, shorten
from saddleback.errors import Fix, InvalidParameter
from saddleback.ope.gates import DOUBTFUL, REFUSED, USABLE
from saddleback.ope.number_format import number
from saddleback.ope.result import Evaluation
from saddleback.ope.statistics_key import SEVERAL_BLOCKS
from saddleback.ope.text_report import WIDTH, Line, joined, wrap
from saddleback.ope.verdict import RANK

USER_VALUE = "as given"
"""Label of a baseline given as a number."""

NAME_WIDTH = 24
"""Characters of a candidate's name shown in a table."""

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@dataclass(frozen=True)
class Candidate:
    """One policy compared with the baseline."""

    # Its name, the verdict on its estimate, and the reason.
    name: str
    trust: str
    reason: str
    # V̂, and V̂ minus the baseline.
    value: float
    difference: float
    # Simultaneous lower bound on the improvement over the baseline; if lower is better, on the
    # reduction.
    bound: float

    @property
    def beats(self) -> bool:
        """Whether it is usable and its lower bound is positive."""
        return self.trust == USABLE and self.bound > 0


@dataclass(frozen=True, repr=False)
class Ranking(Tabular):
    """Candidates in order of their bounds, best first.

    `to_pandas` and `to_polars` give one row per candidate, with the columns of `as_dict` and
    ``beats``, whether its lower bound is positive.

    Attributes
    ----------
    baseline, of
        The value to compare with, and the policy it belongs to.
    alpha, lower_is_better
        Family-wise error rate of the lower bounds, and whether rewards are costs.
    candidates
        Usable ones first, then doubtful and refused ones.

    Examples
    --------
    >>> from saddleback import Log, evaluate, features
    >>> from saddleback.problems.synthetic_clinic import DOSES, SIGNS, clinic, earlier
    >>> log = Log(clinic(1000, rng=0), observations=SIGNS, actions=DOSES)
    >>> box = features.Polynomial((50, 50, 0), (150, 130, 12), degree=2)
    >>> result = evaluate(log, {"new": earlier}, features=box, gamma=0.97, methods=[])
    >>> ranking = rank(result)
    >>> ranking.best.name, ranking.outcome
    ('new', 'better')
    """

    baseline: float
    of: str
    alpha: float
    lower_is_better: bool
    candidates: tuple[Candidate, ...]

    @property
    def best(self) -> Candidate | None:
        """The candidate with the best bound, if that beats the baseline."""
        return next((candidate for candidate in self.candidates if candidate.beats), None)

    @property
    def outcome(self) -> str:
        """The outcome: better, inconclusive (for usable candidates), doubtful or refused."""
        levels = {candidate.trust for candidate in self.candidates}
        if self.best is not None:
            return "better"
        return "inconclusive" if USABLE in levels else DOUBTFUL if DOUBTFUL in levels else REFUSED

    def as_dict(self) -> dict[str, Any]:
        """Return the ranking as plain data for JSON."""
        sign = -1.0 if self.lower_is_better else 1.0
        best = self.best
        return {
            "kind": "saddleback ranking",
            "schema": 1,
            "best": None if best is None else best.name,
            "upper" if self.lower_is_better else "lower": (
                None if best is None else self.baseline + sign * best.bound
            ),
            "baseline": self.baseline,
            "of": self.of,
            "alpha": self.alpha,
            "lower_is_better": self.lower_is_better,
            USABLE: [one.name for one in self.candidates if one.trust == USABLE],
            DOUBTFUL: self._reasons(DOUBTFUL),
            REFUSED: self._reasons(REFUSED),
            "candidates": [asdict(one) for one in self.candidates],
        }

    def _reasons(self, trust: str) -> dict[str, str]:
        return {one.name: one.reason for one in self.candidates if one.trust == trust}

    @property
    def answer(self) -> str:
        """The best candidate and its lower bound, or that there is none, in one sentence."""
        name = "baseline" if self.of == USER_VALUE else self.of
        against = f"{name} ({number(self.baseline, self._places)})"
        best = self.best
        if best is not None:
            side = "lower" if self.lower_is_better else "higher"
            others = sum(one.beats for one in self.candidates) - 1
            more = f"; {others} more {'are' if others > 1 else 'is'} also better" if others else ""
            smallest = _rounded_down(best.bound, self._places)
            return (
                f"Better: {best.name} is at least {smallest} {side} than the {against}, with "
                f"{1 - self.alpha:.0%} confidence; the estimate is reliable{more}."
            )
        if any(one.trust == USABLE for one in self.candidates):
            return f"Inconclusive: no candidate is shown to be better than the {against}."
        count = len(self.candidates)
        none = "the estimate is not" if count == 1 else f"none of {count} estimates is"
        value = number(self.baseline, self._places)
        return f"No answer: {none} reliable. Value of the {name}: {value}."

    @property
    def _places(self) -> int:
        """Decimals that show the distance of differences from bounds with two digits."""
        sign = -1.0 if self.lower_is_better else 1.0
        sizes = [abs(one.bound - sign * one.difference) for one in self.candidates]
        smallest = min((size for size in sizes if 0 < size < math.inf), default=1.0)
        return max(0, 1 - math.floor(math.log10(smallest)))

    @property
    def text(self) -> str:
        """The answer, and a table of all candidates."""
        return joined(self.lines())

    def lines(self, width: int = WIDTH) -> list[Line]:
        """Return the text as lines; lines of the answer carry its outcome."""
        table = self._table()
        widths = [max(len(row[k]) for row in table) for k in range(4)]
        rows = [
            "  ".join([f"{row[0]:<{widths[0]}}", *map(str.rjust, row[1:4], widths[1:4]), row[4]])
            for row in table
        ]
        if max(map(len, rows)) > width:  # too narrow for columns: stack the cells
            rows = []
            for row in table[1:]:
                named = [
                    f"{head} {cell}" for head, cell in zip(table[0][1:4], row[1:4], strict=True)
                ]
                rows += [*wrap("", row[0], "", width)]
                rows += wrap("  ", ", ".join([*named, row[4]]), "  ", width)
        for trust in (DOUBTFUL, REFUSED):
            for name, reason in self._reasons(trust).items():
                rows += ["", *wrap("", f"{name} is {trust}: {reason}.", "  ", width)]
        answer = [Line(line, self.outcome) for line in wrap("", self.answer, width=width)]
        return [*answer, *map(Line, ["", *rows, "", *wrap("", self._bounds, "", width)])]

    def _table(self) -> list[tuple[str, str, str, str, str]]:
        """The candidates as text, with a header."""
        places = self._places
        table = [("candidate", "value", "difference", self._side, "reliability")]
        for candidate in self.candidates:
            bound = _floor(candidate.bound, places)  # claim no more
            bound = -bound if self.lower_is_better else bound
            value, difference, limit = (
                number(candidate.value, places), number(candidate.difference, places, sign=True),
                number(bound, places, sign=True),
            )  # fmt: skip
            if candidate.trust == REFUSED:
                value = difference = limit = "–"
            mark = f"{candidate.trust}{'  ← better' if candidate.beats else ''}"
            table.append((candidate.name[:NAME_WIDTH], value, difference, limit, mark))
        return table

    @property
    def _side(self) -> str:
        return "upper bound" if self.lower_is_better else "lower bound"

    @property
    def _bounds(self) -> str:
        return (
            f"The {self._side}s of the difference hold for all candidates at once with "
            f"{1 - self.alpha:.0%} confidence (Bonferroni), and include the estimated bias."
        )

    def __repr__(self) -> str:
        return shorten(self.text, "ranking.text")

    def _repr_html_(self) -> str:
        header, *rows = self._table()
        reasons = [candidate.reason for candidate in self.candidates]
        table = [(*row, reason) for row, reason in zip(rows, reasons, strict=True)]
        return card_html(self.answer, {}, html_table([*header, "reason"], table, self._bounds))

    def plot(self, *, ax: Axes | None = None) -> Axes:
        """Plot the differences from the baseline with their simultaneous bounds.

        Parameters
        ----------
        ax
            Axes to draw on; a new figure if not given.

        Examples
        --------
        >>> candidate = Candidate("new", "usable", "", value=1.2, difference=0.2, bound=0.1)
        >>> print(Ranking(1.0, "logged policy", 0.05, False, (candidate,)).plot().get_xlabel())
        difference from the logged policy (value 1); higher is better
        """
        from saddleback.plots.summary_plots import ranking  # imports matplotlib

        return ranking(self, ax)

    def _columns(self) -> dict[str, Any]:
        rows = [asdict(one) | {"beats": one.beats} for one in self.candidates]
        return {name: [row[name] for row in rows] for name in rows[0]}


def _rounded_down(bound: float, places: int) -> str:
    """Format a positive bound, rounded down.

    Examples
    --------
    >>> _rounded_down(39.715, 1), _rounded_down(0.03, 0)
    ('39.7', '0.03')
    """
    while places < 12 and _floor(bound, places) == 0:
        places += 1
    return number(_floor(bound, places), places)


def _floor(bound: float, places: int) -> float:
    """Round down to decimals, but for the last bits of a bound.

    Examples
    --------
    >>> _floor(0.996, 2), _floor(0.29, 2), _floor(-0.991, 2), _floor(1e300, 12)
    (0.99, 0.29, -1.0, 1e+300)
    """
    scaled = bound * 10.0**places
    return math.floor(round(scaled, 3)) / 10.0**places if math.isfinite(scaled) else bound


def rank(result: Evaluation, *, alpha: float = 0.05, baseline: float | None = None) -> Ranking:
    """Rank the targets of an evaluation by comparison with the logged policy or a given value.

    With T targets, d the difference from the baseline and s its standard error,

        improvement ≥ d − t_{n−1, 1−α/T}·s − gap    for all targets, with probability 1 − α

    Parameters
    ----------
    result
        An evaluation of several targets, from a log or from statistics.
    alpha
        Family-wise error rate of the lower bounds.
    baseline
        A value to compare with; the logged policy if not given.

    Examples
    --------
    >>> from saddleback import Log, evaluate, features
    >>> from saddleback.problems.synthetic_clinic import DOSES, SIGNS, clinic, earlier, usual
    >>> log = Log(clinic(1000, rng=0), observations=SIGNS, actions=DOSES)
    >>> box = features.Polynomial((50, 50, 0), (150, 130, 12), degree=2)
    >>> result = evaluate(log, {"new": earlier, "old": usual}, features=box, gamma=0.97)
    >>> [(one.name, one.trust, one.beats) for one in rank(result).candidates]
    [('new', 'usable', True), ('old', 'usable', False)]
    """
    _validate.instance("rank", "result", result, Evaluation)
    if baseline is not None:
        baseline = _validate.number("rank", "baseline", baseline)
    if not 0 < _validate.unit("rank", "alpha", alpha) < 1:
        raise InvalidParameter(f"rank: alpha must be in (0, 1), got {alpha!r}.")
    if not result.diagnoses:
        raise InvalidParameter("rank: the evaluation has no verdicts.", SEVERAL_BLOCKS)
    lower_is_better = result.lower_is_better
    sign = -1.0 if lower_is_better else 1.0
    share = 1.0 - alpha / len(result.diagnoses)
    ranked = []
    for diagnosis in result.diagnoses:
        verdict, better = diagnosis.verdict, diagnosis.verdict.improvement
        if baseline is not None:
            difference = verdict.value - baseline
            error, n = diagnosis.interval.error, diagnosis.interval.n
        elif better is not None:
            difference, error, n = better.difference, better.error, better.n
        else:
            raise InvalidParameter(
                "rank: no baseline: some episodes were truncated, and the statistics do not "
                "include the logged policy.",
                Fix("Set its value", "baseline"),
            )
        bound = sign * difference - float(scipy.special.stdtrit(n - 1, share)) * error - verdict.gap
        ranked.append(
            Candidate(
                verdict.target, verdict.trust, verdict.reason, verdict.value, difference, bound
            )
        )
    ranked.sort(key=lambda one: (RANK[one.trust], -one.bound))
    if baseline is not None:
        return Ranking(baseline, USER_VALUE, alpha, lower_is_better, tuple(ranked))
    assert result.logged is not None
    logged = result.logged.interval.value
    return Ranking(logged, "logged policy", alpha, lower_is_better, tuple(ranked))
