"""The consensus on the same sample and policy, found once for all tests that ask for it."""

import hashlib
import importlib
import os
import pickle
from pathlib import Path

import numpy as np

FOLDER = "KNOWN_OPINIONS"
"""Environment variable: where processes share what they found."""


def name_of(sample, target, *options):
    """Return a name for all that a consensus depends on, equal in all processes."""
    policy = {"next_pi": sample.next_pi[target], "start_pi": sample.start_pi[target]}
    content = hashlib.sha256(repr(options).encode())
    for part in (vars(sample) | policy).values():
        is_array = isinstance(part, np.ndarray)
        content.update(repr((part.dtype, part.shape) if is_array else part).encode())
        content.update(part.tobytes() if is_array else b"")
    return content.hexdigest()


def find_once(find, folder):
    """Return `find_consensus` that looks in a folder first."""

    def find_shared(sample, target, gamma, horizon=None, **options):
        progress = options.pop("progress", None)
        if options["given"] is not None or options["bases"] is not None:
            return find(sample, target, gamma, horizon, progress=progress, **options)
        kept = Path(folder) / name_of(sample, target, gamma, horizon, options["thorough"])
        if not kept.exists():
            part = kept.with_suffix(f".{os.getpid()}")
            part.write_bytes(pickle.dumps(find(sample, target, gamma, horizon, **options)))
            part.replace(kept)
        if progress is not None:
            progress(1.0)
        return pickle.loads(kept.read_bytes())

    return find_shared


def know_opinions(patch, folder):
    """Let this process, and the commands that it forks, look in a folder first."""
    module = importlib.import_module("saddleback.ope.sample_consensus")
    patch.setattr(module, "find_consensus", find_once(module.find_consensus, folder))
    patch.setenv(FOLDER, str(folder))


def one_of_each_kind(bases):
    """Return the last basis of each kind on each view."""
    return list({(basis.view.name, *basis.kind): basis for basis in bases}.values())


def use_few_candidates(patch, folder):
    """Try one basis of each kind where the value of a consensus does not matter, once as well."""
    consensus, samples = (
        importlib.import_module(f"saddleback.ope.{name}")
        for name in ("consensus", "sample_consensus")
    )

    def few(function):
        return lambda *options, **others: one_of_each_kind(function(*options, **others))

    for name in ("candidates", "shared_candidates"):
        patch.setattr(consensus, name, few(getattr(consensus, name)))

    def find(*arguments, bases=None, **options):
        chosen = None if bases is None else one_of_each_kind(bases)
        return consensus.find_consensus(*arguments, bases=chosen, **options)

    patch.setattr(samples, "find_consensus", find_once(find, folder))
