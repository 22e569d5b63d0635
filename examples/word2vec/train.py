"""Guess the next word from the four before it; what is learnt on the way is where words stand to each other.

    python examples/word2vec/train.py --loss hsigmoid
    trireme launch --servers 2 --trainers 2 examples/word2vec/train.py --loss hsigmoid

The words are those of Tiny Shakespeare. One table of vectors serves all four places (Bengio et al., 2003). The next word is
one of thousands: --loss softmax scores all of them, nce tells it from a few drawn ones, hsigmoid finds the way to it in a
tree. After each pass (or --every steps) a line of JSON says how well the held-out end of the text is guessed: a perplexity
of 200 is as good as choosing among 200 words. At the end come the words whose vectors lie nearest to some.
"""

import argparse
import collections
import json
import math
import re
import sys
import time

import numpy as np

import trireme as fluid
from trireme import layers

BEFORE = 4                                       # words of context
RARE = "<rare>"                                  # stands for all words that are not in the vocabulary; its id is 0
ASKED = ("king", "he", "thy", "good", "shall")


# -- text -------------------------------------------------------------------------------------------------------------


def words_of(text):
    """The words and the punctuation marks, in lower case."""
    return re.findall(r"[a-z']+|[.,:;!?]", text.lower())


def corpus(size):
    """Return the `size` most frequent words, and the ids of the words to train on and of the held-out ones."""
    shakespeare = fluid.dataset.tinyshakespeare
    parts = [words_of(part) for part in (shakespeare.text()[:shakespeare.TRAIN_CHARACTERS],
                                         shakespeare.text()[shakespeare.TRAIN_CHARACTERS:])]
    counts = sorted((-count, word) for word, count in collections.Counter(parts[0]).items())
    vocabulary = [RARE] + [word for _, word in counts[:size - 1]]
    ids = {word: i for i, word in enumerate(vocabulary)}
    return vocabulary, *(np.array([ids.get(word, 0) for word in part]) for part in parts)


def grams(ids):
    """Return the contexts [n, 4, 1] and the words that follow [n, 1]."""
    windows = np.lib.stride_tricks.sliding_window_view(ids, BEFORE + 1)
    return windows[:, :BEFORE, None], windows[:, BEFORE:]


def batches(ids, size, seed=None):
    """A reader of feeds; with a seed, in an order of its own."""
    contexts, following = grams(ids)
    order = np.arange(len(following)) if seed is None else np.random.default_rng(seed).permutation(len(following))

    def reader():
        for i in range(0, len(order), size):
            picked = order[i:i + size]
            yield {"context": contexts[picked], "word": following[picked]}
    return reader


def perplexity_by_frequency(train, test, size):
    """What one gets who knows nothing but how frequent words are."""
    counts = np.bincount(train, minlength=size) + 1.0
    return float(np.exp(-np.log(counts / counts.sum())[test].mean()))


# -- network ----------------------------------------------------------------------------------------------------------


def scores(hidden, size):
    """Scores of all words, from the parameters that nce learns, too."""
    table = layers.create_parameter([size, hidden.shape[1]], "float32", attr=fluid.ParamAttr(name="words.w"))
    bias = layers.create_parameter([size, 1], "float32", attr=fluid.ParamAttr(name="words.b"), is_bias=True)
    return layers.elementwise_add(layers.matmul(hidden, table, transpose_y=True), layers.reshape(bias, [size]), axis=1)


def chances(kind, hidden, size):
    """The probabilities of all words. What nce learns to be them are the sigmoids of the scores, nearly normalized."""
    if kind == "softmax":
        return layers.softmax(scores(hidden, size))
    likely = layers.sigmoid(scores(hidden, size))
    return layers.elementwise_div(likely, layers.reduce_sum(likely, dim=1), axis=0)


def cost(kind, hidden, word, size, options, is_test):
    """The cost of each word; in tests minus the log of its probability."""
    named = {"param_attr": fluid.ParamAttr(name="words.w"), "bias_attr": fluid.ParamAttr(name="words.b")}
    if kind == "hsigmoid":
        return layers.hsigmoid(hidden, word, size, is_sparse=options.sparse, **named)
    if is_test:
        return layers.cross_entropy(chances(kind, hidden, size), word)
    if kind == "nce":
        # A first chance of 1 / size: from that of 1 / 2, which scores of 0 mean, the way is long.
        named["bias_attr"] = fluid.ParamAttr(name="words.b", initializer=fluid.initializer.Constant(-math.log(size)))
        return layers.nce(hidden, word, size, num_neg_samples=options.draws, sampler="log_uniform", is_sparse=options.sparse,
                          **named)
    return layers.softmax_with_cross_entropy(scores(hidden, size), word)


def network(options, is_test=False):
    """Return the mean cost; the parameters have the same names in every program."""
    context = layers.data("context", shape=[BEFORE, 1], dtype="int64")
    word = layers.data("word", shape=[1], dtype="int64")
    vectors = layers.embedding(context, size=[options.vocabulary, options.width], is_sparse=options.sparse,
                               param_attr=fluid.ParamAttr(name="vectors"))
    hidden = layers.fc(layers.reshape(vectors, [-1, BEFORE * options.width]), size=options.hidden, act="tanh",
                       param_attr=fluid.ParamAttr(name="hidden.w"), bias_attr=fluid.ParamAttr(name="hidden.b"))
    return layers.mean(cost(options.loss, hidden, word, options.vocabulary, options, is_test))


