"""Figures: names that do not overlap, one notation per axis, the width of a page."""

import itertools

import matplotlib.pyplot as plt
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.backends.backend_agg import FigureCanvasAgg
from PIL import Image

from saddleback import plots
from saddleback.plots.style import tick_label


@given(st.lists(st.floats(0, 1), max_size=12), st.floats(0.001, 0.3))
def test_names_are_spread_in_order_and_no_further_than_needed(targets, gap):
    places = plots.spread(targets, gap)
    order = np.argsort(targets, kind="stable")
    assert (np.diff(places[order]) >= gap - 1e-9).all()
    if gap * (len(targets) - 1) <= 1:
        assert ((places >= -1e-9) & (places <= 1 + 1e-9)).all()
    if len(targets) > 1 and (np.diff(np.sort(targets)) >= gap).all():
        np.testing.assert_allclose(places, targets, atol=1e-12)


@pytest.mark.parametrize("value", [1e-3, 1.0, 1e9, np.inf])
def test_names_of_nine_lines_do_not_overlap_and_are_not_cut(value):
    names = [f"GRetrace corr {k}" for k in range(9)]
    with plots.style():
        figure, (ax,) = plots.panels(1, 1, 1.4, width=plots.COLUMN, right=0.9)
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
        figure, (ax,) = plots.panels(1, 1, 1.4)
        ax.plot([1, 1e4], [1e-6, 1e6])
        ax.set(xscale="log", yscale="log")
        (path,) = plots.save(figure, tmp_path, "some", ["png"])
    labels = [label.get_text() for label in ax.get_yticklabels()]
    assert not any("$" in label for label in labels)
    assert "10⁻³" in labels or "10⁻⁴" in labels
    assert not ax.yaxis.get_minorticklocs().size
    with Image.open(path) as picture:
        assert picture.size[0] == round(plots.PAGE * 240)


@pytest.mark.parametrize(
    ("low", "high", "labels"),
    [
        (1, 5e4, ["10⁰", "10¹", "10²", "10³", "10⁴"]),
        (1e-110, 1.0, ["10⁻¹⁰⁰", "10⁻⁸⁰", "10⁻⁶⁰", "10⁻⁴⁰", "10⁻²⁰", "10⁰"]),
        (20, 4000, ["30", "100", "300", "1,000", "3,000"]),
        (0.06, 0.9, ["0.1", "0.2", "0.5"]),
        (70, 320, ["70", "100", "150", "200", "300"]),
    ],
)
def test_all_labels_of_an_axis_are_written_one_way(low, high, labels):
    with plots.style():
        figure, (ax,) = plots.panels(1, 1, 1.4)
        ax.set(xscale="log", xlim=(low, high))
        plots.mark_decades(ax)
        ticks = [x for x in ax.get_xticks() if low <= x <= high]
        written = [ax.xaxis.get_major_formatter()(x) for x in ticks]
        plt.close(figure)
    assert written == labels


def test_numbers_of_a_narrow_axis():
    numbers = (0.05, 20.0, 2e5, 1e-12, 250.0)
    written = [tick_label(x, powers=False) for x in numbers]
    assert written == ["0.05", "20", "2·10⁵", "10⁻¹²", "250"]


def test_a_caption_is_wrapped_inside_the_figure():
    caption = "Lines: median of 10 runs; bands: quartiles. " * 9
    with plots.style():
        figure, (ax,) = plots.panels(1, 1, 1.4, caption=caption)
        ax.set(xlabel="step")
        renderer = FigureCanvasAgg(figure).get_renderer()
        box = figure.texts[0].get_window_extent(renderer)
        panel = ax.get_tightbbox(renderer)
        width = figure.bbox.width
        plt.close(figure)
    assert 0 <= box.x0 < box.x1 <= width
    assert 0 <= box.y0 < box.y1 <= panel.y0


def test_a_band_is_of_quartiles_and_infinite_runs_do_not_spoil_it():
    runs = np.array([[1.0, 2.0, 3.0, 4.0, np.inf], [5.0, np.inf, np.inf, np.inf, 1.0]])
    low, middle, high = plots.quartiles(runs)
    assert low.tolist() == [2.0, 5.0]
    assert middle.tolist() == [3.0, np.inf]
    assert high.tolist() == [4.0, np.inf]
