"""The record of a learning rule; `saddleback.engine` runs any combination of its parts."""

from __future__ import annotations

import os
from dataclasses import dataclass, field, fields, replace

from saddleback.errors import InvalidParameter, RuleMismatch
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
        memory = self.trace.product_cap < float("inf")
        if (memory or self.bootstrap.weights_error) and self.form.coefficients.correction:
            part = f"{self.trace!r} has a memory" if memory else f"{self.bootstrap!r} weights δ"
            raise InvalidParameter(
                f"Rule: {part}, for which the correction x of {self.form!r} is not defined; use "
                "SemiGradient() or Saddle()."
            )
        if self.form.true_online and (
            self.bootstrap.weights_error or not self.bootstrap.is_next_phi
        ):
            raise RuleMismatch(
                f"Rule: a true on-line form needs a bootstrap that is the next φ, State() or "
                f"Sampled(), got {self.bootstrap!r}."
            )
        if self.emphasis is not None and self.form.coefficients.hybrid:
            raise InvalidParameter(f"Rule: {self.form!r} is not defined with an emphasis.")
        if memory and self.bootstrap.values == "state":
            raise InvalidParameter(
                f"Rule: {self.trace!r} needs action values: with state values, whose κ must have "
                "the factor ρ, it would not evaluate the target."
            )
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

    @classmethod
    def parse(cls, text: str, folder: str | os.PathLike[str] = ".") -> Rule:
        """Return the rule that a text describes, as on the command line and in study files.

        The text is the name of a rule, or a trace, a form and so on joined by ``+``, each with its
        parameters. A part of your own is ``path/to/module.py:Name``. The form is `Saddle` and the
        bootstrap `Expected` unless given, and a named rule without its parameter has λ = 0.

        Parameters
        ----------
        text
            The rule.
        folder
            Folder that paths in the text are relative to.

        Examples
        --------
        >>> Rule.parse("GES:0.5")
        Rule(trace=Importance(lam=0.5), form=Saddle(), bootstrap=Expected())
        >>> Rule.parse("Retrace:0.5+Correction")
        Rule(trace=Retrace(lam=0.5), form=Correction(), bootstrap=Expected())
        >>> print(Rule.parse("TDRC(0.5, eta=2)"))
        TDRC(0.5, eta=2)
        """
        from saddleback.rules.parse import parse_rule

        return parse_rule(text, folder)

    @property
    def spec(self) -> str:
        """Text that `parse` turns into this rule; parts of your own are named without their file.

        Examples
        --------
        >>> from saddleback.rules import Correction, Expected, Retrace
        >>> Rule(Retrace(0.9), Correction(), Expected()).spec
        'Retrace(0.9)+Correction'
        """
        from saddleback.rules.parse import named_text, part_text

        shown = (part for part in self._parts.values() if part not in (None, Expected()))
        return named_text(self) or "+".join(map(part_text, shown))

    @property
    def name(self) -> str:
        """Name of the algorithm with its parameters, or empty if it has none."""
        from saddleback.rules.parse import named_text, short_text

        return named_text(self, short_text)

    def with_lambda(self, lam: float) -> Rule | None:
        """Return the rule with another λ in its trace, and no label; None if that has no λ.

        Examples
        --------
        >>> from saddleback import GES, GTD
        >>> print(GES(0.9).with_lambda(0.0), GTD().with_lambda(0.0))
        GES(0) None
        """
        trace = self.trace.with_lambda(lam)
        return None if trace is None else replace(self, trace=trace, label="")

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

    def __str__(self) -> str:
        return self.name or repr(self)

    def __repr__(self) -> str:
        choices = self._parts | {"label": self.label or None}
        shown = (f"{part}={value!r}" for part, value in choices.items() if value is not None)
        return f"Rule({', '.join(shown)})"
