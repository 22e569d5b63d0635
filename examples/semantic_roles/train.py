"""Who did what to whom? Label the roles of words for one verb of a sentence: LSTMs in alternating directions, and a CRF (Zhou and Xu,
2015).

    python examples/semantic_roles/train.py
    trireme launch --servers 2 --trainers 2 examples/semantic_roles/train.py
"""

import argparse
import random
import sys

import trireme as fluid
from sentences import ROLES, TAGS, WORDS, encoded, reader, sentence

layers = fluid.layers
FEEDS = ["words", "before", "verb", "behind", "near"]


def network(width, depth):
    """A score of each tag for each word."""
    words, before, verb, behind, near = (layers.data(name, [1], dtype="int64", lod_level=1) for name in FEEDS)
    shared = fluid.ParamAttr(name="words.rows")
    rows = [layers.embedding(ids, [len(WORDS), width], param_attr=shared) for ids in (words, before, verb, behind)]
    rows.append(layers.embedding(near, [2, 4]))
    hidden = layers.sums([layers.fc(row, 4 * width) for row in rows])
    states, _ = layers.dynamic_lstm(hidden, 4 * width, candidate_activation="relu")
    for i in range(1, depth):                    # each layer sees the one below, and what that one saw
        hidden = layers.sums([layers.fc(hidden, 4 * width), layers.fc(states, 4 * width)])
        states, _ = layers.dynamic_lstm(hidden, 4 * width, candidate_activation="relu", is_reverse=i % 2 == 1)
    return layers.sums([layers.fc(hidden, len(TAGS)), layers.fc(states, len(TAGS))])


def test(trainer, count):
    """Precision, recall and F1 score, in per cent, of the roles in sentences that were not trained on."""
    means = trainer.test(fluid.batch(reader(count, seed=99), count)).metrics
    metric = fluid.metrics.ChunkEvaluator()
    metric.update(*(means[name] for name in ("found", "there", "right")))
    return dict(zip(("precision", "recall", "f1"), (100 * value for value in metric.eval())))


def show(trainer, program, tags):
    """Print the roles that were found in a sentence, for its verb."""
    words, verb, _ = sentence(random.Random(5))
    feeder = fluid.DataFeeder(FEEDS, fluid.CPUPlace(), program=program)
    sample = encoded(words, verb, ["O"] * len(words))[:len(FEEDS)]
    found, = trainer.executor.run(program, feed=feeder.feed([sample]), fetch_list=[tags], return_numpy=False)
    for word, tag in zip(words, found.numpy().ravel()):
        print(f"{word:>12}  {TAGS[tag]}")


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    options.add_argument("--sentences", type=int, default=6400, help="to train on")
    options.add_argument("--tests", type=int, default=1000, help="others, to be tested on")
    options.add_argument("--epochs", type=int, default=5)
    options.add_argument("--batch", type=int, default=64, help="sentences of a step, of all trainers together")
    options.add_argument("--width", type=int, default=32, help="of the states")
    options.add_argument("--depth", type=int, default=4, help="LSTMs one above the other")
    options.add_argument("--rate", type=float, default=0.005, help="learning rate")
    options.add_argument("--curve", type=int, default=25, help="steps from one point of the loss curve to the next")
    options.add_argument("--at-least", type=float, default=95, help="F1 score, in per cent, below which the run has failed")
    options = options.parse_args()

    fluid.default_startup_program().random_seed = 1
    scores = network(options.width, options.depth)
    label = layers.data("label", [1], dtype="int64", lod_level=1)
    named = fluid.ParamAttr(name="transitions")
    loss = layers.mean(layers.linear_chain_crf(scores, label, param_attr=named))
    tags = layers.crf_decoding(scores, param_attr=named)
    chunks = layers.chunk_eval(tags, label, "IOB", len(ROLES))
    trainer = fluid.Trainer(loss, fluid.optimizer.Adam(learning_rate=options.rate),
                            metrics=dict(zip(("found", "there", "right"), chunks[3:])), feed_order=[*FEEDS, "label"])
    steps = -(-options.sentences // options.batch)
    progress = fluid.Progress(options.epochs, steps, curve=options.curve, run="semantic roles", test=lambda: test(trainer, options.tests))
    trainer.train(fluid.batch(reader(options.sentences, seed=1), options.batch), options.epochs, progress)
    if fluid.distributed.trainer_index() == 0:
        show(trainer, trainer.test_program, tags)
        print("roles of {} other sentences: precision {precision:.1f} %, recall {recall:.1f} %, F1 {f1:.1f} %".format(options.tests,
                                                                                                                      **progress.tested))
    if progress.tested["f1"] < options.at_least:
        sys.exit("the model has not learnt enough")


if __name__ == "__main__":
    main()
