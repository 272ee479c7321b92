"""One palette for figures in print and for pages."""

from __future__ import annotations

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib.colors import to_hex

from saddleback import _palette, plots
from saddleback.report import theme


def contrast(one, two):
    """Contrast of two colours by WCAG."""

    def luminance(colour):
        x = np.array([int(colour[k : k + 2], 16) / 255 for k in (1, 3, 5)])
        linear = np.where(x <= 0.04045, x / 12.92, ((x + 0.055) / 1.055) ** 2.4)
        return linear @ [0.2126, 0.7152, 0.0722]

    low, high = sorted((luminance(one), luminance(two)))
    return (high + 0.05) / (low + 0.05)


def test_figures_and_pages_use_the_same_colours():
    for name in _palette.CATEGORICAL:
        assert plots.COLOURS[name] == _palette.LIGHT[name]
        assert f"--{name}: {_palette.LIGHT[name]};" in theme.css_variables()
    assert tuple(f"var(--{name})" for name in _palette.CATEGORICAL) == theme.COLOURS


def test_the_colour_map_of_pages_is_the_one_of_figures():
    places = np.linspace(_palette.SEQUENTIAL_FROM, 1, len(_palette.SEQUENTIAL_STOPS))
    stops = [to_hex(mpl.colormaps[_palette.SEQUENTIAL](x)).upper() for x in places]
    assert tuple(stops) == _palette.SEQUENTIAL_STOPS
    with plots.style():
        assert mpl.rcParams["image.cmap"] == _palette.SEQUENTIAL


@pytest.mark.parametrize("colours", [_palette.LIGHT, _palette.DARK])
def test_colours_have_contrast(colours):
    for name in (*_palette.CATEGORICAL, "black", "grey", "good", "doubt", "bad"):
        assert contrast(colours[name], colours["paper"]) >= 4.5, name
