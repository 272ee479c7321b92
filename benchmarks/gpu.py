"""Learning on a GPU beside the CPU engine of the same machine.

Run by ``make gpu-bench``, where there is a GPU; writes ``results/bench-gpu.json``. Rates of the
kernel are on prepared streams, best of several repetitions; the paper's comparison is end to end:
simulation, features, learning and metrics.
"""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import cupy
import numpy as np
from machine import machine, machine_line
from paper_rules import SIZES, nine_rules

import saddleback as sb
from saddleback import cuda
from saddleback.cuda.gpu import compiled_kernel
from saddleback.engine import Learners, Schedule, Workers

CAR, STATES = sb.problems.mountain_car(), sb.problems.mountain_car(values="state")
THREADS = os.cpu_count() or 1
STEPS = 8192
TARGETS = {"paper, seconds": 3.0, "float64": 8e9, "float32": 12e9}


def synchronize():
    cupy.cuda.runtime.deviceSynchronize()


def bandwidth():
    """Bytes per second of a large copy on the device, read and written."""
    source = cupy.ones(1 << 29, cupy.float64)
    target = cupy.empty_like(source)
    times = []
    for _ in range(5):
        synchronize()
        start = time.perf_counter()
        target[...] = source
        synchronize()
        times.append(time.perf_counter() - start)
    return 2 * source.nbytes / min(times)


def problem_of(rule):
    return STATES if rule.bootstrap.values == "state" else CAR


def prepared(rule):
    problem = problem_of(rule)
    piece = problem.sampler(np.random.default_rng(0)).take(STEPS)
    return problem.streamer([rule])(piece)[0]


def new_learners(engine, rule, count, dtype):
    sizes, zero = Schedule(np.full(count, 1e-5)), np.zeros((count, problem_of(rule).p), dtype)
    return engine(rule.form, sizes, sizes, zero, zero, 1e6)


