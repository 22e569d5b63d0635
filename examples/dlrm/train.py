"""Will an advertisement be clicked? A model like DLRM (Naumov et al., 2019) on lines in the format of Criteo.

    python examples/dlrm/train.py
    trireme launch --servers 2 --trainers 2 examples/dlrm/train.py

A line has a label, 13 counts and 26 categories, with tabs between them and without a header; counts and categories may be empty. Without
files the lines are made up: a hidden model says how likely a click is. Criteo's own lines are taken from the folder `criteo` of data
sets. The native core reads and hashes the lines; each category has a sparse table, whose rows are with the servers in a job.
"""

import argparse
import glob
import json
import os
import sys

import numpy as np

import trireme as fluid
from trireme import distributed, layers

COUNTS, CATEGORIES = 13, 26
KEYS = 1 << 40                                   # the range of hashes; rows exist for the keys that occur


# -- lines ------------------------------------------------------------------------------------------------------------


def write_lines(path, rows, seed):
    """Write lines of a hidden model: some counts and some categories matter, and a tenth of all fields is empty."""
    hidden, random = np.random.default_rng(1), np.random.default_rng(seed)
    words = [int(10 ** (1 + 2.5 * i / CATEGORIES)) for i in range(CATEGORIES)]         # from 10 to some thousand words
    of_counts, of_words = hidden.normal(0, 0.3, COUNTS), [hidden.normal(0, 0.5, size) for size in words]
    counts = np.floor(random.exponential(20, (rows, COUNTS))).astype(int)
    chosen = np.stack([np.minimum(random.zipf(1.3, rows) - 1, size - 1) for size in words], axis=1)
    is_there = random.random((rows, COUNTS + CATEGORIES)) > 0.1
    score = (np.log1p(counts) - 2.5) * is_there[:, :COUNTS] @ of_counts - 1
    score += sum(of_words[i][chosen[:, i]] * is_there[:, COUNTS + i] for i in range(CATEGORIES))
    label = random.random(rows) < 1 / (1 + np.exp(-score))
    with open(path, "w", encoding="ascii") as file:
        for row in range(rows):
            fields = [*map(str, counts[row]), *(f"{i:02x}{word:06x}" for i, word in enumerate(chosen[row]))]
            file.write("\t".join([str(int(label[row])), *(field if there else "" for field, there in zip(fields, is_there[row]))]) + "\n")


