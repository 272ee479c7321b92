"""A rule is a record of independent choices; `saddleback.engine` runs any of them."""

from __future__ import annotations

from dataclasses import MISSING, dataclass, fields

from saddleback.errors import InvalidParameter
from saddleback.rules.bootstraps import Bootstrap
from saddleback.rules.emphasis import FollowOn
from saddleback.rules.forms import Form
from saddleback.rules.traces import Trace


@dataclass(frozen=True)
class Rule:
    """One learning rule: a trace, a form and a bootstrap, and for ETD an emphasis.

    The trace says κ, the bootstrap b and w, the form what Δθ and Δω are made of (`Coefficients`):

        e_t = γ_t κ_t e_{t−1} + w_t φ_t        δ_t = R_t + γ_{t+1} b_tᵀθ − φ_tᵀθ

    Two rules are equal when their choices are. ``str`` gives the algorithm's name where there is
    one, ``repr`` always the composition.

    Examples
    --------
    >>> from saddleback.rules import Correction, Expected, Retrace
    >>> Rule(trace=Retrace(0.9), form=Correction(), bootstrap=Expected())
    Rule(trace=Retrace(lam=0.9), form=Correction(), bootstrap=Expected())
    >>> from saddleback import GES
    >>> print(GES(0.9))
    GES(0.9)
    >>> GES(0.9)
    Rule(trace=Importance(lam=0.9), form=Saddle(), bootstrap=Expected())
    """

    trace: Trace
    form: Form
    bootstrap: Bootstrap
    emphasis: FollowOn | None = None

    def __post_init__(self) -> None:
        parts = {"trace": Trace, "form": Form, "bootstrap": Bootstrap}
        for part, kind in parts.items():
            value = getattr(self, part)
            if not isinstance(value, kind):
                hint = f" Did you mean {value.__name__}(...)?" if isinstance(value, type) else ""
                raise InvalidParameter(
                    f"Rule: {part} must be a {kind.__name__}, got {value!r}.{hint}"
                )
        if self.emphasis is None:
            return
        if not isinstance(self.emphasis, FollowOn):
            raise InvalidParameter(f"Rule: emphasis must be a FollowOn, got {self.emphasis!r}.")
        if self.bootstrap.values != "state":
            raise InvalidParameter(
                "Rule: an emphasis weighs states, so it needs the bootstrap State(), "
                f"got {self.bootstrap!r}."
            )

    @property
    def values(self) -> str:
        """Which values are learned: "action" or "state"."""
        return self.bootstrap.values

    @property
    def kind(self) -> tuple[type, ...]:
        """Types of the parts: what two rules that differ only in parameters have in common."""
        return tuple(type(getattr(self, f.name)) for f in fields(self))

    @property
    def name(self) -> str:
        """Name of the algorithm with its parameters, or empty if it has none."""
        name = NAMES.get(self.kind, "")
        if not name or (self.emphasis is not None and _parameters(self.emphasis) != self._lam):
            return ""
        return f"{name}({', '.join(self._lam + _parameters(self.form))})"

    @property
    def _lam(self) -> list[str]:
        return _parameters(self.trace)

    def __str__(self) -> str:
        return self.name or repr(self)

    def __repr__(self) -> str:
        choices = {f.name: getattr(self, f.name) for f in fields(self)}
        shown = (f"{part}={value!r}" for part, value in choices.items() if value is not None)
        return f"Rule({', '.join(shown)})"


NAMES: dict[tuple[type, ...], str] = {}
"""Names of algorithms by the kind of rule they are; filled by `saddleback.rules.named`."""


def _parameters(part: Trace | Form | FollowOn) -> list[str]:
    """Return parameters of a part as text; those that have a default only where they differ."""

    def text(value: object) -> str:
        return f"{value:.12g}" if isinstance(value, float) else repr(value)

    return [
        text(getattr(part, f.name))
        if f.default is MISSING
        else f"{f.name}={text(getattr(part, f.name))}"
        for f in fields(part)
        if getattr(part, f.name) != f.default
    ]
