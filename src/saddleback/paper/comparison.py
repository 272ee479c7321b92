"""The studies of the paper, the files in ``studies/``, and their results.

In the comparisons, two grids of step sizes are compared: the paper's at
λ = 0.99, and common ratios of time scales with λ below the ceiling of importance traces.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from saddleback._registry import check_name
from saddleback._typing import ArrayLike, FloatArray
from saddleback.engine import as_source
from saddleback.paper import MissingResults, Options, store_of
from saddleback.problem import Problem
from saddleback.rules import GES, NAMED, Rule
from saddleback.rules.parse import is_text, rule_files
from saddleback.sweep import (
    RuleResults,
    Store,
    Study,
    StudyResults,
    read_results,
    read_study,
    run_study,
    tasks_of,
)
from saddleback.sweep.cost_estimate import ROW
from saddleback.sweep.manifest import check_same_study
from saddleback.sweep.store import SUMS
from saddleback.sweep.study import Case, Grid, build_rule, checkpoints, file_hash
from saddleback.system import System

STUDIES = Path(__file__).parent / "studies"

RULE_FOLDER = Path()
"""Folder of the files that the rules of the options name."""

RuleSpec = tuple[str, Mapping[str, Any]]
Metric = Callable[[FloatArray], FloatArray]


def error(problem: Problem, rule: Rule, lam: float, theta0: float) -> Metric:
    """Value error ÷ that of the initial weights."""
    common = System.exact(problem, GES(lam))
    start = float(common.mse_absolute(np.full(problem.p, theta0)))
    return lambda theta: np.asarray(common.mse_absolute(theta) / start)


def mspbe_common(problem: Problem, rule: Rule, lam: float) -> Metric:
    """MSPBE of GES, which is the same function of θ for every rule."""
    return System.exact(problem, GES(lam)).mspbe


def mspbe_paper(problem: Problem, rule: Rule, sample: int, seed: int) -> Metric:
    """MSPBE of the rule as the paper measures it, with Â, b̂ and M̂ from experience."""
    rng = np.random.SeedSequence([seed, 95])
    return System.estimate(problem, rule, steps=sample, rng=rng).mspbe


@cache
def study_as_shipped(name: str, quick: bool) -> Study:
    """Return the study in the package, without options."""
    return read_study(STUDIES / f"{name}.toml", quick=quick)


@lru_cache(16)
def study_of(name: str, options: Options) -> Study:
    """Return the study of an experiment, changed by the options; a task is about one run."""
    study = study_as_shipped(name, options.quick)
    if study.function:
        own = {"runs": options.runs} if options.runs and "runs" in study.parameters else {}
        return replace(study, seed=options.seed, parameters={**study.parameters, **own})
    rules = _chosen_rules(study.rules, options)
    study = replace(
        study,
        runs=options.runs or study.runs,
        seed=options.seed,
        cases=tuple(_changed_case(case, study.cases[0].lam, options) for case in study.cases),
        rules=rules,
        marks={
            file: file_hash(RULE_FOLDER / file) for rule, _ in rules for file in rule_files(rule)
        },
    )
    per_run = (case.count * case.length * study.learners(c) for c, case in enumerate(study.cases))
    return replace(study, share=int(max(per_run)))


def _changed_case(case: Case, paper_lam: float | None, options: Options) -> Case:
    """Return a case with the λ and the episodes of the options; λ stays below its ceiling."""
    lam = case.lam
    if options.lam is not None and lam is not None:
        lam = options.lam if lam == paper_lam else min(options.lam, lam)
    if options.episodes is None or case.unit != "episodes":
        return replace(case, lam=lam)
    points = checkpoints(options.episodes, len(case.points))
    return replace(case, lam=lam, count=options.episodes, points=points)


def _chosen_rules(defaults: tuple[RuleSpec, ...], options: Options) -> tuple[RuleSpec, ...]:
    """Return the rules of the options, or those of the study, with λ and ζ of the options."""
    rules = tuple(map(chosen_rule, options.rules)) or defaults
    changed: dict[str, RuleSpec] = {}
    for k, (name, parameters) in enumerate(rules):
        own = dict(parameters)
        if "lam" in own and options.lam is not None:
            own["lam"] = options.lam if k == 0 else min(options.lam, own["lam"])
        if "zeta" in own and options.zeta is not None:
            own["zeta"] = options.zeta
        changed[str(own.get("label", (name, own)))] = (name, own)
    return tuple(changed.values())


REGULARISED = {f"{name} reg.": name for name in ("ABQ", "GTB", "GRetrace")}
"""Bounded traces with TDRC's regularised correction (η = 1)."""


