"""Tag the names in sentences: a bidirectional LSTM with a conditional random field over the tags (Huang et al., 2015).

    python examples/tagger/train.py
    trireme launch --servers 2 --trainers 2 examples/tagger/train.py

--loss softmax judges each word's tag by itself, for comparison: it does not know that a name goes on as what it began as.
"""

import argparse
import random
import sys

import numpy as np

import trireme as fluid
from sentences import IDS, KINDS, TAGS, WORDS, reader, sentence

layers = fluid.layers


def scores_of(words, width):
    """A score of each tag for each word, from all words before and after it."""
    states = layers.embedding(words, size=[len(WORDS), width])
    sides = [layers.dynamic_lstm(layers.fc(states, size=4 * width), size=4 * width, is_reverse=backwards)[0]
             for backwards in (False, True)]
    return layers.fc(layers.fc(sides, size=2 * width, act="tanh"), size=len(TAGS))


def crf(scores, tags):
    """Minus the log of each sentence's probability, and the likeliest tags: each depends on the one before it."""
    named = fluid.ParamAttr(name="transitions")
    return layers.linear_chain_crf(scores, tags, param_attr=named), layers.crf_decoding(scores, param_attr=named)


def softmax(scores, tags):
    """The same where each tag stands by itself."""
    cost = layers.sequence_pool(layers.softmax_with_cross_entropy(scores, tags), "sum")
    return cost, layers.topk(scores, k=1)[1]


LOSSES = {"crf": crf, "softmax": softmax}


def test(trainer, count):
    """Precision, recall and F1 score, in per cent, of the names in sentences that were not trained on."""
    means = trainer.test(fluid.batch(reader(count, seed=99), count)).metrics
    metric = fluid.metrics.ChunkEvaluator()
    metric.update(*(means[name] for name in ("found", "there", "right")))
    return dict(zip(("precision", "recall", "f1"), (100 * value for value in metric.eval())))


def show(trainer, best):
    """Print a new sentence with the tags that it is given."""
    words, tags = sentence(random.Random(71))
    feed = trainer.feeder.feed([([IDS[word] for word in words], tags)])
    got, = trainer.executor.run(trainer.test_program, feed=feed, fetch_list=[best], return_numpy=False)
    print(" ".join(word if TAGS[tag] == "O" else f"{word}/{TAGS[tag]}" for word, tag in zip(words, np.array(got)[:, 0])))


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    options.add_argument("--loss", choices=LOSSES, default="crf")
    options.add_argument("--epochs", type=int, default=5)
    options.add_argument("--sentences", type=int, default=6000, help="to learn from")
    options.add_argument("--batch", type=int, default=32, help="sentences of a step, of all trainers together")
    options.add_argument("--width", type=int, default=32, help="of the LSTMs")
    options.add_argument("--seed", type=int, default=1)
    options.add_argument("--curve", type=int, default=25, help="steps from one point of the loss curve to the next")
    options.add_argument("--at-least", type=float, default=95, help="F1 score in per cent; below it exits with 1")
    options.add_argument("--mixed", action="store_true", help="store activations and their gradients in bfloat16")
    options = options.parse_args()

    fluid.default_startup_program().random_seed = options.seed
    words = layers.data("words", shape=[1], dtype="int64", lod_level=1)
    tags = layers.data("tags", shape=[1], dtype="int64", lod_level=1)
    cost, best = LOSSES[options.loss](scores_of(words, options.width), tags)
    *_, found, there, right = layers.chunk_eval(best, tags, "IOB", num_chunk_types=len(KINDS))

    steps = -(-options.sentences // options.batch)
    rate = layers.cosine_decay(0.005, step_each_epoch=steps, epochs=options.epochs)
    optimizer = fluid.optimizer.Adam(learning_rate=rate)
    if options.mixed:
        optimizer = fluid.contrib.mixed_precision.decorate(optimizer)
    trainer = fluid.Trainer(layers.mean(cost), optimizer,
                            metrics={"found": found, "there": there, "right": right})
    train = fluid.reader.shuffle(reader(options.sentences, options.seed), options.sentences, seed=1)
    progress = fluid.Progress(options.epochs, steps, curve=options.curve, run=options.loss, test=lambda: test(trainer, 2000))
    trainer.train(fluid.batch(train, options.batch), options.epochs, progress)
    if fluid.distributed.trainer_index() == 0:
        print("2000 other sentences: " + ", ".join(f"{name} {value:.2f} %" for name, value in progress.tested.items()))
        show(trainer, best)
    if progress.tested["f1"] < options.at_least:
        sys.exit("the model has not learnt enough")


if __name__ == "__main__":
    main()
