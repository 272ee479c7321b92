"""Off-policy evaluation with linear function approximation.

Estimate the value of a target policy π from data logged under a behaviour policy μ (`evaluate`),
and analyse the temporal-difference rules that do so. Rules are records (`GES`, `GQ`, …), problems
are exact (`FiniteMDP`, `Problem`, `saddleback.problems`), `System.exact` is the linear system of a
rule on a problem, and `learn` runs the rule.

Subpackages are imported on first use.
"""

from __future__ import annotations

import importlib
import logging
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

logging.getLogger("saddleback").addHandler(logging.NullHandler())  # silent unless configured

if TYPE_CHECKING:
    from saddleback import checks as checks
    from saddleback import errors as errors
    from saddleback import features as features
    from saddleback import policies as policies
    from saddleback import problems as problems
    from saddleback import report as report
    from saddleback import rules as rules
    from saddleback import sweep as sweep
    from saddleback import system as system
    from saddleback import theory as theory
    from saddleback.engine import Experience as Experience
    from saddleback.engine import Schedule as Schedule
    from saddleback.engine import Stream as Stream
    from saddleback.engine import inverse as inverse
    from saddleback.engine import inverse_sqrt as inverse_sqrt
    from saddleback.engine import sample as sample
    from saddleback.finite_mdp import FiniteMDP as FiniteMDP
    from saddleback.learning import Run as Run
    from saddleback.learning.iterate import iterate as iterate
    from saddleback.learning.learn import learn as learn
    from saddleback.learning.learn_offline import learn_offline as learn_offline
    from saddleback.log import Log as Log
    from saddleback.log import LogError as LogError
    from saddleback.log import as_target as as_target
    from saddleback.log import estimate_behaviour as estimate_behaviour
    from saddleback.log.collect import collect as collect
    from saddleback.ope import FQE as FQE
    from saddleback.ope import LSTD as LSTD
    from saddleback.ope import SVRG as SVRG
    from saddleback.ope import Statistics as Statistics
    from saddleback.ope import Streamed as Streamed
    from saddleback.ope import Verdict as Verdict
    from saddleback.ope import load_statistics as load_statistics
    from saddleback.ope import rank as rank
    from saddleback.ope import save_statistics as save_statistics
    from saddleback.ope.doubly_robust import doubly_robust as doubly_robust
    from saddleback.ope.evaluate import evaluate as evaluate
    from saddleback.ope.importance_sampling import importance_sampling as importance_sampling
    from saddleback.problem import Problem as Problem
    from saddleback.rules import ABQ as ABQ
    from saddleback.rules import ETD as ETD
    from saddleback.rules import GES as GES
    from saddleback.rules import GQ as GQ
    from saddleback.rules import GTB as GTB
    from saddleback.rules import GTD as GTD
    from saddleback.rules import GTD2 as GTD2
    from saddleback.rules import TD as TD
    from saddleback.rules import TDC as TDC
    from saddleback.rules import TDRC as TDRC
    from saddleback.rules import ActionDependent as ActionDependent
    from saddleback.rules import Bootstrap as Bootstrap
    from saddleback.rules import Constant as Constant
    from saddleback.rules import Correction as Correction
    from saddleback.rules import Expected as Expected
    from saddleback.rules import ExpectedSarsa as ExpectedSarsa
    from saddleback.rules import FollowOn as FollowOn
    from saddleback.rules import Form as Form
    from saddleback.rules import GRetrace as GRetrace
    from saddleback.rules import Importance as Importance
    from saddleback.rules import NoTrace as NoTrace
    from saddleback.rules import RegularisedCorrection as RegularisedCorrection
    from saddleback.rules import Retrace as Retrace
    from saddleback.rules import Rule as Rule
    from saddleback.rules import Saddle as Saddle
    from saddleback.rules import Sampled as Sampled
    from saddleback.rules import Sarsa as Sarsa
    from saddleback.rules import SemiGradient as SemiGradient
    from saddleback.rules import State as State
    from saddleback.rules import Trace as Trace
    from saddleback.rules import TreeBackup as TreeBackup
    from saddleback.rules import UpdateNorm as UpdateNorm
    from saddleback.system import System as System
    from saddleback.theory import MeanStability as MeanStability
    from saddleback.theory import lambda_ceiling as lambda_ceiling
    from saddleback.theory import step_sizes as step_sizes
    from saddleback.theory.mean_square import mean_square as mean_square
    from saddleback.theory.theorem2 import theorem2 as theorem2

_PUBLIC = {
    "finite_mdp": ["FiniteMDP"],
    "problem": ["Problem"],
    "rules": [
        "ABQ", "ETD", "GES", "GQ", "GTB", "GTD", "GTD2", "TD", "TDC", "TDRC", "ExpectedSarsa",
        "GRetrace", "Sarsa", "Rule",
        "ActionDependent", "Constant", "Importance", "NoTrace", "Retrace", "TreeBackup",
        "Correction", "RegularisedCorrection", "Saddle", "SemiGradient", "UpdateNorm",
        "Expected", "Sampled", "State", "FollowOn",
        "Trace", "Form", "Bootstrap",
    ],
    "system": ["System"],
    "theory": ["MeanStability", "lambda_ceiling", "mean_square", "step_sizes", "theorem2"],
    "engine": ["Experience", "Schedule", "Stream", "inverse", "inverse_sqrt", "sample"],
    "log": ["Log", "LogError", "as_target", "collect", "estimate_behaviour"],
    "ope": [
        "FQE", "LSTD", "SVRG", "Statistics", "Streamed", "Verdict", "doubly_robust", "evaluate",
        "importance_sampling", "load_statistics", "rank", "save_statistics",
    ],
    "learning": ["Run", "iterate", "learn", "learn_offline"],
}  # fmt: skip
_PACKAGE_OF = {name: package for package, names in _PUBLIC.items() for name in names}
_MODULES = (
    "checks", "errors", "features", "policies", "problems", "report", "rules", "sweep", "system",
    "theory",
)  # fmt: skip

__all__ = ["__version__", *_MODULES, *_PACKAGE_OF]


def __getattr__(name: str) -> Any:
    """Import a public name and its package on first use (PEP 562)."""
    if name in _MODULES:
        return importlib.import_module(f"saddleback.{name}")
    if name in _PACKAGE_OF:
        value = getattr(importlib.import_module(f"saddleback.{_PACKAGE_OF[name]}"), name)
        globals()[name] = value
        return value
    raise AttributeError(f"module 'saddleback' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
