"""Speed of the engine: ratios measured in one run, and absolute times.

Run by ``make bench``; writes ``results/bench.json``. Kernel times are on a prepared stream, best of
several repetitions, CPU time for one thread; end-to-end times include simulation and features.
"""

from __future__ import annotations

import bisect
import ctypes
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import gymnasium
import numpy as np
from machine import machine, machine_line
from paper_rules import SIZES, nine_rules
from rich import box
from rich.console import Console
from rich.table import Table

import saddleback as sb
from saddleback._jit import compiled, prefetch
from saddleback.engine import Learners, Schedule, Workers
from saddleback.engine.learner_batch import aligned_zeros
from saddleback.engine.update_kernel import EARLY, LINE
from saddleback.features import Tiles
from saddleback.problems.mountain_car import HIGH, LOW, MountainCar

FOLDER = Path(__file__).parent
STEPS = 100_000
console = Console()


def best(act, repeat=3, clock=time.thread_time):
    """Return the smallest time of a few calls; ``act`` returns the function to time.

    The CPU time of one thread, unless another clock is given: other processes matter less to it.
    """
    return best_in_turns({"": act}, repeat, clock)[""]


def best_in_turns(acts, repeat=7, clock=time.perf_counter):
    """Return the smallest time of each, called in turns, so that drift meets all alike."""
    times = {name: [] for name in acts}
    for _ in range(repeat):
        for name, act in acts.items():
            work = act()
            start = clock()
            work()
            times[name].append(clock() - start)
    return {name: min(all_of) for name, all_of in times.items()}


def prepare_stream(rule, car=None, steps=STEPS, endless=False):
    """Return a stream of MountainCar; ``endless`` never resets the trace."""
    car = car or sb.problems.mountain_car(values=rule.values)
    piece = car.sampler(np.random.default_rng(0)).take(steps)
    if endless:
        never = np.zeros(steps, dtype=bool)
        piece = piece._replace(starts=never, discounts=np.full(steps, car.gamma))
    return car.p, car.streamer([rule])(piece)[0]


def kernel(rule, p, stream, learners):
    """Nanoseconds per step of the learning kernel, compiled beforehand."""
    return best(partial(kernel_batch, rule, p, stream, learners), 7) / len(stream.reward) * 1e9


def kernel_batch(rule, p, stream, learners, threads=1):
    """Return a function that runs the kernel once, for new learners."""
    columns = ("reward", "discount", "decay", "weight")
    first = stream._replace(**{name: getattr(stream, name)[:1] for name in columns})
    sizes, zero = Schedule(np.full(learners, 1e-5)), np.zeros((learners, p))
    batch = Learners(rule.form, sizes, sizes, zero, zero, 1e100, threads)
    workers = Workers([batch], threads)
    workers.advance([[first]])
    return lambda: workers.advance([[stream]])


@compiled
def add_to_rows(stream, theta, omega):
    """Write to every row that the kernel writes to, fetched as early, and compute nothing else."""
    last = len(stream.reward) - 1
    for t in range(len(stream.reward)):
        later = min(t + EARLY, last)
        for j in range(stream.phi_from[later], stream.phi_from[later + 1]):
            for k in range(0, omega.shape[1], LINE):
                prefetch(omega, stream.phi_index[j], k)
        for j in range(stream.next_from[later], stream.next_from[later + 1]):
            for k in range(0, theta.shape[1], LINE):
                prefetch(theta, stream.next_index[j], k)
        for j in range(stream.phi_from[t], stream.phi_from[t + 1]):
            for k in range(omega.shape[1]):
                omega[stream.phi_index[j], k] += 1.0
        for j in range(stream.next_from[t], stream.next_from[t + 1]):
            for k in range(theta.shape[1]):
                theta[stream.next_index[j], k] += 1.0


def rows_alone(p, stream, learners):
    """Nanoseconds per step of the accesses to θ and ω alone: what the memory system takes."""
    theta, omega = (aligned_zeros((p, learners), np.dtype(float)) for _ in range(2))
    add_to_rows(stream, theta, omega)
    return best(lambda: lambda: add_to_rows(stream, theta, omega), 7) / len(stream.reward) * 1e9


