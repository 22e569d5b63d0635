"""A language model by characters: an LSTM learns to write like Shakespeare.

    python examples/char_lm/train.py --temperature 0.8
    python examples/char_lm/train.py --save output/plays        then: --load output/plays --seed 7 --begin "KING"
    trireme launch --servers 2 --trainers 2 examples/char_lm/train.py

Each step reads windows of the text (Tiny Shakespeare) that begin anywhere; the state starts from zero in each. What is
reported are lines of JSON: the mean loss of the steps since the last report and that of the held-out tenth of
the text, in nats per character, with the seconds so far by the clock and of this process's CPUs. docs/plot_curve.py
draws them.
"""

import argparse
import json
import time

import numpy as np

import trireme as fluid

layers, plays = fluid.layers, fluid.dataset.tinyshakespeare
TEST_WINDOW = 1115                               # characters; a hundred of them are the held-out text


def lstm(ids, width, dropout=0.0, first=(None, None)):
    """Return (scores of the next character, hidden states, cells) for each character of sequences of ids.

    `first`: hidden states and cells before the first characters; zeros without them. A row of the table is what its
    character adds to the gates, so that there is no product for the input.
    """
    count = len(plays.characters())
    forget_first = np.repeat([0, 0, 1, 0], width).astype(np.float32).reshape(1, -1)      # gates begin open
    gates = layers.embedding(ids, [count, 4 * width], param_attr="table")
    hidden, cell = layers.dynamic_lstm(
        gates, 4 * width, *first, use_peepholes=False, param_attr="lstm.w",
        bias_attr=fluid.ParamAttr("lstm.b", fluid.initializer.NumpyArrayInitializer(forget_first)))
    seen = layers.dropout(hidden, dropout, dropout_implementation="upscale_in_train") if dropout else hidden
    return layers.fc(seen, count, param_attr="out.w", bias_attr="out.b"), hidden, cell


def batches(ids, length, batch, steps, seed):
    """A reader of `steps` batches of windows: (characters, those that follow). Each pass over the text begins elsewhere."""
    def windows():
        random = np.random.default_rng(seed)
        while True:
            starts = np.arange(random.integers(length), len(ids) - length, length)
            for i in random.permutation(starts):
                yield ids[i:i + length], ids[i + 1:i + 1 + length]

    def reader():
        source = windows()
        for _ in range(steps):
            yield [next(source) for _ in range(batch)]
    return reader


