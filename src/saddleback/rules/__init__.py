"""Rules: an algorithm is a record of a trace, a form and a bootstrap."""

from saddleback.rules.bootstraps import Bootstrap, Expected, Sampled, State, TruncatedState
from saddleback.rules.emphasis import FollowOn
from saddleback.rules.forms import (
    Coefficients,
    Correction,
    Form,
    Hybrid,
    RegularisedCorrection,
    Saddle,
    SemiGradient,
    SplitSaddle,
    TrueOnline,
    TrueOnlineCorrection,
    UpdateNorm,
)
from saddleback.rules.named import *  # noqa: F403
from saddleback.rules.registry import NAMED, make, make_with, named_rule
from saddleback.rules.rule import Rule
from saddleback.rules.terms import Terms, as_rule, as_rules, tabulate, terms
from saddleback.rules.traces import (
    ActionDependent,
    CappedImportance,
    Constant,
    Importance,
    NoTrace,
    Retrace,
    Sigma,
    Trace,
    TreeBackup,
    TruncatedImportance,
)

__all__ = [
    "NAMED",
    "ActionDependent",
    "Bootstrap",
    "CappedImportance",
    "Coefficients",
    "Constant",
    "Correction",
    "Expected",
    "FollowOn",
    "Form",
    "Hybrid",
    "Importance",
    "NoTrace",
    "RegularisedCorrection",
    "Retrace",
    "Rule",
    "Saddle",
    "Sampled",
    "SemiGradient",
    "Sigma",
    "SplitSaddle",
    "State",
    "Terms",
    "Trace",
    "TreeBackup",
    "TrueOnline",
    "TrueOnlineCorrection",
    "TruncatedImportance",
    "TruncatedState",
    "UpdateNorm",
    "as_rule",
    "as_rules",
    "make",
    "make_with",
    "named_rule",
    "tabulate",
    "terms",
]
__all__ += NAMED
