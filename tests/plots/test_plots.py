"""Figures: names that do not run into each other, plain decades, one column of print."""

import itertools

import matplotlib.pyplot as plt
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.backends.backend_agg import FigureCanvasAgg
from PIL import Image

from saddleback import plots
from saddleback.plots.style import decade


@given(st.lists(st.floats(0, 1), max_size=12), st.floats(0.001, 0.3))
def test_names_are_spread_in_order_and_no_further_than_needed(wanted, gap):
    places = plots.spread(wanted, gap)
    order = np.argsort(wanted, kind="stable")
    assert (np.diff(places[order]) >= gap - 1e-9).all()
    if gap * (len(wanted) - 1) <= 1:
        assert ((places >= -1e-9) & (places <= 1 + 1e-9)).all()
    if len(wanted) > 1 and (np.diff(np.sort(wanted)) >= gap).all():
        np.testing.assert_allclose(places, wanted, atol=1e-12)


@pytest.mark.parametrize("value", [1e-3, 1.0, 1e9, np.inf])
def test_names_of_nine_lines_do_not_overlap_and_are_not_cut(value):
    names = [f"GRetrace corr {k}" for k in range(9)]
    with plots.style():
        figure, (ax,) = plots.column(1, 1.4, gap=0)
        ax.set(xscale="log", yscale="log", xlim=(1, 10), ylim=(1e-3, 1e3))
        plots.label_ends(ax, {name: plots.End(value, "#000000") for name in names})
        renderer = FigureCanvasAgg(figure).get_renderer()
        boxes = [text.get_window_extent(renderer) for text in ax.texts]
        width, height = figure.bbox.size
        plt.close(figure)
    assert len(boxes) == 9
    for one, other in itertools.combinations(boxes, 2):
        assert not one.overlaps(other)
    for box in boxes:
        assert 0 <= box.y0 < box.y1 <= height
        assert box.x1 <= width


def test_logarithmic_axes_have_plain_decades(tmp_path):
    with plots.style():
        figure, (ax,) = plots.column(1, 1.4, gap=0, right=0.1)
        ax.plot([1, 1e4], [1e-6, 1e6])
        ax.set(xscale="log", yscale="log")
        (path,) = plots.save(figure, tmp_path, "some", ["png"])
    labels = [label.get_text() for label in ax.get_yticklabels()]
    assert not any("$" in label for label in labels)
    assert "10⁻³" in labels or "10⁻⁴" in labels
    assert not ax.yaxis.get_minorticklocs().size
    with Image.open(path) as picture:
        assert picture.size[0] == round(plots.WIDTH * 240)


def test_numbers_of_a_narrow_axis():
    numbers = (0.05, 20.0, 2e5, 1e-12, 250.0)
    assert [decade(x) for x in numbers] == ["0.05", "20", "2·10⁵", "10⁻¹²", "250"]
