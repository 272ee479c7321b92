"""Many candidate policies against one baseline, with lower bounds that hold for all at once.

With T candidates, each bound is Student's at level 1 − α/T (Bonferroni), less the gap, so that with
probability 1 − α none claims too much, as far as the gaps are known. Only what is usable can be the
best.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from scipy.special import stdtrit

from saddleback import _validate
from saddleback._display import Tabular, card_html, html_table, shorten
from saddleback.errors import InvalidParameter
from saddleback.verdict.gates import DOUBTFUL, REFUSED, USABLE
from saddleback.verdict.number_format import number
from saddleback.verdict.result import Evaluation
from saddleback.verdict.text_report import WIDTH, Line, wrap
from saddleback.verdict.verdict import RANK

GIVEN = "as given"
"""What a baseline is of that is a number."""

NAME = 24
"""Letters of a candidate's name that are shown in a table."""

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@dataclass(frozen=True)
class Candidate:
    """One policy against the baseline.

    Attributes
    ----------
    name, trust, reason
        Which, whether its value can be trusted, and why or why not.
    value, difference
        V̂, and V̂ less the baseline.
    bound
        By how much at least it is better than the baseline, all candidates together; where less is
        better, by how much at least it is lower.
    """

    name: str
    trust: str
    reason: str
    value: float
    difference: float
    bound: float

    @property
    def beats(self) -> bool:
        """Whether it is usable, and better for sure."""
        return self.trust == USABLE and self.bound > 0


@dataclass(frozen=True, repr=False)
class Ranking(Tabular):
    """Candidates, those with the best bounds first.

    `to_pandas` and `to_polars` have a row for each candidate, with the columns of `as_dict` and
    ``beats``, whether it is better for sure.

    Attributes
    ----------
    baseline, of
        What they are held against, and what that is the value of.
    alpha, lower_is_better
        Chance that any bound claims too much, and whether rewards are costs.
    candidates
        Usable ones first, then doubtful and refused ones.

    Examples
    --------
    >>> from saddleback import Log, evaluate, features
    >>> from saddleback.problems.synthetic_clinic import DOSES, SIGNS, clinic, earlier
    >>> log = Log(clinic(1000, rng=0), observations=SIGNS, actions=DOSES)
    >>> box = features.Polynomial((50, 50, 0), (150, 130, 12), degree=2)
    >>> found = evaluate(log, {"new": earlier}, features=box, gamma=0.97, methods=[])
    >>> ranking = rank(found)
    >>> ranking.best.name, ranking.status
    ('new', 0)
    """

    baseline: float
    of: str
    alpha: float
    lower_is_better: bool
    candidates: tuple[Candidate, ...]

    @property
    def best(self) -> Candidate | None:
        """The one with the best bound, if that beats the baseline."""
        return next((each for each in self.candidates if each.beats), None)

    @property
    def status(self) -> int:
        """0 if one beats the baseline, 5 if no usable one does, 4 if none is usable, else 3."""
        words = {each.trust for each in self.candidates}
        if self.best is not None:
            return 0
        return 5 if USABLE in words else 4 if DOUBTFUL in words else 3

    def as_dict(self) -> dict[str, Any]:
        """Return it as plain data, for JSON."""
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
            USABLE: [each.name for each in self.candidates if each.trust == USABLE],
            DOUBTFUL: self._reasons(DOUBTFUL),
            REFUSED: self._reasons(REFUSED),
            "candidates": [asdict(each) for each in self.candidates],
        }

    def _reasons(self, trust: str) -> dict[str, str]:
        return {each.name: each.reason for each in self.candidates if each.trust == trust}

    @property
    def answer(self) -> str:
        """Which candidate is better than the baseline, by how much at least, in one sentence."""
        against = (
            f"{'baseline' if self.of == GIVEN else self.of} ({number(self.baseline, self._places)})"
        )
        best = self.best
        if best is not None:
            side = "lower" if self.lower_is_better else "higher"
            others = sum(each.beats for each in self.candidates) - 1
            more = f"; {others} more {'are' if others > 1 else 'is'} better too" if others else ""
            least = _rounded_down(best.bound, self._places)
            return (
                f"Better: {best.name} is at least {least} {side} than the {against}, with "
                f"{1 - self.alpha:.0%} confidence; the estimate is reliable{more}."
            )
        if any(each.trust == USABLE for each in self.candidates):
            return f"Inconclusive: no candidate is shown to be better than the {against}."
        count = len(self.candidates)
        none = "the estimate is not" if count == 1 else f"none of {count} estimates is"
        return f"No answer: {none} reliable."

    @property
    def outcome(self) -> str:
        """better, inconclusive, doubtful or refused: what the answer is."""
        return {0: "better", 5: "inconclusive", 4: DOUBTFUL, 3: REFUSED}[self.status]

    @property
    def _places(self) -> int:
        """Decimals by which differences and bounds are told apart, in two digits."""
        sign = -1.0 if self.lower_is_better else 1.0
        sizes = [abs(each.bound - sign * each.difference) for each in self.candidates]
        least = min((size for size in sizes if 0 < size < math.inf), default=1.0)
        return max(0, 1 - math.floor(math.log10(least)))

    @property
    def text(self) -> str:
        """The answer, and a table of all candidates."""
        return "\n".join(line.text for line in self.lines())

    def lines(self, width: int = WIDTH) -> list[Line]:
        """Return the text in lines, those of the answer with its outcome."""
        table = self._table()
        widths = [max(len(row[k]) for row in table) for k in range(4)]
        rows = [
            "  ".join([f"{row[0]:<{widths[0]}}", *map(str.rjust, row[1:4], widths[1:4]), row[4]])
            for row in table
        ]
        if max(map(len, rows)) > width:  # too narrow for columns: one below the other
            rows = []
            for row in table[1:]:
                named = [
                    f"{head} {cell}" for head, cell in zip(table[0][1:4], row[1:4], strict=True)
                ]
                rows += [*wrap("", row[0], "", width)]
                rows += wrap("  ", ", ".join([*named, row[4]]), "  ", width)
        answer = [Line(line, self.outcome) for line in wrap("", self.answer, width=width)]
        return [*answer, *map(Line, ["", *rows, "", *wrap("", self._bounds, "", width)])]

    def _table(self) -> list[tuple[str, str, str, str, str]]:
        """The candidates as text, with a header."""
        places = self._places
        table = [("candidate", "value", "difference", self._side, "reliability")]
        for candidate in self.candidates:
            bound = -candidate.bound if self.lower_is_better else candidate.bound
            value, difference, limit = (
                number(candidate.value, places), number(candidate.difference, places, sign=True),
                number(bound, places, sign=True),
            )  # fmt: skip
            if candidate.trust == REFUSED:
                value = difference = limit = "–"
            mark = f"{candidate.trust}{'  ← better' if candidate.beats else ''}"
            table.append((candidate.name[:NAME], value, difference, limit, mark))
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
        """Draw the differences to the baseline with the bounds that hold for all at once.

        Parameters
        ----------
        ax
            Where to draw; a new figure if not given.

        Examples
        --------
        >>> sure = Candidate("new", "usable", "", value=1.2, difference=0.2, bound=0.1)
        >>> print(Ranking(1.0, "logged policy", 0.05, False, (sure,)).plot().get_xlabel())
        difference to the logged policy, 1 (higher is better)
        """
        from saddleback.plots.summary_plots import ranking  # matplotlib is loaded to draw

        return ranking(self, ax)

    def _columns(self) -> dict[str, Any]:
        rows = [asdict(one) | {"beats": one.beats} for one in self.candidates]
        return {name: [row[name] for row in rows] for name in rows[0]}