def oracle(car, rule, steps=5000):
    """Nanoseconds per step of the paper's Algorithm 1 in plain NumPy: one learner, dense vectors.

    Tiles are coded beforehand; φ and E_π φ(S', ·) are each built as one vector.
    """
    piece = car.sampler(np.random.default_rng(0)).take(steps)
    current, following = (car.features(o).astype(np.intp) for o in piece[:2])
    following = 3 * following[:, :, None] + np.arange(3)
    lam, gamma, pi, rho = rule.trace.lam, car.gamma, car.target, car.target / car.behaviour
    alpha = beta = 1e-5

    def run():
        theta, omega, e = np.zeros(car.p), np.zeros(car.p), np.zeros(car.p)
        for t in range(steps):
            s, a = piece.kinds[t], piece.actions[t]
            phi, expected = np.zeros(car.p), np.zeros(car.p)
            phi[3 * current[t] + a] = 1.0
            expected[following[t]] = pi[piece.next_kinds[t]]
            e = phi if piece.starts[t] else gamma * lam * rho[s, a] * e + phi
            delta = piece.rewards[t] + piece.discounts[t] * (theta @ expected) - theta @ phi
            u = e @ omega
            omega = omega + beta * (delta * e - (phi @ omega) * phi)
            theta = theta + alpha * u * (phi - piece.discounts[t] * expected)

    return best(lambda: run) / steps * 1e9


def plain_c(stream, p, learners):
    """Nanoseconds per step of the same update as a plain C loop; None without a compiler."""
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        return None
    width = 1 if learners == 1 else -(-learners // 8) * 8
    width += 8 * (width % 512 == 0)
    with tempfile.TemporaryDirectory() as folder:
        library = Path(folder) / "lazy.so"
        subprocess.run(
            [
                compiler,
                "-O3",
                "-march=native",
                "-shared",
                "-fPIC",
                "-o",
                library,
                FOLDER / "lazy.c",
                "-lm",
            ],
            check=True,
        )
        lazy = ctypes.CDLL(str(library))
    pointer = lambda array: array.ctypes.data_as(ctypes.c_void_p)  # noqa: E731
    steps = len(stream.reward)
    few, many = len(stream.phi_index) // steps, len(stream.next_index) // steps

    def fresh():
        tables = [np.zeros((p, width)) for _ in range(2)]
        lanes = [np.zeros(width) for _ in range(6)]
        sizes = np.zeros(width)
        sizes[:learners] = 1e-5
        trace = [np.zeros(p), np.zeros(p, np.int32), np.zeros(p, np.uint8)]
        columns = [stream.phi_index, stream.next_index, stream.next_b, stream.reward]
        columns += [stream.discount, stream.decay, stream.weight, sizes, sizes.copy()]
        return lambda: lazy.advance(
            *map(ctypes.c_int64, (steps, few, many)), *map(pointer, columns),
            ctypes.c_int64(width), *map(pointer, [*trace, *tables, *lanes]),
        )  # fmt: skip

    return best(fresh, 7) / steps * 1e9


def simulators():
    """Steps per second of MountainCar with behaviour sampling: Gymnasium and saddleback."""
    mu = sb.problems.mountain_car().behaviour
    cumulative = np.cumsum(mu, axis=1).tolist()
    env = gymnasium.make("MountainCar-v0").unwrapped
    rng = np.random.default_rng(0)

    def gymnasium_loop(steps=20_000):
        observation, _ = env.reset(seed=0)
        for _ in range(steps):
            action = bisect.bisect_right(cumulative[int(observation[1] > 0)], rng.random())
            observation, _, terminated, truncated, _ = env.step(action)
            if terminated or truncated:
                observation, _ = env.reset()

    compiled = MountainCar(mu, 0.99, rng)
    compiled.take(10)
    tiles = Tiles(LOW, HIGH, bins=8, tilings=4)
    points = rng.uniform(LOW, HIGH, size=(16384, 2))
    tiles(points)
    return {
        "gymnasium_steps_per_s": 20_000 / best(lambda: gymnasium_loop),
        "ours_steps_per_s": 16384 / best(lambda: lambda: compiled.take(16384), 20),
        "tile_coder_ns_per_observation": best(lambda: lambda: tiles.encode(points), 20)
        / 16384
        * 1e9,
    }


def threads(rule, p, stream):
    """Return the seconds of one thread and two, by what they do; all measured in turns.

    "learn" advances 121 settings with simulation and features, step sizes so small that none
    diverges or so large that most do; "kernel" advances 121 learners on a prepared stream;
    "independent" has a kernel of its own for half of them in each thread.
    """
    car = sb.problems.mountain_car()

    def learn(largest, count):
        alpha = largest * 2.0 ** -np.arange(11)
        sizes = {"alpha": alpha[:, None], "beta": 0.1 * alpha}
        return lambda: sb.learn(rule, car, **sizes, steps=5 * STEPS, rng=0, threads=count)

    def independent(count):
        acts = [kernel_batch(rule, p, stream, 60) for _ in range(count)]

        def together():
            with ThreadPoolExecutor(count) as pool:
                list(pool.map(lambda act: act(), acts))

        return together

    kinds = {
        "learn": partial(learn, 1e-5), "learn, most diverge": partial(learn, 0.1),
        "kernel": partial(kernel_batch, rule, p, stream, 121), "independent": independent,
    }  # fmt: skip
    acts = {(kind, count): partial(act, count) for kind, act in kinds.items() for count in (1, 2)}
    seconds = best_in_turns(acts)
    return {kind: {count: seconds[kind, count] for count in (1, 2)} for kind in kinds}


def paper(numpy_ns):
    """Time of learning for the paper's MountainCar comparison, here and with the oracle."""
    car, rules, alpha = sb.problems.mountain_car(), nine_rules(), SIZES[:, None]
    start, cpu = time.perf_counter(), time.process_time()
    runs = sb.learn(
        rules, car, alpha=alpha, beta=alpha * SIZES, episodes=5000, runs=2,
        rng=0, threads=2,
    )  # fmt: skip
    seconds, cpu = (time.perf_counter() - start) * 5 / 2, (time.process_time() - cpu) * 5 / 2
    steps = int(runs[0].updates[-1].mean()) * 5 * 121 * len(rules)
    return {
        "learner_steps": steps,
        "learning_s_for_5_runs": seconds,
        "learning_cpu_s_for_5_runs": cpu,
        "oracle_hours": steps * numpy_ns / 3.6e12,
    }


def start_up():
    """Seconds until the first `learn` returns: without compiled kernels, and with them."""
    program = (
        "import time; t = time.perf_counter(); import saddleback as sb;"
        "o = dict(beta=.1, steps=100, rng=0);"
        "sb.learn(sb.GES(0.5), sb.problems.mountain_car(), alpha=[.1, .2], **o);"
        "sb.learn(sb.GES(0.5), sb.problems.two_state(), alpha=.1, **o);"
        "print(time.perf_counter() - t)"
    )
    with tempfile.TemporaryDirectory() as cache:
        run = lambda: float(  # noqa: E731
            subprocess.run(
                [sys.executable, "-c", program], env=os.environ | {"NUMBA_CACHE_DIR": cache},
                capture_output=True, text=True, check=True,
            ).stdout
        )  # fmt: skip
        return {"first_s": run(), "later_s": run()}


def memory():
    """Peak memory of a process that learns with 121 settings, MB: a short run and a long one."""
    program = (
        "import sys, resource, numpy as np, saddleback as sb;"
        "a = 0.1 * 2.0 ** -np.arange(11);"
        "sb.learn(sb.GES(0.99), sb.problems.mountain_car(), alpha=a[:, None], beta=0.1 * a,"
        "         steps=int(sys.argv[1]), rng=0);"
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)"
    )
    run = lambda steps: float(  # noqa: E731
        subprocess.run(
            [sys.executable, "-c", program, str(steps)], capture_output=True, text=True, check=True
        ).stdout
    )
    return {"20_000_steps": run(20_000), "1_000_000_steps": run(1_000_000)}


