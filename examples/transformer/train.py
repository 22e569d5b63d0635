"""Learn to rewrite dates letter by letter by a Transformer: label smoothing, the schedule of Noam, a beam search.

    python examples/transformer/train.py
    trireme launch --servers 2 --trainers 2 examples/transformer/train.py

"mar 3, 98", "3rd of march 1998" and the like become "1998-03-03": the task dates of examples/attention.
"""

import argparse
import itertools
import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "attention"))        # the task, and its letters

import trireme as fluid
from tasks import BEGIN, END, encode, pairs

sys.path.insert(0, str(Path(__file__).resolve().parent))

import network
from search import Writer, padded

layers = fluid.layers
GIVEN, ANSWER = 24, 11                           # letters of a date as it is written, and of the answer with its end


def batches(batch, steps, seed):
    """A reader of `steps` batches, others in each epoch: lists of (letters, bias, answer with its begin, answer with its end, weights)."""
    source = pairs("dates", seed)

    def reader():
        for _ in range(steps):
            given, answers = zip(*itertools.islice(source, batch))
            ids, bias = padded([encode(text) for text in given], GIVEN)
            answers = [encode(text) for text in answers]
            before, _ = padded([[BEGIN, *answer] for answer in answers], ANSWER)
            after, hidden = padded([[*answer, END] for answer in answers], ANSWER)
            yield list(zip(ids, bias, before, after, (hidden[:, 0, 0] == 0).astype("float32")))
    return reader


def right(writer, tests):
    """The share, in per cent, of answers that are right to the last letter."""
    given, answers = zip(*tests)
    written = [text for part in np.array_split(given, max(len(given) // 100, 1)) for text in writer.best(part)]
    return 100 * sum(a == b for a, b in zip(written, answers)) / len(answers)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    options.add_argument("--epochs", type=int, default=5)
    options.add_argument("--steps", type=int, default=500, help="of an epoch")
    options.add_argument("--batch", type=int, default=64, help="texts of a step, of all trainers together")
    options.add_argument("--width", type=int, default=64, help="of a letter's vector")
    options.add_argument("--heads", type=int, default=4)
    options.add_argument("--depth", type=int, default=2, help="layers of the encoder and of the decoder")
    options.add_argument("--dropout", type=float, default=0.0)
    options.add_argument("--smoothing", type=float, default=0.1, help="of labels")
    options.add_argument("--warmup", type=int, default=400, help="steps until the learning rate is at its highest")
    options.add_argument("--rate", type=float, default=0.7, help="factor of the schedule of Noam")
    options.add_argument("--beam", type=int, default=4, help="how many answers the search keeps in sight")
    options.add_argument("--seed", type=int, default=1)
    options.add_argument("--tests", type=int, default=1000, help="texts to be tested on")
    options.add_argument("--curve", type=int, default=50, help="steps from one point of the loss curve to the next")
    options.add_argument("--at-least", type=float, default=99, help="per cent of right answers; with fewer it exits with 1")
    options = options.parse_args()

    fluid.default_startup_program().random_seed = options.seed
    sizes = options.width, options.heads, options.depth
    given, bias = layers.data("given", [GIVEN, 1], dtype="int64"), layers.data("bias", [1, 1, GIVEN])
    before, after = layers.data("before", [ANSWER, 1], dtype="int64"), layers.data("after", [ANSWER, 1], dtype="int64")
    weight = layers.data("weight", [ANSWER])
    memory = network.encoder(given, bias, GIVEN, sizes, options.dropout)
    scores = network.decoder(before, memory, bias, ANSWER, sizes, options.dropout)
    loss = network.cost(scores, after, weight, options.smoothing)
    rate = layers.noam_decay(options.width / options.rate ** 2, options.warmup)       # `--rate` times the schedule of Noam
    trainer = fluid.Trainer(loss, fluid.optimizer.Adam(learning_rate=rate, beta1=0.9, beta2=0.98, epsilon=1e-9),
                            feed_order=["given", "bias", "before", "after", "weight"])
    writer = Writer(sizes, GIVEN, ANSWER, options.beam)
    tests = list(itertools.islice(pairs("dates", 99, unseen=True), options.tests))
    progress = fluid.Progress(options.epochs, options.steps, curve=options.curve, run="transformer",
                              test=lambda: {"right": right(writer, tests)})
    trainer.train(batches(options.batch, options.steps, options.seed), options.epochs, progress)
    if fluid.distributed.trainer_index() == 0:
        for (text, _), answer in zip(tests[:5], writer.best([text for text, _ in tests[:5]])):
            print(f"{text:>28}  ->  {answer}")
        print(f"right to the last letter: {progress.tested['right']:.1f} % of {len(tests)} texts it has not seen")
    if progress.tested["right"] < options.at_least:
        sys.exit("the model has not learnt enough")


if __name__ == "__main__":
    main()
