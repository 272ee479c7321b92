"""The setting that statistics were computed for; only statistics of equal settings are merged."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Annotated, Any

from msgspec import Meta

from saddleback import _validate
from saddleback.engine import copies_of
from saddleback.errors import Fix, InvalidParameter
from saddleback.features import Custom, Features
from saddleback.log import Finding, Log, LogError, Target
from saddleback.log.callable_fingerprint import class_fingerprint, fingerprint
from saddleback.log.likely_columns import chosen_columns
from saddleback.rules import Rule
from saddleback.rules.parse import library

SEVERAL_BLOCKS = Fix("Use several blocks of episodes", "blocks", 20)
"""Fix of statistics without confidence intervals."""


@dataclass(frozen=True)
class StatisticsKey:
    """γ, rules, targets, features and all other settings that must agree for a merge."""

    # Discount, and the rules.
    gamma: Annotated[float, Meta(ge=0, le=1)]
    rules: tuple[Rule, ...]
    # Names and fingerprints of the target policies.
    targets: tuple[str, ...]
    marks: tuple[str, ...]
    features: str  # description of the features
    # Kind of values ("action" or "state"), whether actions share features, and the size of θ.
    values: Annotated[str, Meta(pattern="^(action|state)$")]
    shared: bool
    p: Annotated[int, Meta(ge=1)]
    # Names of the actions and of the entries of an observation.
    actions: tuple[str, ...]
    observation: tuple[str, ...]
    blocks: Annotated[int, Meta(ge=1)]  # number of blocks of episodes
    # Options for reading the log: dropped rows, clipped or estimated propensities, time limits.
    reading: str
    # Fingerprints of the classes of each rule, empty for a rule of saddleback.
    rule_marks: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not self.rule_marks:
            object.__setattr__(self, "rule_marks", ("",) * len(self.rules))

    @classmethod
    def of(
        cls,
        log: Log,
        rules: Sequence[Rule],
        targets: Sequence[Target],
        features: Features,
        gamma: float,
        shared: bool,
        blocks: int,
    ) -> StatisticsKey:
        """Return the setting; raise if the features do not fit the log."""
        discount = _validate.unit("Statistics", "gamma", gamma)
        check_features(log, features)
        values = rules[0].values
        names = [target.name for target in targets]
        if len(set(names)) < len(names):
            raise InvalidParameter(f"target policies need different names, got {names}.")
        copies = copies_of(log.n_actions, values, shared).shape[1]
        return cls(
            gamma=discount,
            rules=tuple(rules),
            targets=tuple(names),
            marks=tuple(target.fingerprint for target in targets),
            features=describe_features(features),
            values=values,
            shared=bool(shared),
            p=int(features.size * copies),
            actions=log.action_names,
            observation=log.roles.observations,
            blocks=_validate.count("Statistics", "blocks", blocks),
            reading=log.read_options,
            rule_marks=tuple(map(rule_mark, rules)),
        )

    def part(self, targets: range, rules: range, blocks: int) -> StatisticsKey:
        """Return the setting of some of the targets and rules, with another number of blocks."""
        return replace(
            self,
            targets=tuple(self.targets[t] for t in targets),
            marks=tuple(self.marks[t] for t in targets),
            rules=tuple(self.rules[r] for r in rules),
            rule_marks=tuple(self.rule_marks[r] for r in rules),
            blocks=blocks,
        )

    def as_dict(self) -> dict[str, Any]:
        """Return the setting as JSON data, with the rules as text, and marks only of your own."""
        data = asdict(self) | {"rules": [rule.spec for rule in self.rules]}
        if not any(self.rule_marks):
            del data["rule_marks"]
        return data

    def check_equal(self, other: StatisticsKey) -> None:
        """Raise if another setting differs, naming the first difference."""
        for name in self.__dataclass_fields__:
            one, two = getattr(self, name), getattr(other, name)
            if one != two:
                raise InvalidParameter(
                    f"merge: {FIELD_NAMES.get(name, name)} differ: {_format(one)} and "
                    f"{_format(two)}. Only statistics with equal settings can be merged; recompute "
                    "one of them."
                )


FIELD_NAMES = {
    "marks": "target policies",
    "observation": "observation columns",
    "reading": "options for reading the log",
    "rule_marks": "definitions of the rules",
}


def rule_mark(rule: Rule) -> str:
    """Return the fingerprints of the classes of a rule that are not saddleback's.

    Examples
    --------
    >>> from saddleback import GES
    >>> rule_mark(GES(0.5))
    ''
    """
    library_parts = set(library().values())
    own = (kind for kind in rule.kind if kind not in library_parts and kind is not type(None))
    return ", ".join(map(class_fingerprint, own))


def check_features(log: Log, features: Features) -> None:
    """Raise if features do not fit the observations of a log."""
    if not (hasattr(features, "encode") and hasattr(features, "size")):
        raise InvalidParameter(
            f"features must be Tiles, Fourier, … or Custom(function, size), got {features!r}."
        )
    expected = features.dimensions
    if expected not in (None, log.dimensions):
        listed = ", ".join(log.roles.observations)
        message = f"obs has {log.dimensions} columns ({listed}), features expect {expected}."
        fix = chosen_columns(expected, [])
        raise LogError(Finding("E140", message, fix))


def describe_features(features: Any) -> str:
    """Return a description of features that is equal for equal features."""
    if not isinstance(features, Custom):
        return repr(features)
    return f"Custom({fingerprint(features.function)}, size={features.size})"


def _format(value: Any) -> str:
    if isinstance(value, tuple):
        return f"({', '.join(map(str, value))})"
    return str(value)
