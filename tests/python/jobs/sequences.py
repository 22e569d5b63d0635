"""A sequence model as users write it: an LSTM over ragged sequences; the same in one process and in a job.

Trainer 0 writes its losses and the parameters to OUT.
"""

import argparse
import sys

import numpy as np

import trireme as fluid
from trireme import layers

parser = argparse.ArgumentParser()
parser.add_argument("--optimizer", default="momentum")
parser.add_argument("--steps", type=int, default=36)
parser.add_argument("--batch", type=int, default=17)
parser.add_argument("--sparse", action="store_true")
parser.add_argument("--groups", action="store_true", help="each sample is a sequence of sequences")
parser.add_argument("--out")
args = parser.parse_args()

WORDS, WIDTH, CLASSES = 30, 8, 3
OPTIMIZERS = {"momentum": lambda: fluid.optimizer.Momentum(0.2, 0.9), "adam": lambda: fluid.optimizer.Adam(0.02)}


def sentence(rng, kind):
    return [int(word) for word in rng.integers(0, WORDS // CLASSES, rng.integers(1, 9)) * CLASSES + kind]


def reader():
    """Every word says of what class its sample is. Slices are uneven; of the last batches a trainer gets none."""
    rng = np.random.default_rng(5)
    for step in range(args.steps):
        samples = []
        for _ in range(args.batch if step < args.steps - 3 else 1):
            kind = int(rng.integers(0, CLASSES))
            words = [sentence(rng, kind) for _ in range(rng.integers(1, 4))] if args.groups else sentence(rng, kind)
            samples.append((words, kind))
        yield samples


fluid.default_startup_program().random_seed = 3
words = layers.data("words", [1], dtype="int64", lod_level=2 if args.groups else 1)
label = layers.data("label", [1], dtype="int64")
embedded = layers.embedding(words, [WORDS, WIDTH], is_sparse=args.sparse)
hidden, _ = layers.dynamic_lstm(layers.fc(embedded, 4 * WIDTH), 4 * WIDTH)
pooled = layers.concat([layers.sequence_pool(hidden, "max"), layers.sequence_pool(hidden, "average")], axis=1)
if args.groups:
    pooled = layers.sequence_pool(pooled, "sum")
predict = layers.fc(pooled, CLASSES, act="softmax")
loss = layers.mean(layers.cross_entropy(predict, label))
OPTIMIZERS[args.optimizer]().minimize(loss)

exe = fluid.Executor(fluid.CPUPlace())
exe.run(fluid.default_startup_program())
feeder = fluid.DataFeeder([words, label])
losses = [exe.run(feed=feeder.feed(batch), fetch_list=[loss])[0].item() for batch in fluid.distributed.shard(reader)()]
if args.out and fluid.distributed.trainer_index() == 0:
    params = {param.name: np.array(fluid.global_scope().find_var(param.name).get_tensor())
              for param in fluid.default_main_program().all_parameters()}
    np.savez(args.out, losses=np.array(losses), **params)
sys.stdout.write(f"trainer {fluid.distributed.trainer_index()} of {fluid.distributed.trainer_count()}: "
                 f"{losses[0]:.6f} -> {losses[-1]:.6f}\n")
