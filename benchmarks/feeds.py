"""What reading text costs: lines and megabytes a second of one parsing thread, beside NumPy and pandas.

    PYTHONPATH=build/release/python python benchmarks/feeds.py [--lines N] [--threads N]

Each figure is the best of three passes over a file that is in the page cache. pandas is asked where it is installed.
NumPy and pandas have no reader for multislot and libsvm lines; a plain Python loop stands for what one would write.
"""

import argparse
import os
import tempfile
import time

import numpy as np

import trireme as fluid


def slot(name, dtype="float32", width=1, lod=0, **more):
    return fluid.Slot(name, dtype, [-1, width], lod, **more)


def write_files(folder, lines):
    """The same table three ways: 13 numbers and a label, and 26 slots of ids as in click logs."""
    rng = np.random.default_rng(1)
    table = rng.standard_normal((lines, 14)).astype("float32")
    ids = rng.integers(0, 1 << 40, (lines, 26))
    paths = {name: os.path.join(folder, name) for name in ("csv", "libsvm", "multislot")}
    with open(paths["csv"], "w") as csv, open(paths["libsvm"], "w") as libsvm, open(paths["multislot"], "w") as slots:
        for row, keys in zip(table.tolist(), ids.tolist()):
            values = [f"{value:.6g}" for value in row]
            csv.write(",".join(values) + "\n")
            libsvm.write(values[13] + " " + " ".join(f"{i + 1}:{v}" for i, v in enumerate(values[:13])) + "\n")
            slots.write(f"1 1 13 {' '.join(values[:13])} " + " ".join(f"1 {key}" for key in keys) + "\n")
    return paths


def datasets(paths, threads):
    dense = [slot("x", width=13), slot("y")]
    ids = [slot("label", "int64"), slot("x", width=13), *(slot(f"c{i}", "int64", lod=1) for i in range(26))]
    for name, slots in [("csv", dense), ("libsvm", dense[::-1]), ("multislot", ids)]:
        yield name, fluid.Dataset(paths[name], name, 512, slots, threads=threads)


def best(function, times=3):
    seconds = []
    for _ in range(times):
        start = time.perf_counter()
        function()
        seconds.append(time.perf_counter() - start)
    return min(seconds)


def read_plain(path):
    with open(path) as lines:
        for line in lines:
            [float(word.rpartition(":")[2]) for word in line.split()]


def others(name, path):
    if name != "csv":
        yield "a Python loop", lambda: read_plain(path)
        return
    yield "numpy.loadtxt", lambda: np.loadtxt(path, np.float32, delimiter=",")
    try:
        import pandas
    except ImportError:
        return
    yield "pandas.read_csv", lambda: pandas.read_csv(path, header=None, dtype=np.float32)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--lines", type=int, default=100_000)
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    print(f"{'format':10} {'reader':28} {'MB/s':>8} {'lines/s':>12}")

    def report(name, reader, path, seconds):
        print(f"{name:10} {reader:28} {os.path.getsize(path) / seconds / 1e6:8.1f} {options.lines / seconds:12,.0f}")

    with tempfile.TemporaryDirectory() as folder:
        paths = write_files(folder, options.lines)
        for name, data in datasets(paths, options.threads):
            report(name, f"trireme, {options.threads} thread{'s' * (options.threads > 1)}", paths[name],
                   best(data.load_into_memory))
            for reader, function in others(name, paths[name]):
                report(name, reader, paths[name], best(function, 1))


if __name__ == "__main__":
    main()