# -- training ---------------------------------------------------------------------------------------------------------


def perplexity(exe, program, loss, ids):
    """How well held-out words are guessed."""
    costs, sizes = [], []
    for feed in batches(ids, 1000)():
        costs.append(float(exe.run(program, feed=feed, fetch_list=[loss])[0][0]))
        sizes.append(len(feed["word"]))
    return float(np.exp(np.average(costs, weights=sizes)))


class Report:
    """Prints how far it is, as a line of JSON: the mean cost since the last line, and the perplexity of held-out words."""

    def __init__(self, options, perplexity):
        self.options, self.perplexity = options, perplexity
        self.step, self.reached = 0, math.inf
        job = f", {fluid.distributed.trainer_count()} trainers" if fluid.distributed.is_distributed() else ""
        self.run = options.loss + job
        self._begin()

    def _begin(self):
        self.costs, self.start = [], time.monotonic()

    def add(self, cost):
        self.costs.append(cost)
        self.step += 1

    def print(self, number):
        """Every trainer knows the mean cost; the first one says so."""
        seconds = time.monotonic() - self.start
        if self.costs and fluid.distributed.trainer_index() == 0:
            self.reached = self.perplexity()
            facts = {"run": self.run, "pass": number, "step": self.step,
                     "cost": round(float(np.mean(self.costs)), 4), "perplexity": round(self.reached, 2),
                     "words_per_s": round(len(self.costs) * self.options.batch / seconds)}
            print(json.dumps(facts), flush=True)
        self._begin()


def train_pass(exe, loss, feeds, number, report, every, limit):
    """One pass, or its first `limit` steps, with a report after each `every` steps and at the end."""
    for step, feed in enumerate(feeds, 1):
        report.add(float(exe.run(fluid.default_main_program(), feed=feed, fetch_list=[loss])[0][0]))
        if step == limit:
            break
        if step % every == 0:
            report.print(number)
    report.print(number)


def nearest(vocabulary, word, count=6):
    """The words whose vectors have the greatest cosine with that of a word."""
    vectors = np.array(fluid.global_scope().find_var("vectors").get_tensor())
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True) + 1e-9
    order = np.argsort(-(vectors @ vectors[vocabulary.index(word)]))
    return [vocabulary[i] for i in order if vocabulary[i] not in (word, RARE)][:count]


def parse(arguments=None):
    options = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    options.add_argument("--loss", choices=["softmax", "nce", "hsigmoid"], default="softmax")
    options.add_argument("--passes", type=int, default=4)
    options.add_argument("--steps", type=int, help="end each pass after so many steps, to try the script out")
    options.add_argument("--every", type=int, help="report after so many steps, not only after each pass")
    options.add_argument("--batch", type=int, default=256, help="words of a step, of all trainers together")
    options.add_argument("--rate", type=float, default=0.002, help="learning rate of the first step; it falls to 0")
    options.add_argument("--vocabulary", type=int, default=5000, help="words that are told apart")
    options.add_argument("--width", type=int, default=32, help="of a word's vector")
    options.add_argument("--hidden", type=int, default=128)
    options.add_argument("--draws", type=int, default=20, help="words that nce draws for each")
    options.add_argument("--dense", dest="sparse", action="store_false", help="gradients of whole tables, not of the rows used")
    return options.parse_args(arguments)


def main() -> None:
    options = parse()
    vocabulary, train, test = corpus(options.vocabulary)
    options.vocabulary = len(vocabulary)
    fluid.default_startup_program().random_seed = 1
    loss = network(options)
    steps = options.steps or -(-(len(train) - BEFORE) // options.batch)
    rate = layers.cosine_decay(options.rate, step_each_epoch=steps, epochs=options.passes)
    test_program = fluid.Program()
    with fluid.program_guard(test_program, fluid.Program()):
        test_loss = network(options, is_test=True)
    fluid.optimizer.Adam(learning_rate=rate).minimize(loss)

    exe = fluid.Executor(fluid.CPUPlace())
    exe.run(fluid.default_startup_program())
    is_first, blind = fluid.distributed.trainer_index() == 0, perplexity_by_frequency(train, test, options.vocabulary)
    if is_first:
        print(f"{len(train)} words to train on, {len(test)} held out; {options.vocabulary} are told apart; "
              f"the perplexity by frequency alone is {blind:.1f}", flush=True)
    report = Report(options, lambda: perplexity(exe, test_program, test_loss, test))
    for number in range(1, options.passes + 1):
        feeds = fluid.distributed.shard(batches(train, options.batch, seed=number))
        train_pass(exe, loss, feeds(), number, report, options.every or steps, options.steps)
    if is_first:
        for word in ASKED:
            if word in vocabulary:
                print(f"{word}: {' '.join(nearest(vocabulary, word))}")
        if not options.steps and report.reached > 0.6 * blind:
            sys.exit("the model has not learnt enough")


if __name__ == "__main__":
    main()
