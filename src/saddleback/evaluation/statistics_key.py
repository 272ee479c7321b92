"""What statistics are statistics of; only those of one setting may be added."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from saddleback import _validate
from saddleback.engine import copies_of
from saddleback.errors import InvalidParameter
from saddleback.features import Custom, Features
from saddleback.log import Finding, Log, LogError, Target
from saddleback.log.callable_fingerprint import fingerprint
from saddleback.rules import Rule


@dataclass(frozen=True)
class Setting:
    """γ, rules, targets, features and all else that must agree before sums are added.

    Attributes
    ----------
    gamma, rules
        Discount, and the rules.
    targets, marks
        Names of the target policies, and what tells them from others.
    features
        The features in words.
    values, shared, p
        Which values are learned, whether features are shared by actions, and their number.
    actions, observation
        Names of the actions and of the entries of an observation.
    blocks
        In how many blocks sums are kept.
    reading
        How the log was read: what was dropped, raised or estimated, and what a time limit means.
    """

    gamma: float
    rules: tuple[Rule, ...]
    targets: tuple[str, ...]
    marks: tuple[str, ...]
    features: str
    values: str
    shared: bool
    p: int
    actions: tuple[str, ...]
    observation: tuple[str, ...]
    blocks: int
    reading: str

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
    ) -> Setting:
        """Describe what is about to be summed, refusing features that do not fit."""
        discount = _validate.unit("Statistics", "gamma", gamma)
        fit(log, features)
        values = rules[0].values
        names = [each.name for each in targets]
        if len(set(names)) < len(names):
            raise InvalidParameter(f"target policies need different names, got {names}.")
        copies = copies_of(log.n_actions, values, shared).shape[1]
        return cls(
            gamma=discount,
            rules=tuple(rules),
            targets=tuple(names),
            marks=tuple(each.fingerprint for each in targets),
            features=describe(features),
            values=values,
            shared=bool(shared),
            p=int(features.size * copies),
            actions=log.action_names,
            observation=log.roles.observations,
            blocks=_validate.count("Statistics", "blocks", blocks),
            reading=log.read_options,
        )

    def same(self, other: Setting) -> None:
        """Refuse another setting, naming the first difference."""
        for name in self.__dataclass_fields__:
            one, two = getattr(self, name), getattr(other, name)
            if one != two:
                raise InvalidParameter(
                    f"merge: {WORDS.get(name, name)} differ: {_say(one)} and {_say(two)}. Only "
                    "statistics of one setting add up; compute them again alike."
                )


WORDS = {
    "marks": "target policies",
    "observation": "observation columns",
    "reading": "ways of reading the log",
}


def fit(log: Log, features: Features) -> None:
    """Refuse features that do not fit the observations of a log."""
    if not (hasattr(features, "encode") and hasattr(features, "size")):
        raise InvalidParameter(
            f"features must be Tiles, Fourier, … or Custom(function, size), got {features!r}."
        )
    wanted = features.dimensions
    if wanted not in (None, log.dimensions):
        listed = ", ".join(log.roles.observations)
        raise LogError(
            [
                Finding(
                    "E140",
                    f"obs has {log.dimensions} columns ({listed}), features expect {wanted}. "
                    "Choose columns: observations=[…].",
                )
            ]
        )


def describe(features: Any) -> str:
    """Say which features these are, so that equal ones read alike."""
    if not isinstance(features, Custom):
        return repr(features)
    return f"Custom({fingerprint(features.function)}, size={features.size})"


def _say(value: Any) -> str:
    if isinstance(value, tuple):
        return f"({', '.join(map(str, value))})"
    return str(value)