def find_files(options):
    """Return the files to train on and those to test with."""
    home = os.path.join(os.environ.get("TRIREME_DATA_HOME", ""), "criteo")
    if options.train or glob.glob(os.path.join(home, "train*.txt")):
        return options.train or os.path.join(home, "train*.txt"), options.held_out or os.path.join(home, "held_out*.txt")
    os.makedirs(options.folder, exist_ok=True)
    paths = [os.path.join(options.folder, f"trainer-{distributed.trainer_index()}-{name}.tsv") for name in ("train", "held-out")]
    write_lines(paths[0], options.rows, seed=2)          # each trainer has the same lines, so no common folder is needed
    write_lines(paths[1], options.rows // 5, seed=3)
    return paths


# -- network ----------------------------------------------------------------------------------------------------------


def inputs():
    counts = layers.data("counts", [COUNTS])
    words = [layers.data(f"c{i + 1}", [1], dtype="int64") for i in range(CATEGORIES)]
    return counts, words, layers.data("label", [1], dtype="int64")


def lines(files, batch):
    """Lines of Criteo: an empty count is 0, an empty category is a word like others."""
    counts, words, label = inputs()
    slots = [fluid.Slot(label, columns=[0]), fluid.Slot(counts, columns=list(range(1, 1 + COUNTS)), missing=0.0),
             *(fluid.Slot(word, columns=[1 + COUNTS + i], hash=KEYS) for i, word in enumerate(words))]
    return fluid.Dataset(files, "csv", delimiter="\t", batch_size=batch, slots=slots)


def tower(x, widths, name):
    """Layers, each with relu."""
    for i, width in enumerate(widths):
        x = layers.fc(x, width, act="relu", name=f"{name}{i}")
    return x


def interactions(vectors, width):
    """The products of all pairs of vectors, [samples, pairs]."""
    count = len(vectors)
    rows = layers.reshape(layers.concat(vectors, axis=1), [-1, count, width])
    products = layers.reshape(layers.matmul(rows, rows, transpose_y=True), [-1, count * count])
    pairs = [i * count + j for i in range(count) for j in range(i)]
    chosen = layers.gather(layers.transpose(products, [1, 0]), layers.assign(np.array(pairs, "int32")))
    return layers.transpose(chosen, [1, 0])


def network(options):
    """Return the probability of a click, [samples, 1], and the mean cost."""
    counts, words, label = inputs()
    bottom = tower(layers.log(layers.relu(counts) + 1.0), [64, options.width], "bottom")
    near = fluid.initializer.Normal(0.0, 0.05)
    tables = [layers.reshape(layers.embedding(word, [KEYS, options.width], is_sparse=True, is_distributed=True,
                                              param_attr=fluid.ParamAttr(name=f"table.{word.name}", initializer=near)), [-1, options.width])
              for word in words]
    crossed = interactions([bottom, *tables], options.width)
    logit = layers.fc(tower(layers.concat([bottom, crossed], axis=1), [128, 64], "top"), 1, name="logit")
    cost = layers.sigmoid_cross_entropy_with_logits(logit, layers.cast(label, "float32"))
    return layers.sigmoid(logit), layers.mean(cost)


# -- training ---------------------------------------------------------------------------------------------------------


def parse():
    options = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    options.add_argument("--epochs", type=int, default=2)
    options.add_argument("--batch", type=int, default=256, help="samples of a step, of all trainers together")
    options.add_argument("--rate", type=float, default=0.05, help="learning rate")
    options.add_argument("--width", type=int, default=8, help="of a category's vector")
    options.add_argument("--rows", type=int, default=40000, help="lines that are made up, where there are no files")
    options.add_argument("--folder", default="output/dlrm", help="where these lines lie")
    options.add_argument("--train", help="files in Criteo's format, or a pattern of them")
    options.add_argument("--held-out", help="files to test with")
    options.add_argument("--at-least", type=float, default=0.65, help="area under the ROC curve below which the run has failed")
    return options.parse_args()


def main() -> None:
    options = parse()
    train, held_out = find_files(options)
    fluid.default_startup_program().random_seed = 1
    chance, loss = network(options)
    test = fluid.default_main_program().clone(for_test=True)
    # Adagrad divides a gradient by the root of its sum of squares. With a sum that begins at 0 the first step is the whole rate, also where
    # the gradient is nothing but an error of rounding. So the sums begin above 0.
    fluid.optimizer.Adagrad(options.rate, initial_accumulator_value=1e-6).minimize(loss)
    exe = fluid.Executor(fluid.CPUPlace())
    exe.run(fluid.default_startup_program())
    kept = list(lines(held_out, 1000))                   # in a job: this trainer's slice of each batch

    def area():
        auc = fluid.metrics.Auc()
        for batch in kept:
            chances, = exe.run(test, feed=batch, fetch_list=[chance])
            auc.update(np.hstack([1 - chances, chances]), batch["label"])
        return {"auc": distributed.merge_metric(auc).eval()}

    history = exe.train_from_dataset(dataset=lines(train, options.batch), epochs=options.epochs, fetch_list=[loss], fetch_info=["loss"],
                                     callbacks=[fluid.callbacks.Validation(area)])
    reached = history.history["auc"]
    if distributed.trainer_index() == 0:
        for epoch, auc in enumerate(reached, 1):
            print(json.dumps({"epoch": epoch, "auc": round(auc, 5)}), flush=True)
        print(f"rows of tables: {sum(table.rows for table in distributed.table_report())}", flush=True)
    if reached[-1] < options.at_least:
        sys.exit("the model has not learnt enough")


if __name__ == "__main__":
    main()