def kernel_rate(rule, groups, count, dtype, repeat=3):
    """Learner-steps per second of the kernel, and its occupancy."""
    gpu, stream, p = cuda.current_device(), prepared(rule), problem_of(rule).p
    learners = [new_learners(cuda.LearnerTiles, rule, count, dtype) for _ in range(groups)]
    workers, calls = cuda.TileWorkers(learners, THREADS, gpu), []
    launch = gpu.launch
    gpu.launch = lambda *arguments: (launch(*arguments), calls.append(arguments))
    workers.advance(iter([[stream] * groups]))
    del gpu.launch
    _, _, tiles, shared, further, arguments = calls[0]
    kernel, times = compiled_kernel(cupy, dtype, further), []
    for _ in range(repeat):
        start, end = cupy.cuda.Event(), cupy.cuda.Event()
        start.record()
        kernel((tiles,), (32,), arguments, shared_mem=shared)
        end.record()
        end.synchronize()
        times.append(cupy.cuda.get_elapsed_time(start, end) / 1e3)
    blocks = cupy.cuda.driver.occupancyMaxActiveBlocksPerMultiprocessor(
        kernel.kernel.ptr, 32, shared
    )
    processors = cupy.cuda.Device().attributes["MultiProcessorCount"]
    return {
        "learners": groups * count,
        "rate": groups * count * STEPS / min(times),
        "us_per_step": min(times) / STEPS * 1e6,
        "registers": kernel.num_regs,
        "warps_per_multiprocessor": min(blocks, -(-tiles // processors)),
        "memory_gb": cuda.bytes_needed([count] * groups, p, np.dtype(dtype), [rule.form]) / 1e9,
    }


def bytes_per_step(rule, dtype):
    """Bytes that a learner reads and writes in a step, each row of weights counted once."""
    c, size = rule.form.coefficients, np.dtype(dtype).itemsize
    phi, successors = 4, 12
    theta = 2 * phi + successors * (2 if c.saddle or c.correction else 1)
    return (theta + (2 * phi if c.dual else 0)) * size


def cpu_rate(rule, count=121, repeat=3):
    """Learner-steps per second of the CPU engine, in one thread and in all of them."""
    stream, rates = prepared(rule), {}
    for threads in (1, THREADS):
        times = []
        for _ in range(repeat):
            groups = [new_learners(Learners, rule, count, np.float64) for _ in range(threads)]
            workers = Workers(groups, threads)
            start = time.perf_counter()
            workers.advance([[stream] * threads] * 4)
            times.append(time.perf_counter() - start)
        rates[threads] = 4 * threads * count * STEPS / min(times)
    return rates


def paper(device, episodes):
    """Seconds and learner-steps of the paper's comparison, with the MSPBE at 21 checkpoints."""
    rules, alpha = nine_rules(), SIZES[:, None]
    options = dict(alpha=alpha, beta=0.1 * alpha * 2.0 ** -np.arange(11), runs=5, rng=0)
    options |= dict(record=np.linspace(0, episodes, 21).astype(int), threads=THREADS)
    start = time.perf_counter()
    runs = sb.learn(
        rules, CAR, episodes=episodes, device=device, metrics=lambda rule: METRICS[rule], **options
    )
    seconds = time.perf_counter() - start
    steps = sum(int((run.updates[-1] * 121).sum()) for run in runs)
    return {"episodes": episodes, "seconds": seconds, "learner_steps": steps}


def systems():
    """The MSPBE of each rule, estimated before anything is timed."""
    estimates = sb.System.estimate(CAR, nine_rules(), steps=50_000, rng=1)
    for system in estimates:
        assert system.M_inverse.shape
    return {system.rule: {"mspbe": system.mspbe} for system in estimates}


METRICS = systems()


def main():
    gpu = cuda.current_device()
    free, total = gpu.memory()
    print(machine_line())
    print(f"{gpu.name}, {total / 1e9:.0f} GB, {free / 1e9:.0f} GB free; CuPy {cupy.__version__}")
    speed = bandwidth()
    print(f"copies on the device: {speed / 1e12:.2f} TB/s read and written\n")
    result = {
        "machine": machine(),
        "gpu": {"name": gpu.name, "memory": total, "bandwidth": speed, "cupy": cupy.__version__},
    }

    paper("cuda", 20)  # compiles, and loads libraries
    paper("cpu", 20)
    result["paper"] = {"cuda": [paper("cuda", 5000) for _ in range(3)], "cpu": paper("cpu", 500)}
    print("the paper's MountainCar comparison: nine rules, 121 pairs, 5 runs, metrics at 21 points")
    for one in (*result["paper"]["cuda"], result["paper"]["cpu"]):
        where = "GPU" if one["episodes"] == 5000 else f"CPU, {THREADS} threads"
        rate = one["learner_steps"] / one["seconds"]
        print(
            f"  {where:16} {one['episodes']:5} episodes {one['seconds']:7.2f} s "
            f"{one['learner_steps'] / 1e9:6.2f} G learner-steps {rate / 1e9:6.2f} G/s"
        )

    print("\nthe kernel, learner-steps/s; memory traffic as a share of the card's bandwidth")
    result["kernel"] = []
    for dtype in ("float64", "float32"):
        for rule in (sb.GES(0.9), sb.GQ(0.9), sb.ExpectedSarsa(0.9)):
            for groups, count in ((45, 121), (8, 4000), (32, 5120), (128, 5120)):
                row = {"rule": str(rule), "dtype": dtype, **kernel_rate(rule, groups, count, dtype)}
                row["bytes_per_step"] = bytes_per_step(rule, dtype)
                row["share_of_bandwidth"] = row["rate"] * row["bytes_per_step"] / speed
                result["kernel"].append(row)
                print(
                    f"  {dtype} {row['rule']:18} {row['learners']:8,} learners "
                    f"{row['rate'] / 1e9:6.2f} G/s {row['us_per_step']:6.2f} µs/step "
                    f"{row['memory_gb']:6.2f} GB {row['registers']:4} registers "
                    f"{row['warps_per_multiprocessor']:3} warps/SM "
                    f"{row['bytes_per_step']:4} B/step {row['share_of_bandwidth']:4.0%}"
                )
    million = result["million"] = kernel_rate(sb.GES(0.9), 256, 4096, "float64", 2)
    print(f"  {million['learners']:,} learners: {million['rate'] / 1e9:.2f} G/s")
    print("\nfurther traces, state values (p = 324), learner-steps/s")
    result["further"] = []
    for dtype in ("float64", "float32"):
        for rule in (sb.HTD(0.9), sb.TrueOnlineTD(0.9), sb.TrueOnlineGTD(0.9)):
            for groups, count in ((8, 4000), (32, 5120)):
                row = {"rule": str(rule), "dtype": dtype, **kernel_rate(rule, groups, count, dtype)}
                result["further"].append(row)
                print(
                    f"  {dtype} {row['rule']:18} {row['learners']:8,} learners "
                    f"{row['rate'] / 1e9:6.2f} G/s {row['registers']:4} registers "
                    f"{row['warps_per_multiprocessor']:3} warps/SM"
                )
    print("\nby λ, GES, 32,000 learners, float64")
    result["by_lambda"] = {}
    for lam in (0.0, 0.3, 0.9, 0.99):
        row = result["by_lambda"][lam] = kernel_rate(sb.GES(lam), 8, 4000, "float64")
        print(f"  λ = {lam:<4} {row['rate'] / 1e9:6.2f} G/s {row['us_per_step']:6.2f} µs/step")

    result["cpu_rate"] = cpu_rate(sb.GES(0.9))
    for threads, rate in result["cpu_rate"].items():
        print(f"the CPU engine, 121 learners in each of {threads} threads: {rate / 1e9:.3f} G/s")

    reached = {"paper, seconds": np.median([one["seconds"] for one in result["paper"]["cuda"]])}
    for dtype in ("float64", "float32"):
        rows = [
            row for row in result["kernel"] + result["further"]
            if row["dtype"] == dtype and row["learners"] >= 32_000
        ]  # fmt: skip
        reached[dtype] = min(
            max(row["rate"] for row in rows if row["rule"] == rule)
            for rule in {r["rule"] for r in rows}
        )
    result["targets"] = {name: [float(reached[name]), target] for name, target in TARGETS.items()}
    print("\ntargets (reached, wanted):", result["targets"])
    Path("results").mkdir(exist_ok=True)
    text = json.dumps(result, indent=1, ensure_ascii=False, default=float)
    Path("results/bench-gpu.json").write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
