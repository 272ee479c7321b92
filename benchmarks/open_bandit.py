"""Published numbers of the Open Bandit data, from saddleback. Run by ``make open-bandit``.

Saito et al. (2021) logged clicks on the items that a uniformly random policy recommended. Their
package `obp` ships a sample of 10,000 decisions with the prior of the Bernoulli Thompson sampling
that ran beside it, and its guide gives the value of that policy by inverse propensity weighting,
relative to the logged one: 1.198126. ``--install`` downloads the package (its files are read, none
of its code runs) to ``results/open-bandit``; nothing else needs a network. Writes
``results/open-bandit/clicks.parquet``, ``policy.npy`` and ``open-bandit.json``.
"""

from __future__ import annotations

import argparse
import io
import json
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

import saddleback as sb

FOLDER = Path("results") / "open-bandit"
PACKAGE = "obp==0.4.1"
LOG, PRIOR = "obp/dataset/obd/random/all/all.csv", "obp/policy/conf/prior_bts.yaml"
ITEMS, POSITIONS, DRAWS, SEED = 80, 3, 100_000, 12345
PUBLISHED = 1.198126
"""IPW of Bernoulli Thompson sampling, relative to the mean of the logged rewards."""


def download() -> None:
    """Download the wheel of the package."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    options = ["--no-deps", "--only-binary=:all:", "--python-version", "3.9", "--dest", str(FOLDER)]
    subprocess.run([sys.executable, "-m", "pip", "download", *options, PACKAGE], check=True)


def read_prior(yaml: str) -> dict[str, np.ndarray]:
    """Return α and β of the campaign "all" from its YAML, two levels of names above numbers."""
    prior: dict[str, list[float]] = {}
    campaign = name = ""
    for line in yaml.splitlines():
        text = line.strip()
        if text.startswith("-"):
            if campaign == "all":
                prior.setdefault(name, []).append(float(text[1:]))
        elif line.startswith(" "):
            name = text.rstrip(":")
        elif text:
            campaign = text.rstrip(":")
    return {name: np.array(numbers) for name, numbers in prior.items()}


def thompson_sampling(prior: dict[str, np.ndarray]) -> np.ndarray:
    """Return how often each item is drawn for each position, [positions, items]."""
    rng = np.random.RandomState(SEED)  # the generator of the published number
    drawn = rng.beta(prior["alpha"], prior["beta"], size=(DRAWS, ITEMS))
    best = drawn.argsort(axis=1)[:, ::-1][:, :POSITIONS]
    return np.stack([np.bincount(best[:, k], minlength=ITEMS) for k in range(POSITIONS)]) / DRAWS


def main() -> None:
    """Evaluate Thompson sampling on the logged clicks, and compare with the published number."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--install", action="store_true", help="download the data first")
    if parser.parse_args().install:
        download()
    wheels = sorted(FOLDER.glob("obp-*.whl"))
    if not wheels:
        sys.exit(f"no data in {FOLDER}: run make open-bandit INSTALL=--install")
    with zipfile.ZipFile(wheels[-1]) as wheel:
        rows = pyarrow.csv.read_csv(io.BytesIO(wheel.read(LOG)))
        prior = read_prior(wheel.read(PRIOR).decode())
    clicks = pa.table(
        {
            "position": pa.array(rows["position"].to_numpy() - 1),
            "action": rows["item_id"],
            "reward": rows["click"],
            "behavior_prob": rows["propensity_score"],
        }
    )
    policy = thompson_sampling(prior)
    pq.write_table(clicks, FOLDER / "clicks.parquet")
    np.save(FOLDER / "policy.npy", policy)
    log = sb.Log(FOLDER / "clicks.parquet", observations=["position"], bandit=True)
    target = {"Thompson sampling": lambda context: policy[context[:, 0].astype(int)]}
    result = sb.evaluate(log, target)
    print(result.text)
    ipw = next(one.value for one in result.estimates if one.method == "IPW")
    logged = result.logged.interval.value
    print(f"\nIPW {ipw:.7f}, relative to the logged {logged:.4f}: {ipw / logged:.6f}")
    print(f"published: {PUBLISHED}")
    saved = {"relative": ipw / logged, "published": PUBLISHED, "result": result.as_dict()}
    (FOLDER / "open-bandit.json").write_text(json.dumps(saved), encoding="utf-8")
    if not abs(ipw / logged - PUBLISHED) < 1e-6:
        sys.exit("the published number is not reproduced")


if __name__ == "__main__":
    main()