def _predefined() -> dict[str, RuleSpec]:
    """Return the rules that the tables show, and the regularised ones, by name."""
    shown = {
        str(parameters["label"]): (name, parameters)
        for name, parameters in study_as_shipped("two-state", quick=True).rules
    }
    form = "RegularisedCorrection"
    return shown | {
        label: (name, {**shown[name][1], "label": label, "form": form})
        for label, name in REGULARISED.items()
    }


def rule_names() -> list[str]:
    """Return the names of the rules that can be compared, besides texts."""
    return list(dict.fromkeys([*_predefined(), *NAMED]))


def chosen_rule(name: str) -> RuleSpec:
    """Return a rule by a name from the tables or of the library, or by a text.

    The problems have features of state-action pairs, so a rule for state values is replaced by its
    version for action values: the same trace and form, with the expected bootstrap.
    """
    predefined = _predefined()
    if name in predefined:
        return predefined[name]
    if not is_text(name):
        check_name("rule", name, rule_names())
    rule = build_rule(name, {}, 0.5, RULE_FOLDER)
    label = rule.display_name if is_text(name) else name
    for_states = rule.values == "state" and rule.emphasis is None
    parameters = {"label": label, "dual": rule.form.has_dual}
    return name, parameters | ({"bootstrap": "Expected"} if for_states else {})


def check(name: str, options: Options) -> int:
    """Reject options that cannot be run; return the size of the results in bytes."""
    study = study_of(name, options)
    rows = 0
    for c, case in enumerate(study.cases):
        rules = [study.rule(r, c, RULE_FOLDER) for r in range(len(study.rules))]
        as_source("paper", case.build(STUDIES)).streamer(rules)
        rows += study.learners(c) * len(case.points)
    return study.runs * rows * ROW


def compute(name: str, options: Options) -> None:
    """Run what is missing of a study."""
    run_study(
        study_of(name, options), options.out / name, name=name, workers=options.workers,
        progress=options.progress, command=options.command,
    )  # fmt: skip


def run(name: str, options: Options) -> list[Comparison]:
    """Run what is missing of a study; return its results, case by case."""
    compute(name, options)
    return comparisons(name, options)


def stored(name: str, options: Options) -> Store:
    """Return the store of a study, which must have been run to its end with the same options."""
    store, study = store_of(name, options), study_of(name, options)
    check_same_study(store.folder, store.manifest["study"], study.as_dict())
    tasks, finished = tasks_of(study, STUDIES), set(store.names())
    done = sum(task.name in finished for task in tasks)
    if done < len(tasks):
        raise MissingResults(options.out, name, done, len(tasks))
    return store


def comparisons(name: str, options: Options) -> list[Comparison]:
    """Read the results of a study of learners."""
    store, study = stored(name, options), study_of(name, options)
    results = _results(store.folder, (store.folder / SUMS).read_bytes())
    return [Comparison(study, c, results.on(case.label)) for c, case in enumerate(study.cases)]


@lru_cache(8)
def _results(folder: Path, hashes: bytes) -> StudyResults:
    """Read a store, once for figures and claims; its hashes change with its results."""
    return read_results(folder)


@dataclass(frozen=True, eq=False)
class Comparison:
    """Results of all rules in one case of a study."""

    study: Study
    index: int
    results: tuple[RuleResults, ...]

    @property
    def case(self) -> Case:
        """Problem, λ and checkpoints."""
        return self.study.cases[self.index]

    @property
    def grid(self) -> Grid:
        """The step sizes."""
        return self.study.grid(self.index)

    @property
    def rules(self) -> list[Rule]:
        """The rules, in the order of the results."""
        return [self.study.rule(r, self.index, RULE_FOLDER) for r in range(len(self.study.rules))]

    def on_grid(self, values: ArrayLike) -> FloatArray:
        """Repeat the values of a rule without β for every β/α."""
        return np.broadcast_to(values, (len(self.grid.alphas), len(self.grid.betas)))

    def __getitem__(self, rule: str) -> RuleResults:
        return next(result for result in self.results if result.rule == rule)
