"""Strategies of odd values of the options of commands."""

from __future__ import annotations

from pathlib import Path

from hypothesis import strategies as st

from .logs import clean_bytes
from .trial import Answer, Trial, printed

TEXTS = (
    "", "0", "1", "-1", "2", "0.5", "1e-400", "1e400", "nan", "inf", "-inf", "x", "1,2,3", "1,2",
    "0,0,0", "3,2,1", "nan,0,1", "λ", "\u202e", "[/red]", "99999999999999999999", "0x10", "1_000",
    " 1", "--", "a=b", "=", ":", "9" * 400, "\udcff", "\0", "١", "1,", ",", "~", "*", "../..", "@x",
)  # fmt: skip

VALUES = (
    st.sampled_from(TEXTS) | st.floats().map(str) | st.integers().map(str)
    | st.text(st.characters(exclude_categories=()), max_size=6)
    | st.lists(st.floats(width=16).map(str), max_size=4).map(",".join)
)  # fmt: skip

FEATURES = VALUES | st.sampled_from((
    "tiles", "tiles:", "tiles:0x1", "tiles:1x0", "tiles:8x", "tiles:x8", "tiles:1000x1000",
    "hash:0", "hash:-5", "hash:1e9", "hash:999999999999", "rbf:0", "rbf:1", "rbf:99999999",
    "fourier:0", "fourier:60", "fourier:99999", "polynomial:0", "polynomial:40", "polynomial:99999",
    "polynomial:nan", "states", "states:0", "states:99999999", "given", "given:3", "none", ":",
    "nowhere.py:f", "polynomial:1:2", "polynomial 1",
))  # fmt: skip

RULES = VALUES | st.sampled_from((
    "GES", "GES:2", "GES:-1", "GES:nan", "GES(0.5", "GES()", "TD:0.5", "ETD:0.5", "Retrace:0.5",
    "Retrace:0.5+", "+", "Sarsa:0.5", "GES:0.5+Correction+Correction", "nowhere.py:Rule(1)",
    "__import__('os')", "GES(lam=1e999)", "Importance:1+Saddle:3", "GTB:" + "9" * 400,
    "GES(" * 1000, "GES(lam=GES(0.5))", "GES(0.5, 0.5)", "GES(lam=0.5, lam=0.6)",
))  # fmt: skip

OPTIONS = (
    "--gamma", "--low", "--high", "--ridge", "--rule", "--bootstrap", "--passes", "--obs",
    "--actions", "--column", "--min-prob", "--drop-bad", "--time-limit", "--method", "--learner",
    "--features", "--target", "--horizon", "--fill-reward", "--order-by", "--episodes-end",
    "--estimate-behaviour", "--categorical",
)  # fmt: skip

SPECIAL = {"--features": FEATURES, "--rule": RULES, "--learner": RULES}

LONGEST = {"--passes": 9, "--horizon": 3}
"""Lengths of values of these options: a larger number takes as long as it says."""


@st.composite
def odd_options(draw: st.DrawFn) -> Trial:
    """An evaluation of a log with an odd value of one option, or of two."""
    odd: list[str] = []
    for _ in range(draw(st.integers(1, 2))):
        option = draw(st.sampled_from(OPTIONS))
        value = draw(SPECIAL.get(option, VALUES))
        if len(value) <= LONGEST.get(option, 5000):
            odd += [option, value]

    def use(folder: Path) -> Answer:
        path = folder / "log.parquet"
        path.write_bytes(clean_bytes())
        return _stated(
            "evaluate", path, "--obs", "hr,bp,lactate", "--target", "uniform", "--quiet",
            "--features", "polynomial:1", *odd,
        )  # fmt: skip

    return Trial(f"{odd}", use, Answer)


def _stated(*words: object) -> Answer:
    """Return what is printed: it states the options that were used."""
    return Answer(printed(*words).content, notes=frozenset({"stated"}))
