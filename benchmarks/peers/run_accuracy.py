"""Values by d3rlpy's FQE and SCOPE-RL's estimators of one log; run in the environment of SCOPE-RL.

Argument: arrays. Prints the values by method, the seconds of FQE, and versions, as JSON. Q by FQE
has d3rlpy's own settings, except for the learning rate: in ``make peers`` the default was further
from the truth. SCOPE-RL's DM is FQE itself, so it is not listed again.
"""

from __future__ import annotations

import json
import sys

import numpy as np
from fitted import fit, q_values
from measure import timed
from run_scope_rl import VALUES, VERSIONS, WEIGHTS, inputs, point

RATE = "1e-3"


def main(path):
    """Fit Q, and estimate by every estimator."""
    log = dict(np.load(path))
    fqe, seconds, _ = timed(fit, log, True, RATE, int(log["steps"]))
    data, added = inputs(log, q_values(fqe, log["observations"], log["policy"].shape[1]))
    values = {"d3rlpy FQE": point(data, added, VALUES["DM"])[-1]}
    for name in ("DR", "SNDR"):
        values[f"SCOPE-RL {name}"] = point(data, added, VALUES[name])[-1]
    for name, estimator in WEIGHTS.items():
        values[f"SCOPE-RL {name}"] = point(data, added, estimator)[-1]
    print(json.dumps({"values": values, "seconds": seconds, "versions": VERSIONS}))


if __name__ == "__main__":
    main(*sys.argv[1:])
