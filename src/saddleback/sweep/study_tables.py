"""The tables of a study file, and the types of their values."""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import Meta, Struct, field

from saddleback.sweep.toml_lines import Count, Seed, Table

Number = Annotated[float, Meta(ge=-1e100, le=1e100, description="a number up to 1e+100")]
Flag = Annotated[bool, Meta(description="true or false")]
Names = Annotated[list[Any], Meta(min_length=1, description="a list of names without duplicates")]
Texts = Annotated[list[str], Meta(description='a list of texts, ["GES:0.5", …]')]
Lists = Annotated[
    dict[str, list[Any]], Meta(description="a table of lists, such as { gamma = [0.9, 0.99] }")
]
PointCount = Annotated[int, Meta(ge=2, le=100_000)]


class Logarithmic(Struct, forbid_unknown_fields=True):
    """Checkpoints that are evenly spaced on a logarithmic scale, from 1."""

    log: PointCount


Checkpoints = Annotated[
    PointCount | Logarithmic | Annotated[list[int], Meta(min_length=1)],
    Meta(
        description="a whole number from 2 to 100,000, { log = 100 } for a logarithmic scale, or a "
        "list of steps or episodes"
    ),
]
Positive = Annotated[float, Meta(gt=0)]
Weights = Annotated[
    Number | tuple[Number, ...],
    Meta(description="a number up to 1e+100, or a list of one for each weight"),
]
Power = Annotated[int, Meta(ge=-1000, le=1000)]


class Powers(Struct):
    """Step sizes scale · 2^j, for j between two powers."""

    scale: Positive
    powers: tuple[Power, Power]


StepSizes = Annotated[
    Powers | list[Positive] | Positive,
    Meta(
        description="a list of numbers above 0 without duplicates, or { scale = 0.1, powers = "
        "[-10, 0] }, meaning 0.1·2^-10 … 0.1·2^0"
    ),
]


class StudyTable(Struct, kw_only=True):
    """The top level of a study file."""

    title: Any = None
    seed: Seed = 0
    runs: Count = 1
    steps: Count = 1
    episodes: Count = 1
    checkpoints: Checkpoints = 21
    metrics: Names = field(default_factory=lambda: ["mspbe"])
    sample: Count = 100_000
    theta0: Weights = 0.0
    common_random_numbers: Flag = False
    device: Any = "cpu"
    parameters: Table = {}
    grid: Any = {}
    problem: Any = []
    rule: Any = []
    rules: Texts = []
    quick: Table = {}


class GridTable(Struct):
    """A [grid]; its step sizes are checked by the reader."""

    alpha: Any = None
    beta: Any = None
    ratio: Any = None
    schedule: Any = "constant"
    label: Any = ""
    lam: Number | None = None


class ProblemTable(Struct, rename={"lists": "each"}):
    """A [[problem]], without the parameters of the problem itself."""

    name: Any = None
    make: Any = None
    label: Any = None
    steps: Count = 1
    episodes: Count = 1
    theta0: Weights | None = None
    lists: Lists | None = None