def main():
    """Measure everything, print a table, write the file."""
    print(machine_line())
    out = Path("results")
    out.mkdir(exist_ok=True)
    ges = sb.GES(0.99)
    p, stream = prepare_stream(ges)
    result = {
        "machine": machine(),
        "steps": STEPS,
    }

    console.print("oracle and engine, MountainCar, p = 972, GES(0.99) …")
    numpy_ns = oracle(sb.problems.mountain_car(), ges)
    engine = {k: kernel(ges, p, stream, k) / k for k in (1, 16, 121, 512)}
    c = {k: t / k for k in (1, 121) if (t := plain_c(stream, p, k)) is not None}
    by_threads = threads(ges, p, stream)
    faster = {kind: times[1] / times[2] for kind, times in by_threads.items()}
    learn_ns = {n: seconds / 5 / STEPS / 121 * 1e9 for n, seconds in by_threads["learn"].items()}
    result["ns_per_learner_step"] = {
        "oracle": numpy_ns, "engine": engine, "plain_c": c, "learn_121": learn_ns,
    }  # fmt: skip
    result["seconds_by_threads"] = by_threads
    result["peak_memory_mb"] = memory()

    console.print("traces, episodic and continuing …")
    result["ns_per_step_by_lambda_121"] = {
        kind: {
            lam: kernel(
                sb.GES(lam), *prepare_stream(sb.GES(lam), endless=kind == "continuing"), 121
            )
            for lam in (0.0, 0.3, 0.9, 0.99)
        }
        for kind in ("episodic", "continuing")
    }
    console.print("forms …")
    rules = [
        sb.ExpectedSarsa(0.9),
        sb.GES(0.9),
        sb.GQ(0.9),
        sb.TD(0.9),
        sb.ETD(0.9),
        sb.GTD(),
        sb.TDRC(0.9),
    ]
    result["ns_per_step_by_rule_121"] = {str(r): kernel(r, *prepare_stream(r), 121) for r in rules}

    console.print("sizes …")
    sizes, accesses = {"same_tiles_hashed": {}, "fine_tiles": {}}, {}
    for size in (10**3, 10**4, 10**5, 10**6):
        hashed = Tiles(LOW, HIGH, bins=8, tilings=4, table=size // 3)
        fine = Tiles(LOW, HIGH, bins=int((size / 12) ** 0.5) - 1, tilings=4)
        for name, tiles in (("same_tiles_hashed", hashed), ("fine_tiles", fine)):
            car = sb.problems.mountain_car(features=tiles)
            sizes[name][size] = kernel(ges, *prepare_stream(ges, car), 16)
            if size == 10**6:
                accesses[name] = rows_alone(*prepare_stream(ges, car), 16)
    result["ns_per_step_by_size_16"] = sizes
    result["ns_per_step_rows_alone_16"] = accesses

    console.print("simulators, start-up …")
    result["simulators"] = simulators()
    result["start_up"] = start_up()
    console.print("the paper's MountainCar comparison, nine rules …")
    result["paper"] = paper(numpy_ns)

    lam = result["ns_per_step_by_lambda_121"]
    ratios = {
        "one learner: oracle / engine": numpy_ns / engine[1],
        "121 learners: oracle / engine": numpy_ns / engine[121],
        "121 learners: two threads / one": faster["kernel"],
        "121 learners end to end: two threads / one": faster["learn"],
        "121 learners end to end, most diverge: two threads / one": faster["learn, most diverge"],
        "two independent kernels / one": 2 * faster["independent"],
        "largest over λ > 0 / λ = 0": max(
            times[value] / times[0.0] for times in lam.values() for value in times if value > 0
        ),
        "p = 10⁶ / p = 10³, same tiles hashed": sizes["same_tiles_hashed"][10**6]
        / sizes["same_tiles_hashed"][10**3],
        "p = 10⁶ / p = 10³, fine tiles": sizes["fine_tiles"][10**6] / sizes["fine_tiles"][10**3],
        "paper, MountainCar: oracle / engine": result["paper"]["oracle_hours"]
        * 3600
        / result["paper"]["learning_s_for_5_runs"],
        "MountainCar: ours / Gymnasium": result["simulators"]["ours_steps_per_s"]
        / result["simulators"]["gymnasium_steps_per_s"],
    }
    for k, t in c.items():
        ratios[f"{k} learner{'s' * (k > 1)}: engine / plain C"] = engine[k] / t
    result["ratios"] = ratios
    text = json.dumps(result, indent=1, ensure_ascii=False) + "\n"
    (out / "bench.json").write_text(text, encoding="utf-8")

    table = Table(title="Ratios, all from this run", box=box.SIMPLE)
    table.add_column("quantity")
    table.add_column("ratio", justify="right")
    for name, ratio in ratios.items():
        table.add_row(name, f"{ratio:,.2f}" if ratio < 100 else f"{ratio:,.0f}")
    console.print(table)
    table = Table(title="Absolute times", box=box.SIMPLE)
    table.add_column("quantity")
    table.add_column("value", justify="right")
    table.add_row("oracle, ns per step", f"{numpy_ns:,.0f}")
    for k, t in engine.items():
        table.add_row(f"engine, {k} learners, ns per learner-step", f"{t:.2f}")
    for k, t in c.items():
        table.add_row(f"plain C, {k} learners, ns per learner-step", f"{t:.2f}")
    for n, t in learn_ns.items():
        table.add_row(f"learn, 121 settings, {n} threads, ns per learner-step", f"{t:.2f}")
    for kind, times in lam.items():
        for value, t in times.items():
            table.add_row(f"{kind}, λ = {value:g}, 121 learners, ns per step", f"{t:,.0f}")
    for name, t in result["ns_per_step_by_rule_121"].items():
        table.add_row(f"{name}, 121 learners, ns per step", f"{t:,.0f}")
    for name, times in sizes.items():
        for size, t in times.items():
            table.add_row(
                f"{name.replace('_', ' ')}, p = {size:,}, 16 learners, ns per step", f"{t:,.0f}"
            )
    for name, t in accesses.items():
        table.add_row(
            f"{name.replace('_', ' ')}, p = 1,000,000, rows alone, ns per step", f"{t:,.0f}"
        )
    for group in ("simulators", "start_up", "peak_memory_mb", "paper"):
        for name, value in result[group].items():
            table.add_row(f"{group}: {name}".replace("_", " "), f"{value:,.2f}")
    console.print(table)


if __name__ == "__main__":
    main()