class Reports:
    """Prints how the training goes, on the first trainer."""

    def __init__(self, trainer, steps, every):
        self.trainer, self.steps, self.every = trainer, steps, every
        self.test = fluid.batch(plays.test(TEST_WINDOW), 25)
        self.costs, self.done, self.start, self.held_out = [], 0, time.monotonic(), None
        self.run = (f"job {fluid.distributed.server_count()}+{fluid.distributed.trainer_count()}"       # servers, trainers
                    if fluid.distributed.is_distributed() else "one process")

    def __call__(self, event):
        if not isinstance(event, fluid.trainer.EndIteration) or fluid.distributed.trainer_index() != 0:
            return
        self.costs.append(event.cost)
        self.done += 1
        is_last = self.done == self.steps
        if self.done % max(self.every // 5, 1) == 0 or is_last:
            line = {"run": self.run, "step": self.done, "train": round(float(np.mean(self.costs)), 4)}
            if self.done % self.every == 0 or is_last:
                self.held_out = self.trainer.test(self.test).cost
                line["held_out"] = round(self.held_out, 4)
            line.update(seconds=round(time.monotonic() - self.start, 1), cpu_seconds=round(time.process_time(), 1))
            print(json.dumps(line), flush=True)
            self.costs = []


class Writer:
    """Writes text, one character after another, with the parameters that the scope has."""

    def __init__(self, width):
        self.program, self.exe, self.width = fluid.Program(), fluid.Executor(fluid.CPUPlace()), width
        with fluid.program_guard(self.program, fluid.Program()):
            ids = layers.data("ids", [1], dtype="int64", lod_level=1)
            first = layers.data("hidden", [width]), layers.data("cell", [width])
            scores, *states = lstm(ids, width, first=first)
            self.fetches = [layers.softmax(scores), *states]

    def text(self, begin, length, temperature, seed):
        """Return `begin` and `length` characters more. The lower the temperature, the more usual what is written."""
        random, written = np.random.default_rng(seed), list(plays.encode(begin))
        hidden = cell = np.zeros((1, self.width), np.float32)
        unread = written
        for _ in range(length):
            ids = fluid.create_lod_tensor(np.array(unread, np.int64).reshape(-1, 1), [[len(unread)]], fluid.CPUPlace())
            rows = self.exe.run(self.program, feed={"ids": ids, "hidden": hidden, "cell": cell}, fetch_list=self.fetches,
                                return_numpy=False)
            chances, hidden, cell = (np.array(of_all)[-1:] for of_all in rows)
            weights = (chances[0] / chances[0].max()).astype(np.float64) ** (1.0 / temperature)
            unread = [random.choice(len(weights), p=weights / weights.sum())]
            written += unread
        return plays.decode(written)


def positive(text):
    value = float(text)
    if not value > 0:
        raise argparse.ArgumentTypeError(f"must be positive, got {text}")
    return value


def arguments():
    options = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    options.add_argument("--width", type=int, default=384, help="of the hidden state")
    options.add_argument("--length", type=int, default=128, help="characters of a window")
    options.add_argument("--batch", type=int, default=32, help="windows of a step, of all trainers together")
    options.add_argument("--steps", type=int, default=2000)
    options.add_argument("--rate", type=float, default=0.004, help="the learning rate at its highest")
    options.add_argument("--dropout", type=float, default=0.1)
    options.add_argument("--report", type=int, default=200, help="steps from one look at the held-out text to the next")
    options.add_argument("--begin", default="\n", help="what the written text begins with")
    options.add_argument("--write", type=int, default=500, help="characters to write")
    options.add_argument("--temperature", type=positive, default=0.8, help="the lower, the more usual what is written")
    options.add_argument("--seed", type=int, default=1, help="of all that is drawn")
    options.add_argument("--save", metavar="FOLDER", help="for the parameters")
    options.add_argument("--load", metavar="FOLDER", help="take the parameters from there and train no more")
    options.add_argument("--mixed", action="store_true", help="store activations and their gradients in bfloat16")
    return options.parse_args()


def main():
    options = arguments()
    fluid.default_startup_program().random_seed = options.seed
    ids = layers.data("ids", [1], dtype="int64", lod_level=1)
    following = layers.data("following", [1], dtype="int64", lod_level=1)
    scores, _, _ = lstm(ids, options.width, options.dropout)
    loss = layers.mean(layers.softmax_with_cross_entropy(scores, following))

    rate = layers.polynomial_decay(options.rate, options.steps, end_learning_rate=0.0)
    rate = layers.linear_lr_warmup(rate, min(100, options.steps // 10), 0.0, options.rate)
    fluid.clip.set_gradient_clip(fluid.clip.GradientClipByNorm(1.0))
    optimizer = fluid.optimizer.Adam(learning_rate=rate, beta2=0.99)
    if options.mixed:
        optimizer = fluid.contrib.mixed_precision.decorate(optimizer)
    trainer = fluid.Trainer(loss, optimizer)
    if options.load:
        trainer.load_params(options.load)
    else:
        text, _ = plays.arrays()
        reports = Reports(trainer, options.steps, options.report)
        trainer.train(batches(text, options.length, options.batch, options.steps, options.seed), event_handler=reports)
    if options.save:
        trainer.save_params(options.save)
    if fluid.distributed.trainer_index() == 0:
        if not options.load:
            print(f"held-out text: {reports.held_out:.4f} nats per character")
        print(Writer(options.width).text(options.begin, options.write, options.temperature, options.seed))


if __name__ == "__main__":
    main()
