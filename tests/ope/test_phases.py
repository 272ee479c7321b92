"""Progress of an evaluation: each phase has the share of the work that it is planned to cost."""

import pytest

from saddleback.ope.phases import Phases, plan_phases


def shares(**planned):
    """Return where each phase begins and ends, and its name."""
    reports = []
    phases = plan_phases(lambda fraction, name: reports.append((fraction, name)), **planned)
    for phase in phases:
        phase(0.0)
        phase(1.0)
    (starts, names), (ends, _) = zip(*reports[::2], strict=True), zip(*reports[1::2], strict=True)
    return starts, ends, names


SMALL = {
    "rows": 1000, "active": 4, "p": 30, "targets": 2, "rules": 3, "folds": 5, "weighting_jobs": 7,
    "draws": 20,
}  # fmt: skip


@pytest.mark.parametrize(
    ("sampled", "is_consensus", "choosing"),
    [(0, True, 0.0), (400, False, 1e5 + 400 * 150), (400, True, 2e6 + 400 * 150),
     (5000, False, 1e5 + 1000 * 150)],
)  # fmt: skip
def test_phases_cost_what_was_measured(sampled, is_consensus, choosing):
    """In microseconds: per row, more with 4 active features; per product of 30 × 30 matrices."""
    more = {"sampled": sampled, "is_consensus": is_consensus, "passes": 6, "epochs": 11}
    starts, ends, names = shares(**SMALL, **more)
    row, product = 1 + 0.4 * 4, 30 * 30 * 30
    costs = [
        1000 * row * 3 * 3,  # the sums of 3 rules, of 2 targets and the logged policy
        2 * 5e-4 * product,
        2 * choosing,
        2 * 5 * 2.5e-4 * product,
        1000 * 4 * 7,
        1000 * row * 3 + 2 * 7e-4 * product,
        2 * 20 * 4e-4 * product,
        2 * 1000 * row * 2 * 6,
        2 * 1000 * row * 0.2 * 11,
    ]
    done = 0.06  # reading comes before
    for start, end, cost in zip(starts, ends, costs, strict=True):
        assert start == pytest.approx(done, rel=1e-9)
        done += 0.94 * cost / sum(costs)
        assert end == pytest.approx(done, rel=1e-9)
    assert done == pytest.approx(1.0)
    assert names[2] == "choosing features"
    assert names[6:] == ("resampling", "streaming", "SVRG")
    assert {*names[:2], *names[3:6]} == {"evaluating"}


def test_parts_that_are_not_used_take_no_time():
    starts, ends, _ = shares(**SMALL)
    assert starts[2] == ends[2]
    assert starts[7:] == ends[7:]
    assert plan_phases(None, **SMALL) == Phases(*[None] * 9)
