"""Learn to rewrite short texts letter by letter: an encoder and a decoder with attention, and a beam search.

    python examples/attention/train.py --task dates
    trireme launch --servers 2 --trainers 2 examples/attention/train.py --task reverse

dates: "mar 3, 98", "3rd of march 1998" and the like become "1998-03-03". reverse: "trireme" becomes "emerirt".
"""

import argparse
import itertools
import sys

import numpy as np

import network
import trireme as fluid
from tasks import BEGIN, END, TASKS, decode, encode, pairs

layers = fluid.layers
LONGEST = 22                                     # letters of an answer, the end included


def letters(name):
    return layers.data(name, shape=[1], dtype="int64", lod_level=1)


class Writer:
    """Rewrites texts with the parameters that the scope has."""

    def __init__(self, width, beam):
        self.program, self.exe = fluid.Program(), fluid.Executor(fluid.CPUPlace())
        with fluid.program_guard(self.program, fluid.Program()):
            begin = layers.data("begin", shape=[1], dtype="int64", lod_level=2)
            nothing = layers.data("nothing", shape=[1], lod_level=2)
            self.fetches = network.search(letters("given"), begin, nothing, width, beam, LONGEST)

    def best(self, texts):
        """Return the best answer to each text."""
        given = [encode(text) for text in texts]
        one_each, levels = np.ones((len(texts), 1)), [[1] * len(texts)] * 2

        def tensor(values, dtype, lengths):
            return fluid.create_lod_tensor(np.asarray(values, dtype), lengths, fluid.CPUPlace())

        feed = {"given": tensor(np.concatenate(given)[:, None], "int64", [[len(ids) for ids in given]]),
                "begin": tensor(one_each * BEGIN, "int64", levels), "nothing": tensor(one_each * 0, "float32", levels)}
        found, _ = self.exe.run(self.program, feed=feed, fetch_list=self.fetches, return_numpy=False)
        answers, words = found.lod()
        ids = np.array(found).ravel()
        return [decode(ids[words[first]:words[first + 1]]) for first in answers[:-1]]


def batches(task, batch, steps, seed):
    """A reader of `steps` batches, others in each epoch: (given, the answer with its begin, the answer with its end)."""
    source = pairs(task, seed)

    def reader():
        for _ in range(steps):
            yield [(encode(given), [BEGIN, *encode(answer)], [*encode(answer), END])
                   for given, answer in itertools.islice(source, batch)]
    return reader


def right(writer, tests):
    """The share, in per cent, of answers that are right to the last letter."""
    given, answers = zip(*tests)
    written = [text for part in np.array_split(given, max(len(given) // 100, 1)) for text in writer.best(part)]
    return 100 * sum(a == b for a, b in zip(written, answers)) / len(answers)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    options.add_argument("--task", choices=TASKS, default="dates")
    options.add_argument("--epochs", type=int, default=4)
    options.add_argument("--steps", type=int, default=500, help="of an epoch")
    options.add_argument("--batch", type=int, default=64, help="texts of a step, of all trainers together")
    options.add_argument("--width", type=int, default=64, help="of the states")
    options.add_argument("--beam", type=int, default=4, help="how many answers the search keeps in sight")
    options.add_argument("--rate", type=float, default=0.003, help="the learning rate at its highest")
    options.add_argument("--seed", type=int, default=1)
    options.add_argument("--tests", type=int, default=1000, help="texts to be tested on")
    options.add_argument("--curve", type=int, default=50, help="steps from one point of the loss curve to the next")
    options.add_argument("--at-least", type=float, default=99, help="per cent of right answers; with fewer it exits with 1")
    options = options.parse_args()

    fluid.default_startup_program().random_seed = options.seed
    cost = network.cost(letters("given"), letters("before"), letters("answer"), options.width)
    rate = layers.cosine_decay(options.rate, step_each_epoch=options.steps, epochs=options.epochs)
    fluid.clip.set_gradient_clip(fluid.clip.GradientClipByNorm(5.0))
    trainer = fluid.Trainer(layers.mean(cost), fluid.optimizer.Adam(learning_rate=rate))
    writer = Writer(options.width, options.beam)
    tests = list(itertools.islice(pairs(options.task, 99, unseen=True), options.tests))
    progress = fluid.Progress(options.epochs, options.steps, curve=options.curve, run=options.task,
                              test=lambda: {"right": right(writer, tests)})
    trainer.train(batches(options.task, options.batch, options.steps, options.seed), options.epochs, progress)
    if fluid.distributed.trainer_index() == 0:
        for (given, _), answer in zip(tests[:5], writer.best([given for given, _ in tests[:5]])):
            print(f"{given:>28}  ->  {answer}")
        print(f"right to the last letter: {progress.tested['right']:.1f} % of {len(tests)} texts it has not seen")
    if progress.tested["right"] < options.at_least:
        sys.exit("the model has not learnt enough")


if __name__ == "__main__":
    main()