def _rounded_down(bound: float, places: int) -> str:
    """Write a positive bound so that it does not claim more than it is.

    Examples
    --------
    >>> _rounded_down(39.715, 1), _rounded_down(0.03, 0)
    ('39.7', '0.03')
    """
    while places < 12 and math.floor(bound * 10.0**places) == 0:
        places += 1
    return number(math.floor(bound * 10.0**places) / 10.0**places, places)


def rank(found: Evaluation, *, alpha: float = 0.05, baseline: float | None = None) -> Ranking:
    """Rank the targets of an evaluation against the logged policy, or against a number.

    With T targets, d the difference to the baseline and s its standard error,

        improvement ≥ d − t_{n−1, 1−α/T}·s − gap    for all targets, with probability 1 − α

    Parameters
    ----------
    found
        Of `saddleback.evaluate` with several targets, or of statistics.
    alpha
        Chance that any of the bounds claims too much.
    baseline
        A number to beat; the logged policy if not given.

    Examples
    --------
    >>> from saddleback import Log, evaluate, features
    >>> from saddleback.problems.synthetic_clinic import DOSES, SIGNS, clinic, earlier, usual
    >>> log = Log(clinic(1000, rng=0), observations=SIGNS, actions=DOSES)
    >>> box = features.Polynomial((50, 50, 0), (150, 130, 12), degree=2)
    >>> found = evaluate(log, {"new": earlier, "old": usual}, features=box, gamma=0.97)
    >>> [(each.name, each.trust, each.beats) for each in rank(found).candidates]
    [('new', 'usable', True), ('old', 'usable', False)]
    """
    _validate.instance("rank", "result", found, Evaluation)
    if baseline is not None:
        baseline = _validate.number("rank", "baseline", baseline)
    if not 0 < _validate.unit("rank", "alpha", alpha) < 1:
        raise InvalidParameter(f"rank: alpha must be in (0, 1), got {alpha!r}.")
    if not found.diagnoses:
        raise InvalidParameter(
            "rank: there are no verdicts to rank by: sum up in several blocks (blocks=20)."
        )
    lower_is_better = found.lower_is_better
    sign = -1.0 if lower_is_better else 1.0
    share = 1.0 - alpha / len(found.diagnoses)
    ranked = []
    for each in found.diagnoses:
        verdict, better = each.verdict, each.verdict.improvement
        if baseline is not None:
            difference, error, n = verdict.value - baseline, each.interval.error, each.interval.n
        elif better is not None:
            difference, error, n = better.difference, better.error, better.n
        else:
            raise InvalidParameter(
                "rank: episodes were cut short and the statistics hold nothing of the logged "
                "policy, so there is no baseline: give a number, baseline=…"
            )
        bound = sign * difference - float(stdtrit(n - 1, share)) * error - verdict.gap
        ranked.append(
            Candidate(
                verdict.target, verdict.trust, verdict.reason, verdict.value, difference, bound
            )
        )
    ranked.sort(key=lambda one: (RANK[one.trust], -one.bound))
    if baseline is not None:
        return Ranking(baseline, GIVEN, alpha, lower_is_better, tuple(ranked))
    assert found.logged is not None
    held = found.logged.interval.value
    return Ranking(held, "logged policy", alpha, lower_is_better, tuple(ranked))
