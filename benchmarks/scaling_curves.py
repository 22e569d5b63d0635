"""Simulated curves of docs/scaling.md: five models in each mode and with each compression, on 8 to 128 trainers.

    python benchmarks/scaling_curves.py [--costs FILE] [--models vgg16,lstm] [--page docs/scaling.md] [--facts FILE]

The costs are those of `trireme simulate --calibrate`. Each script is measured alone, once; --facts keeps what was measured, and uses it
again. Prints the tables. --page writes them into a page, between its two comments, and draws its pictures beside it.
"""

import argparse
import pickle
import sys
import time
from dataclasses import replace
from pathlib import Path

HERE = Path(__file__).resolve().parent
MODELS = {"widedeep": 512, "deepfm": 512, "lstm": 32, "vgg16": 128, "resnet20": 64}
TITLES = {"widedeep": "wide&deep, two tables", "deepfm": "DeepFM, two tables, Adam", "lstm": "LSTM", "vgg16": "VGG-16",
          "resnet20": "ResNet-20"}
EVEN = "`sync`, all trainers alike"
MODES = ("sync", "async", "geo(10)")
METHODS = ("bf16",)
BEGIN, END = "<!-- curves: benchmarks/scaling_curves.py -->\n", "<!-- end of curves -->\n"
LINK, PER_HOST = (25e9 / 8, 2e-5), 8


def facts_of(options):
    from trireme.simulate.probe import run_script_apart

    kept = Path(options.facts) if options.facts else None
    found = pickle.loads(kept.read_bytes()) if kept and kept.exists() else {}
    for model in options.models.split(","):
        if model not in found:
            steps = 6 if model == "vgg16" else 20
            found[model] = run_script_apart(str(HERE / "scaling.py"), [model, str(MODELS[model])], steps=steps, seconds=60)
            if kept:
                kept.write_bytes(pickle.dumps(found))
    return {model: found[model] for model in options.models.split(",")}


class Model:
    """A model's curves: efficiency by number of trainers."""

    def __init__(self, facts, costs, options):
        from trireme.simulate.simulation import Cluster

        self.facts, self.costs, self.options = facts, costs, options
        self.cluster = Cluster(*LINK, trainers_per_host=PER_HOST, cores=0, server_threads=options.server_threads)
        self.servers = {}

    def evenly(self):
        """Return the same job without stragglers, on as many servers."""
        found = Model(even(self.facts), self.costs, self.options)
        found.servers = self.servers
        return found

    def run(self, mode, compress, trainers, servers=0):
        from trireme.job.mode import parse
        from trireme.simulate.schedule import Options
        from trireme.simulate.simulation import best_servers, simulate

        mode, how = parse(mode), Options(compress)
        if servers:
            return simulate(self.facts, self.costs, self.cluster, mode, how, trainers, servers)
        return best_servers(self.facts, self.costs, self.cluster, mode, how, trainers, 128)

    def curve(self, mode, compress, one):
        """Return (trainers, result, efficiency) beside `one`, the rate of a job of one trainer in `sync`."""
        each = self.options.trainers_per_server
        for trainers in self.options.trainers:
            if trainers not in self.servers:               # 0: as many as `sync` wants
                self.servers[trainers] = max(trainers // each, 1) if each else self.run("sync", "none", trainers).servers
            found = self.run(mode, compress, trainers, self.servers[trainers])
            period = 10 if "(10)" in mode else 1
            yield trainers, found, period * found.rate / (trainers * one)


def even(facts):
    """Return the facts of a job whose trainers all compute as long."""
    return replace(facts, spread=[1.0])


def band(efficiency, error):
    """Return the efficiencies if all that is no computing takes so much less or more."""
    lost = 1 / efficiency - 1
    return tuple(1 / (1 + lost * (1 + sign * error)) if lost > 0 else efficiency for sign in (1, -1))


def table(name, model, error):
    one = model.run("sync", "none", 1, 1).rate
    facts = model.facts
    tables = "".join(f", table `{one.name}` {one.keys:.0f} rows a step" for one in facts.tables)
    about = f"{1e3 * facts.computing:.3g} ms, {facts.dense_bytes / 1e6:.3g} MB of parameters{tables}"
    lines = [f"**{TITLES[name]}**, batch {MODELS[name]}: computes {about}.", "",
             "| mode, compression | " + " | ".join(map(str, model.options.trainers)) + " | limited by, at the end |",
             "|---|" + "---|" * (len(model.options.trainers) + 1)]
    curves = {}
    every = [*((model, mode, "none") for mode in MODES), *((model, "sync", method) for method in METHODS)]
    for used, mode, compress in [*every, (model.evenly(), EVEN, "none")]:
        found = list(used.curve("sync" if mode == EVEN else mode, compress, one))
        cells = []
        for _, _, efficiency in found:
            low, high = band(efficiency, error)
            cells.append(f"{100 * efficiency:.0f} ({100 * low:.0f} to {100 * high:.0f})")
        last = found[-1][1]
        title = mode if mode == EVEN else f"`{mode}`"
        lines.append(f"| {title}{'' if compress == 'none' else f', `{compress}`'} | " + " | ".join(cells)
                     + f" | {last.bottleneck}, {last.load:.0%} |")
        curves[mode if compress == "none" else f"{mode}, {compress}"] = found
    sync = curves["sync"]
    lines.append("| servers | " + " | ".join(str(found.servers) for _, found, _ in sync) + " | |")
    lines.append("| ms a step, `sync` | " + " | ".join(f"{1e3 * found.step:.3g}" for _, found, _ in sync) + " | |")
    lines.append("| MB of a trainer, of a server | " + " | ".join(f"{found.memory.trainer / 1e6:.0f}, {found.memory.server / 1e6:.0f}"
                                                                  for _, found, _ in sync) + " | |")
    lines.append("| connections of a trainer, of a server | " + " | ".join(f"{found.servers}, {trainers}" for trainers, found, _ in sync)
                 + " | |")
    return [*lines, ""], curves


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    options.add_argument("--costs")
    options.add_argument("--models", default=",".join(MODELS))
    options.add_argument("--page")
    options.add_argument("--facts")
    options.add_argument("--error", type=float, default=0.3, help="of all that is no computing, for the bands (default: 0.3)")
    options.add_argument("--server-threads", type=int, default=4)
    options.add_argument("--trainers", type=lambda text: [int(word) for word in text.split(",")], default=[8, 32, 128])
    options.add_argument("--trainers-per-server", type=int, default=8, help="0: as few servers as are as fast as more; takes long")
    options = options.parse_args()
    from trireme.observe.charts import line_chart
    from trireme.simulate.costs import default_path, load

    costs, lines, drawn = load(Path(options.costs) if options.costs else default_path()), [], {}
    for name, facts in facts_of(options).items():
        begun = time.monotonic()
        more, curves = table(name, Model(facts, costs, options), options.error)
        print("\n".join(more), flush=True)
        print(f"{name}: {time.monotonic() - begun:.0f} s", file=sys.stderr, flush=True)
        lines += more
        drawn[name] = [(float(trainers), efficiency) for trainers, _, efficiency in curves["sync"]]
    if options.page:
        page = Path(options.page)
        before, _, rest = page.read_text(encoding="utf-8").partition(BEGIN)
        page.write_text(before + BEGIN + "\n" + "\n".join(lines) + "\n" + END + rest.partition(END)[2], encoding="utf-8")
        page.with_name("images").joinpath("scaling.svg").write_text(
            line_chart(drawn, "trainers", "efficiency in mode sync, simulated", from_zero=True), encoding="utf-8")


if __name__ == "__main__":
    main()
