"""The data card of a log: how much there is, how it ends, how likely its actions were."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from saddleback._display import Tabular, card_html, html_table, shorten
from saddleback._typing import FloatArray
from saddleback.log.diagnostics import Finding

if TYPE_CHECKING:
    import numpy.typing as npt

    from saddleback.log.row_checks import RowChecks
    from saddleback.log.segmentation import Segmenter


@dataclass(frozen=True, eq=False, repr=False)
class LogSummary(Tabular):
    """What a log holds, and what is wrong with it.

    `to_pandas` and `to_polars` have the columns ``quantity`` and ``value``: counts, rewards,
    propensities, and ``share of …`` for each action.

    Attributes
    ----------
    rows, episodes
        How many.
    terminated, truncated, stops
        How episodes end: the task ended; cut short; neither is said, so treated as cut short.
    with_next
        How many of those not terminated say what the next observation was.
    lost
        Last transitions without a next observation, which are dropped.
    reward
        Least, mean and greatest reward.
    low, high
        Range of each entry of the observation.
    propensity
        Least and median μ of the actions taken, or None.
    mean_return
        Mean discounted return of terminated episodes, if a discount was given.
    actions
        Names of the actions.
    taken
        How often each was taken.
    estimated
        How propensities were estimated, if they were.
    findings
        All that is wrong, errors first.

    Examples
    --------
    >>> from saddleback import collect, problems
    >>> card = collect(problems.mountain_car(), episodes=5, rng=0).summary(gamma=0.99)
    >>> card.episodes, card.terminated, card.findings
    (5, 5, ())
    >>> print(card.to_pandas().set_index("quantity").value["episodes"])
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

    @classmethod
    def of(
        cls,
        log: Any,
        inspection: RowChecks,
        segmenter: Segmenter,
        findings: list[Finding],
        gamma: float | None,
        mean_return: float | None,
    ) -> LogSummary:
        """Sum a pass over a log up."""
        ended = segmenter.terminated + (segmenter.truncated if log.time_limit == "task" else 0)
        unended = segmenter.terminated + segmenter.truncated + segmenter.stops - ended
        if gamma == 1.0 and unended > 0:
            findings = [missing_discount(unended / (ended + unended)), *findings]
        counted = np.cumsum(inspection.propensities.histogram)
        propensity = None
        if counted[-1]:
            median = int(np.searchsorted(counted, (counted[-1] + 1) // 2)) / (len(counted) - 1)
            propensity = (inspection.propensities.low, median)
        mean = inspection.reward_sum / max(1, inspection.rewards)
        return cls(
            rows=inspection.rows,
            episodes=inspection.episodes,
            terminated=segmenter.terminated,
            truncated=segmenter.truncated,
            stops=segmenter.stops,
            with_next=segmenter.with_next,
            lost=segmenter.lost,
            reward=(inspection.reward_low, mean, inspection.reward_high),
            low=inspection.low,
            high=inspection.high,
            propensity=propensity,
            mean_return=mean_return,
            actions=log.action_names,
            taken=tuple(inspection.taken.tolist()),
            estimated=log.estimated,
            findings=tuple(findings),
        )

    @property
    def errors(self) -> list[Finding]:
        """What makes the log unusable."""
        return [each for each in self.findings if each.is_error]

    def as_dict(self) -> dict[str, Any]:
        """Return it as plain data, for JSON, without the findings."""
        return {
            "rows": self.rows, "episodes": self.episodes, "terminated": self.terminated,
            "truncated": self.truncated, "stops": self.stops, "with_next": self.with_next,
            "lost": self.lost, "reward": list(self.reward), "low": self.low.tolist(),
            "high": self.high.tolist(),
            "propensity": None if self.propensity is None else list(self.propensity),
            "mean_return": self.mean_return, "taken": list(self.taken),
            "estimated": self.estimated, "text": self.text,
        }  # fmt: skip

    @property
    def text(self) -> str:
        """The card in a few lines."""
        mean = self.rows / max(1, self.episodes)
        cut = self.truncated + self.stops
        ends = f"terminated {self.terminated:,}   truncated {self.truncated:,}"
        if cut:
            ends += f" ({self.with_next:,} with next_obs)"
        lines = [f"{self.rows:,} rows, {self.episodes:,} episodes (mean {mean:.3g})   {ends}"]
        if self.stops:
            lines.append(f"{self.stops:,} episodes stop without a flag: treated as truncated")
        if self.lost:
            lines.append(
                f"{self.lost:,} last transitions dropped: no next observation to bootstrap from"
            )
        each = zip(self.actions, self.taken, strict=True)
        listed = [
            f"{name} {count / max(1, self.rows):.3g}" if name == str(k) else
            f"{k} {name} {count / max(1, self.rows):.3g}"
            for k, (name, count) in enumerate(each)
        ]  # fmt: skip
        more = f"   and {len(listed) - 8} more" if len(listed) > 8 else ""
        lines.append(f"actions, share of rows   {'   '.join(listed[:8])}{more}")
        low, middle, high = self.reward
        lines.append(f"reward  min {low:.4g}  mean {middle:.4g}  max {high:.4g}")
        if self.mean_return is not None:
            lines[-1] += f"   mean return of ended episodes {self.mean_return:.4g}"
        if self.propensity:
            low, median = self.propensity
            stamp = " (estimated)" if self.estimated else ""
            lines.append(f"behavior_prob{stamp}  min {low:.4g}  median {median:.4g}")
        else:
            lines.append("behavior_prob  unknown: estimate_behaviour(log) can estimate it")
        if not self.errors:
            lines[-1] += "   OK: order, flags, NaN"
        if self.estimated:
            lines.append(f"propensities were estimated: {self.estimated}")
        return "\n".join(lines)

    def __repr__(self) -> str:
        return shorten(
            "\n".join([self.text, *map(str, self.findings)]), "card.text, *card.findings"
        )

    def _repr_html_(self) -> str:
        parts = [html_table(["action", "rows", "share"], self._actions())]
        if self.findings:
            rows = [(each.code, each.message) for each in self.findings]
            parts.append(html_table(["code", "finding"], rows))
        facts = [(name, f"{value:,.6g}") for name, value in self._quantities()]
        if self.estimated:
            facts.append(("propensities", f"estimated: {self.estimated}"))
        wrong = f"{len(self.errors)} errors" if self.errors else "usable"
        return card_html(f"Log of {self.episodes:,} episodes: {wrong}", facts, *parts)

    def plot(self) -> npt.NDArray[np.object_]:
        """Draw how often each action was taken, and how episodes end; return the two axes.

        Examples
        --------
        >>> from saddleback import collect, problems
        >>> left, right = collect(problems.mountain_car(), episodes=5, rng=0).summary().plot()
        >>> right.get_title()
        'Ends of 5 episodes'
        """
        from saddleback.plots.summary_plots import card  # matplotlib is loaded to draw

        return card(self)

    def _actions(self) -> list[tuple[str, str, str]]:
        taken = zip(self.actions, self.taken, strict=True)
        return [(name, f"{n:,}", f"{n / max(1, self.rows):.3g}") for name, n in taken]

    def _quantities(self) -> list[tuple[str, float]]:
        """Counts and sizes by name; those that are not known are left out."""
        low, mean, high = self.reward
        least, median = self.propensity or (None, None)
        found = {
            "rows": self.rows, "episodes": self.episodes, "terminated": self.terminated,
            "truncated": self.truncated, "stop without a flag": self.stops,
            "ends with a next observation": self.with_next, "transitions dropped": self.lost,
            "least reward": low, "mean reward": mean, "greatest reward": high,
            "mean return": self.mean_return, "least propensity": least,
            "median propensity": median,
        }  # fmt: skip
        return [(name, float(value)) for name, value in found.items() if value is not None]

    def _columns(self) -> dict[str, Any]:
        rows = self._quantities()
        rows += [
            (f"share of {name}", count / max(1, self.rows))
            for name, count in zip(self.actions, self.taken, strict=True)
        ]
        return {"quantity": [name for name, _ in rows], "value": [value for _, value in rows]}


def missing_discount(share: float) -> Finding:
    """Say that a share of the episodes has no end where only an end would do."""
    return Finding(
        "E160",
        f"gamma=1 needs terminating episodes; {share:.0%} do not terminate. Use a smaller gamma, "
        "or drop them.",
    )
