"""Will a shown advertisement be clicked? DeepFM (Guo et al., 2017) on clicks that are made up as they are needed.

    python examples/deepfm/train.py
    trireme launch --servers 2 --trainers 4 examples/deepfm/train.py

A sample has one key in each of 26 fields, and most of a million keys are rare: how frequent they are follows Zipf's law. Whether
it is clicked is drawn from a model that stays hidden, a weight and a vector for each key, so the best that can be reached is
known. What is learnt is the area under the ROC curve (AUC) of held-out samples: the chance that a click gets a higher
probability than a sample without one. Nothing is read from or written to files.
"""

import argparse
import json
import sys
import time

import numpy as np

import trireme as fluid
from trireme import layers

FIELDS = 26
TRAIN, TEST = 0, 1                               # parts of the data


# -- clicks -----------------------------------------------------------------------------------------------------------


class Clicks:
    """Samples of a hidden model. A batch depends on the seed, its part and its number alone: any can be made at any time."""

    HIDDEN = 4                                   # width of a key's vector
    BIAS, WEIGHT, VECTOR = -1.6, 0.4, 0.12       # about one sample in four is clicked; pairs say a quarter of what single keys do

    def __init__(self, keys, zipf, seed=1):
        self.seed, self.per_field = seed, keys // FIELDS
        random = np.random.default_rng(seed)
        self.weight = random.normal(0, self.WEIGHT, FIELDS * self.per_field).astype("float32")
        self.vector = random.normal(0, self.VECTOR, (FIELDS * self.per_field, self.HIDDEN)).astype("float32")
        frequent = np.arange(1, self.per_field + 1) ** -zipf
        self.up_to = np.cumsum(frequent) / frequent.sum()

    def batch(self, part, number, size):
        """Return a feed: keys [size, 26, 1], label [size, 1]; and the probabilities [size, 1] that the labels are drawn by."""
        random = np.random.default_rng([self.seed, part, number])
        rank = np.searchsorted(self.up_to[:-1], random.random((size, FIELDS)), side="right")
        keys = rank + np.arange(FIELDS) * self.per_field
        vectors = self.vector[keys]
        pairs = vectors.sum(axis=1) ** 2 - (vectors ** 2).sum(axis=1)
        chance = 1 / (1 + np.exp(-(self.BIAS + self.weight[keys].sum(axis=1) + 0.5 * pairs.sum(axis=1))))
        label = (random.random(size) < chance).astype("int64")
        return {"keys": keys[:, :, None], "label": label[:, None]}, chance[:, None]

    def train(self, steps, size):
        """A reader of feeds, none of which comes twice."""
        def reader():
            for number in range(steps):
                yield self.batch(TRAIN, number, size)[0]
        return reader

    def test(self, samples, size=1000):
        return [self.batch(TEST, number, size) for number in range(samples // size)]


def best_auc(test):
    """The AUC of who knows the hidden model."""
    metric = fluid.metrics.Auc("auc")
    for feed, chance in test:
        metric.update(chance, feed["label"])
    return metric.eval()


# -- network ----------------------------------------------------------------------------------------------------------


def table(keys, width, name, options):
    """Rows of a table by key, [samples, 26, width]."""
    first = fluid.initializer.Normal(0.0, 0.01)
    return layers.embedding(keys, [options.keys, width], is_sparse=True, is_distributed=options.tables,
                            param_attr=fluid.ParamAttr(name=name, initializer=first))


def network(options):
    """Return the probability of a click, [samples, 1], and the mean cost; parameters have the same names in every program."""
    keys = layers.data("keys", [FIELDS, 1], dtype="int64")
    label = layers.data("label", [1], dtype="int64")
    single = layers.reduce_sum(layers.reshape(table(keys, 1, "single", options), [-1, FIELDS]), dim=1, keep_dim=True)

    vectors = layers.reshape(table(keys, options.width, "vectors", options), [-1, FIELDS, options.width])
    of_sum = layers.square(layers.reduce_sum(vectors, dim=1))
    sum_of = layers.reduce_sum(layers.square(vectors), dim=1)
    pairs = layers.scale(layers.reduce_sum(of_sum - sum_of, dim=1, keep_dim=True), scale=0.5)

    deep = layers.reshape(vectors, [-1, FIELDS * options.width])
    for i in range(2):
        deep = layers.fc(deep, options.hidden, act="relu", param_attr=fluid.ParamAttr(name=f"deep{i}.w"),
                         bias_attr=fluid.ParamAttr(name=f"deep{i}.b"))
    deep = layers.fc(deep, 1, param_attr=fluid.ParamAttr(name="deep.w"), bias_attr=fluid.ParamAttr(name="deep.b"))
    logit = layers.sums([single, pairs, deep])
    cost = layers.sigmoid_cross_entropy_with_logits(logit, layers.cast(label, "float32"))
    return layers.sigmoid(logit), layers.mean(cost)


# -- training ---------------------------------------------------------------------------------------------------------


def auc_of(exe, program, chance, test):
    """The AUC of held-out samples."""
    metric = fluid.metrics.Auc("auc")
    for feed, _ in test:
        metric.update(exe.run(program, feed=feed, fetch_list=[chance])[0], feed["label"])
    return metric.eval()


class Report:
    """Prints lines of JSON: the mean cost since the last line, and the AUC of held-out samples."""

    def __init__(self, options, auc):
        self.options, self.auc, self.step, self.reached = options, auc, 0, 0.0
        self._begin()

    def _begin(self):
        self.costs, self.start = [], time.monotonic()

    def add(self, cost):
        self.costs.append(cost)
        self.step += 1
        if self.step % self.options.every == 0 or self.step == self.options.steps:
            self._print()
            self._begin()

    def _print(self):
        if fluid.distributed.trainer_index() != 0:
            return
        seconds, self.reached = time.monotonic() - self.start, self.auc()
        print(json.dumps({"run": self.options.name, "step": self.step, "cost": round(float(np.mean(self.costs)), 9),
                          "auc": round(self.reached, 8), "samples_per_s": round(len(self.costs) * self.options.batch / seconds)}),
              flush=True)


def parse(arguments=None):
    options = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    options.add_argument("--steps", type=int, default=1000)
    options.add_argument("--batch", type=int, default=1024, help="samples of a step, of all trainers together")
    options.add_argument("--every", type=int, default=100, help="report after so many steps")
    options.add_argument("--keys", type=int, default=1_000_000)
    options.add_argument("--tables", action="store_true", help="keep rows by key, in a job on the servers; only those that were used")
    options.add_argument("--row-cache", type=int, nargs=2, default=[0, 0], metavar=("ROWS", "STEPS"),
                         help="each trainer keeps so many rows of each table, for so many of its steps (async, ssp)")
    options.add_argument("--zipf", type=float, default=1.2, help="exponent of the frequencies")
    options.add_argument("--width", type=int, default=8, help="of a key's vector")
    options.add_argument("--hidden", type=int, default=64, help="width of the two hidden layers")
    options.add_argument("--rate", type=float, default=0.05, help="learning rate")
    options.add_argument("--held-out", type=int, default=40000, help="samples to test with")
    options.add_argument("--name", default="one process", help="what the lines call this run")
    options.add_argument("--mixed", action="store_true", help="store activations and their gradients in bfloat16")
    return options.parse_args(arguments)


def main() -> None:
    options = parse()
    fluid.distributed.set_row_cache(*options.row_cache)
    clicks = Clicks(options.keys, options.zipf)
    fluid.default_startup_program().random_seed = 1
    _, loss = network(options)
    test_program = fluid.Program()
    with fluid.program_guard(test_program, fluid.Program()):
        chance, _ = network(options)
    # Adagrad's sums begin above 0: else even a first gradient that is 0 but for rounding would make a whole step.
    optimizer = fluid.optimizer.Adagrad(options.rate, initial_accumulator_value=1e-6)
    if options.mixed:
        optimizer = fluid.contrib.mixed_precision.decorate(optimizer)
    optimizer.minimize(loss)

    exe = fluid.Executor(fluid.CPUPlace())
    exe.run(fluid.default_startup_program())
    test = clicks.test(options.held_out) if fluid.distributed.trainer_index() == 0 else []
    best = best_auc(test) if test else 0.0
    if test:
        print(f"{sum(feed['label'].mean() for feed, _ in test) / len(test):.1%} of the samples are clicked; the hidden model has an "
              f"AUC of {best:.4f}", flush=True)
    report = Report(options, lambda: auc_of(exe, test_program, chance, test))
    feeds = fluid.distributed.shard(clicks.train(options.steps, options.batch))()
    for feed in fluid.distributed.prefetched(feeds):
        report.add(float(exe.run(fluid.default_main_program(), feed=feed, fetch_list=[loss])[0][0]))
    if test and options.steps >= 1000 and report.reached < best - 0.1:
        sys.exit("the model has not learnt enough")


if __name__ == "__main__":
    main()
