"""Parameters of an estimator by name, compatible with scikit-learn (which is not required)."""

from __future__ import annotations

import copy
from dataclasses import fields
from typing import Any, ClassVar, Self

import numpy as np

from saddleback import _registry


class Parameterised:
    """A dataclass whose ``init`` fields are its parameters; other fields are set by fitting."""

    __dataclass_fields__: ClassVar[dict[str, Any]]

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the parameters by name; ``deep`` is ignored, as scikit-learn has it.

        Examples
        --------
        >>> from saddleback import LSTD, features
        >>> LSTD(target="uniform", features=features.OneHot(2), gamma=0.9).get_params()["gamma"]
        0.9
        """
        return {f.name: getattr(self, f.name) for f in fields(self) if f.init}

    def set_params(self, **parameters: Any) -> Self:
        """Change parameters by name; learned attributes stay until the next ``fit``.

        Examples
        --------
        >>> from saddleback import LSTD, features
        >>> estimator = LSTD(target="uniform", features=features.OneHot(2), gamma=0.9)
        >>> estimator.set_params(ridge=0.1).ridge
        0.1
        >>> estimator.set_params(rigde=0.1)
        Traceback (most recent call last):
        ...
        saddleback.errors.InvalidParameter: LSTD: unknown parameter 'rigde'. Did you mean 'ridge'?
        Takes target, features, gamma, rule, shared, allow_uncovered, threads, ridge.
        """
        _registry.check_parameters(type(self).__name__, parameters, self.get_params())
        for name, value in parameters.items():
            setattr(self, name, value)
        return self

    def __sklearn_clone__(self) -> Self:
        """Return an unfitted estimator with the same parameters.

        The parameters are shared, not copied: fitting does not change them, and a classifier used
        as the target must stay fitted. A random generator, which fitting changes, is copied.
        """
        return type(self)(
            **{
                name: copy.deepcopy(value) if isinstance(value, np.random.Generator) else value
                for name, value in self.get_params().items()
            }
        )
