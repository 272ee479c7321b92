"""Parameters of an estimator by name, as scikit-learn has them; it need not be installed."""

from __future__ import annotations

import copy
from dataclasses import fields
from typing import Any, ClassVar, Self

import numpy as np

from saddleback import _registry


class Parameterised:
    """A dataclass whose fields with ``init`` are its parameters; all others come of fitting."""

    __dataclass_fields__: ClassVar[dict[str, Any]]

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the parameters by name.

        Parameters
        ----------
        deep
            Makes no difference: it is there for scikit-learn.

        Examples
        --------
        >>> from saddleback import LSTD, features
        >>> LSTD(target="uniform", features=features.OneHot(2), gamma=0.9).get_params()["gamma"]
        0.9
        """
        return {f.name: getattr(self, f.name) for f in fields(self) if f.init}

    def set_params(self, **parameters: Any) -> Self:
        """Change parameters by name; what was learned stays until the next ``fit``.

        Examples
        --------
        >>> from saddleback import LSTD, features
        >>> one = LSTD(target="uniform", features=features.OneHot(2), gamma=0.9)
        >>> one.set_params(ridge=0.1).ridge
        0.1
        >>> one.set_params(rigde=0.1)
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
        """Return an estimator with the same parameters that has learned nothing.

        They are shared, since none is changed by fitting and a classifier that is the target must
        stay fitted; a random generator, which is changed, is copied.
        """
        return type(self)(
            **{
                name: copy.deepcopy(value) if isinstance(value, np.random.Generator) else value
                for name, value in self.get_params().items()
            }
        )
