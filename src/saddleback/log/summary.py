"""Summary of a log: its size, how episodes end, rewards, propensities, and all findings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from saddleback._display import Tabular, card_html, html_table, shorten, visible
from saddleback._typing import FloatArray
from saddleback.errors import Fix
from saddleback.log.altered_rows import AlteredRows
from saddleback.log.diagnostics import Finding

if TYPE_CHECKING:
    import numpy.typing as npt

    from saddleback.log.segmentation import Segmenter


@dataclass(frozen=True, eq=False, repr=False)
class LogSummary(Tabular):
    """Counts and ranges of a log, and all its findings.

    `to_pandas` and `to_polars` have the columns ``quantity`` and ``value``: counts, rewards,
    propensities, and ``share of …`` for each action.

    Attributes
    ----------
    rows, episodes
        Number of rows and of episodes.
    terminated, truncated, stops
        Number of episodes that terminated, were truncated, or stop without a flag, which are
        treated as truncated.
    with_next
        Number of episodes not terminated whose next observation is known.
    lost
        Number of last transitions dropped because their next observation is unknown.
    reward
        Smallest, mean and largest reward.
    low, high
        Range of each entry of the observation.
    propensity
        Smallest and median propensity of the logged actions, or None.
    mean_return
        Mean discounted return of terminated episodes, if a discount was given.
    actions
        Names of the actions.
    taken
        Number of rows with each action.
    estimated
        How propensities were estimated, or None if they were not.
    findings
        All findings, errors first.
    calibration
        As for `Log`.
    altered
        What was dropped, cut or clipped.
    time_limit_steps
        The common length of all truncated episodes, if no episode is longer.
    action_range
        Name, smallest and largest value of each entry of a continuous action.

    Examples
    --------
    >>> from saddleback import collect, problems
    >>> summary = collect(problems.mountain_car(), episodes=5, rng=0).summary(gamma=0.99)
    >>> summary.episodes, summary.terminated, summary.findings
    (5, 5, ())
    >>> print(summary.to_pandas().set_index("quantity").value["episodes"])
    5.0
    """

    rows: int
    episodes: int
    terminated: int
    truncated: int
    stops: int
    with_next: int
    lost: int
    reward: tuple[float, float, float]
    low: FloatArray
    high: FloatArray
    propensity: tuple[float, float] | None
    mean_return: float | None
    actions: tuple[str, ...]
    taken: tuple[int, ...]
    estimated: str | None
    findings: tuple[Finding, ...]
    calibration: tuple[Mapping[str, float], ...] = ()
    altered: AlteredRows = field(default_factory=AlteredRows)
    time_limit_steps: int | None = None
    action_range: tuple[tuple[str, float, float], ...] = ()

    @property
    def holds_decisions(self) -> bool:
        """Whether every episode is one row that terminated."""
        return self.rows == self.episodes == self.terminated

    @property
    def errors(self) -> list[Finding]:
        """The findings that make the log unusable."""
        return [finding for finding in self.findings if finding.is_error]

    def as_dict(self) -> dict[str, Any]:
        """Return plain data for JSON, without the findings."""
        return {
            "rows": self.rows, "episodes": self.episodes, "terminated": self.terminated,
            "truncated": self.truncated, "stops": self.stops, "with_next": self.with_next,
            "lost": self.lost, "reward": list(self.reward), "low": self.low.tolist(),
            "high": self.high.tolist(),
            "propensity": None if self.propensity is None else list(self.propensity),
            "mean_return": self.mean_return, "taken": list(self.taken),
            "estimated": self.estimated, "calibration": [dict(row) for row in self.calibration],
            "altered": asdict(self.altered),
            "time_limit_steps": self.time_limit_steps, "text": self.text,
        }  # fmt: skip

    @property
    def text(self) -> str:
        """The summary in a few lines."""
        mean_length = self.rows / max(1, self.episodes)
        ends = f"terminated {self.terminated:,}   truncated {self.truncated:,}"
        if self.truncated + self.stops:
            ends += f" ({self.with_next:,} with next_obs)"
        lines = [
            f"{self.rows:,} rows, {self.episodes:,} episodes (mean {mean_length:.3g})   {ends}"
        ]
        if self.holds_decisions:
            lines = [f"{self.rows:,} single decisions"]
        if self.time_limit_steps is not None:
            lines.append(
                f"all truncated episodes have {self.time_limit_steps:,} steps: values continue "
                "beyond them, unless the task ends there and that is given as its horizon"
            )
        lines += self.altered.lines
        names = [visible(name, keep="") for name in self.actions]
        listed = [
            f"{name} {count / max(1, self.rows):.3g}" if name == str(k) else
            f"{k} {name} {count / max(1, self.rows):.3g}"
            for k, (name, count) in enumerate(zip(names, self.taken, strict=True))
        ]  # fmt: skip
        what = "actions, share of rows"
        if self.action_range:
            what = "continuous actions"
            listed = [
                f"{visible(name, keep='')} {low:.4g} to {high:.4g}"
                for name, low, high in self.action_range
            ]
        more = f"   and {len(listed) - 8} more" if len(listed) > 8 else ""
        lines.append(f"{what}   {'   '.join(listed[:8])}{more}")
        low, mean, high = self.reward
        lines.append(f"reward  min {low:.4g}  mean {mean:.4g}  max {high:.4g}")
        if self.mean_return is not None and not self.holds_decisions:
            lines[-1] += f"   mean return of completed episodes {self.mean_return:.4g}"
        if self.propensity:
            low, median = self.propensity
            stamp = " (estimated)" if self.estimated else ""
            lines.append(f"behavior_prob{stamp}  min {low:.4g}  median {median:.4g}")
        else:
            estimable = "" if self.action_range else "; it can be estimated"
            lines.append(f"behavior_prob  unknown{estimable}")
        if not self.errors:
            lines[-1] += f"   OK: {'' if self.holds_decisions else 'order, flags, '}no NaN"
        if self.estimated:
            lines.append(f"propensities were estimated: {self.estimated}")
        return "\n".join(lines)

    def __repr__(self) -> str:
        return shorten(
            "\n".join([self.text, *map(str, self.findings)]), "summary.text, *summary.findings"
        )

    def _repr_html_(self) -> str:
        parts = [html_table(["action", "rows", "share"], self._actions())]
        if self.findings:
            rows = [(finding.code, finding.message) for finding in self.findings]
            parts.append(html_table(["code", "finding"], rows))
        facts = [(name, f"{value:,.6g}") for name, value in self._quantities()]
        if self.estimated:
            facts.append(("propensities", f"estimated: {self.estimated}"))
        status = f"{len(self.errors)} errors" if self.errors else "usable"
        unit = "decisions" if self.holds_decisions else "episodes"
        return card_html(f"Log of {self.episodes:,} {unit}: {status}", facts, *parts)

    def plot(self) -> npt.NDArray[np.object_]:
        """Plot the share of each action and how episodes end; return the two axes.

        Examples
        --------
        >>> from saddleback import collect, problems
        >>> left, right = collect(problems.mountain_car(), episodes=5, rng=0).summary().plot()
        >>> right.get_title()
        'Ends of 5 episodes'
        """
        from saddleback.plots.summary_plots import plot_log_summary  # imports matplotlib

        return plot_log_summary(self)

    def _actions(self) -> list[tuple[str, str, str]]:
        counts = zip(self.actions, self.taken, strict=True)
        return [(name, f"{n:,}", f"{n / max(1, self.rows):.3g}") for name, n in counts]

    def _quantities(self) -> list[tuple[str, float]]:
        """Quantities by name, without those that are unknown."""
        low, mean, high = self.reward
        smallest, median = self.propensity or (None, None)
        quantities = {
            "rows": self.rows, "episodes": self.episodes, "terminated": self.terminated,
            "truncated": self.truncated, "stop without a flag": self.stops,
            "ends with a next observation": self.with_next, "transitions dropped": self.lost,
            "smallest reward": low, "mean reward": mean, "largest reward": high,
            "mean return": self.mean_return, "smallest propensity": smallest,
            "median propensity": median,
        }  # fmt: skip
        return [(name, float(value)) for name, value in quantities.items() if value is not None]

    def _columns(self) -> dict[str, Any]:
        rows = self._quantities()
        rows += [
            (f"share of {name}", count / max(1, self.rows))
            for name, count in zip(self.actions, self.taken, strict=True)
        ]
        return {"quantity": [name for name, _ in rows], "value": [value for _, value in rows]}


def undiscounted_error(share: float, segmenter: Segmenter) -> Finding:
    """Return the error for γ = 1 if a share of the episodes does not terminate."""
    message = f"gamma=1 requires terminating episodes, but {share:.0%} do not terminate."
    limit = segmenter.time_limit_steps
    if segmenter.stops and not segmenter.truncated:
        fix = Fix("If they ended with their last row, say so", "episodes_end", "terminated")
    elif limit is not None and not segmenter.stops:
        fix = Fix(f"If the task ends after {limit:,} steps, say so", "time_limit", "task")
    else:
        fix = Fix("Use a smaller discount", "gamma", 0.99)
    return Finding("E160", message, fix)
