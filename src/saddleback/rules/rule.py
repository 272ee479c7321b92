"""The record of a learning rule; `saddleback.engine` runs any combination of its parts."""

from __future__ import annotations

from dataclasses import MISSING, dataclass, field, fields

from saddleback.errors import InvalidParameter
from saddleback.rules.bootstraps import Bootstrap, Expected
from saddleback.rules.emphasis import FollowOn
from saddleback.rules.forms import Form
from saddleback.rules.traces import Trace


@dataclass(frozen=True)
class Rule:
    """One learning rule: a trace, a form and a bootstrap, and for ETD an emphasis.

    The trace defines κ, the bootstrap b and w, and the form the updates Δθ and Δω (`Coefficients`):

        e_t = γ_t κ_t e_{t−1} + w_t φ_t        δ_t = R_t + γ_{t+1} b_tᵀθ − φ_tᵀθ

    Two rules are equal if their parts are; labels are ignored. ``str`` gives the name of the
    algorithm if it has one, ``repr`` always the composition, and `display_name` the text for
    legends and tables.

    Parameters
    ----------
    trace, form, bootstrap, emphasis
        The parts.
    label
        Name of the rule in legends and tables.

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
    >>> Rule(Retrace(0.9), Correction(), Expected(), label="Retrace, corrected").display_name
    'Retrace, corrected'
    """

    trace: Trace
    form: Form
    bootstrap: Bootstrap
    emphasis: FollowOn | None = None
    label: str = field(default="", compare=False)

    def __post_init__(self) -> None:
        parts = {"trace": Trace, "form": Form, "bootstrap": Bootstrap}
        for part, kind in parts.items():
            value = getattr(self, part)
            if not isinstance(value, kind):
                hint = f" Did you mean {value.__name__}(...)?" if isinstance(value, type) else ""
                raise InvalidParameter(
                    f"Rule: {part} must be a {kind.__name__}, got {value!r}.{hint}"
                )
        if not isinstance(self.label, str):
            raise InvalidParameter(f"Rule: label must be text, got {self.label!r}.")
        if self.emphasis is None:
            return
        if not isinstance(self.emphasis, FollowOn):
            raise InvalidParameter(f"Rule: emphasis must be a FollowOn, got {self.emphasis!r}.")
        if self.bootstrap.values != "state":
            raise InvalidParameter(
                "Rule: an emphasis weights states, so it needs the bootstrap State(), "
                f"got {self.bootstrap!r}."
            )

    @property
    def values(self) -> str:
        """Which values are learned: "action" or "state"."""
        return self.bootstrap.values

    @property
    def kind(self) -> tuple[type, ...]:
        """Types of the parts, which rules that differ only in parameters share."""
        return tuple(map(type, self._parts.values()))

    @property
    def _parts(self) -> dict[str, Trace | Form | Bootstrap | FollowOn | None]:
        return {f.name: getattr(self, f.name) for f in fields(self) if f.compare}

    @property
    def name(self) -> str:
        """Name of the algorithm with its parameters, or empty if it has none."""
        name = NAMES.get(self.kind, "")
        if not name or (self.emphasis is not None and _parameters(self.emphasis) != self._lam):
            return ""
        return f"{name}({', '.join(self._lam + _parameters(self.form))})"

    @property
    def display_name(self) -> str:
        """Text for legends and tables: the label, the name of the algorithm, or the parts.

        Examples
        --------
        >>> from saddleback import GES
        >>> from saddleback.rules import Correction, Expected, Retrace
        >>> GES(0.9).display_name
        'GES(0.9)'
        >>> Rule(Retrace(0.9), Correction(), Expected()).display_name
        'Retrace(lam=0.9) + Correction'
        """
        if self.label or self.name:
            return self.label or self.name
        shown = (part for part in self._parts.values() if part not in (None, Expected()))
        return " + ".join(repr(part).removesuffix("()") for part in shown)

    @property
    def _lam(self) -> list[str]:
        return _parameters(self.trace)

    def __str__(self) -> str:
        return self.name or repr(self)

    def __repr__(self) -> str:
        choices = self._parts | {"label": self.label or None}
        shown = (f"{part}={value!r}" for part, value in choices.items() if value is not None)
        return f"Rule({', '.join(shown)})"


NAMES: dict[tuple[type, ...], str] = {}
"""Names of algorithms by the kind of rule they are; filled by `saddleback.rules.named`."""


def _parameters(part: Trace | Form | FollowOn) -> list[str]:
    """Return parameters of a part as text; those equal to their default are omitted."""

    def text(value: object) -> str:
        return f"{value:.12g}" if isinstance(value, float) else repr(value)

    return [
        text(getattr(part, f.name))
        if f.default is MISSING
        else f"{f.name}={text(getattr(part, f.name))}"
        for f in fields(part)
        if getattr(part, f.name) != f.default
    ]
