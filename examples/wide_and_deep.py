"""Wide and deep (Cheng et al., 2016) on census data: does a person earn more than 50000 dollars a year?

    python examples/wide_and_deep.py
    trireme launch --servers 2 --trainers 2 examples/wide_and_deep.py

The wide part is one weight per word of each category, with pairs of categories crossed; the deep part looks the
categories up in embedding tables and runs them, beside the numbers, through two hidden layers.
"""

import argparse
import sys

import numpy as np

import trireme as fluid

adult = fluid.dataset.adult
BUCKETS = 2000                                   # of each crossed pair
CROSSED = [("education", "occupation"), ("marital-status", "relationship"), ("workclass", "occupation")]
WIDTH = 8                                        # of an embedding


def samples(part):
    """A reader of (numbers [6], categories [8, 1], crossed pairs [3, 1], label)."""
    dense, ids, labels = adult.arrays(part)
    place = {name: i for i, name in enumerate(adult.CATEGORIES)}
    crossed = np.stack([(ids[:, place[a]] * 97 + ids[:, place[b]]) % BUCKETS for a, b in CROSSED], axis=1)

    def reader():
        yield from zip(np.clip(dense, -3, 3), ids[:, :, None], crossed[:, :, None], labels)
    return reader


def network():
    """Return (probability, loss, accuracy)."""
    dense = fluid.layers.data("dense", shape=[len(adult.DENSE)])
    words = fluid.layers.data("words", shape=[len(adult.CATEGORIES), 1], dtype="int64")
    crossed = fluid.layers.data("crossed", shape=[len(CROSSED), 1], dtype="int64")
    label = fluid.layers.data("label", shape=[1], dtype="int64")

    sizes = [len(adult.vocabularies()[name]) + 1 for name in adult.CATEGORIES]
    columns = fluid.layers.split(words, len(sizes), dim=1)
    pairs = fluid.layers.split(crossed, len(CROSSED), dim=1)
    deep = [fluid.layers.reshape(fluid.layers.embedding(column, size=[size, WIDTH]), [-1, WIDTH])
            for column, size in zip(columns, sizes)]
    hidden = fluid.layers.concat(deep + [dense], axis=1)
    for size in (64, 32):
        hidden = fluid.layers.fc(hidden, size=size, act="relu")
    wide = [fluid.layers.reshape(fluid.layers.embedding(column, size=[size, 1]), [-1, 1])
            for column, size in zip(columns + pairs, sizes + [BUCKETS] * len(CROSSED))]
    logit = fluid.layers.sums([fluid.layers.fc(hidden, size=1), fluid.layers.fc(dense, size=1), *wide])
    chance = fluid.layers.sigmoid(logit)
    target = fluid.layers.cast(label, "float32")
    loss = fluid.layers.mean(fluid.layers.sigmoid_cross_entropy_with_logits(logit, target))
    both = fluid.layers.concat([1.0 - chance, chance], axis=1)
    return both, loss, fluid.layers.accuracy(both, label)


def auc_of(trainer, both, reader):
    """The area under the ROC curve: the chance that one who earns more gets a higher probability than one who does not."""
    metric = fluid.metrics.Auc("auc")
    for batch in reader():
        chances, = trainer.executor.run(trainer.test_program, feed=trainer.feeder.feed(batch), fetch_list=[both])
        metric.update(chances, np.array([row[-1] for row in batch]))
    return metric.eval()


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    options.add_argument("--epochs", type=int, default=6)
    options.add_argument("--batch", type=int, default=256, help="samples of a step, of all trainers together")
    options.add_argument("--rate", type=float, default=0.002, help="learning rate")
    options.add_argument("--curve", type=int, default=0, help="steps from one point of the loss curve to the next; 0: no curve")
    options.add_argument("--at-least", type=float, default=0.85, help="test accuracy below which the run has failed")
    options.add_argument("--mixed", action="store_true", help="store activations and their gradients in bfloat16")
    options = options.parse_args()

    fluid.default_startup_program().random_seed = 3
    both, loss, accuracy = network()
    train = samples("train")
    shuffled = fluid.reader.shuffle(train, 40000, seed=1)
    optimizer = fluid.optimizer.Adam(learning_rate=options.rate)
    if options.mixed:
        optimizer = fluid.contrib.mixed_precision.decorate(optimizer)
    trainer = fluid.Trainer(loss, optimizer, metrics={"accuracy": accuracy})
    trainer.train(fluid.batch(shuffled, options.batch), options.epochs,
                  fluid.Progress(options.epochs, -(-32561 // options.batch), curve=options.curve))
    result = trainer.test(fluid.batch(samples("test"), 1000))
    if fluid.distributed.trainer_index() == 0:
        auc = auc_of(trainer, both, fluid.batch(samples("test"), 1000))
        print(f"test accuracy: {100 * result.metrics['accuracy']:.2f} % of {result.samples} persons; AUC {auc:.6f}, "
              f"cost {result.cost:.7f}")
    if result.metrics["accuracy"] < options.at_least:
        sys.exit("the model has not learnt enough")


if __name__ == "__main__":
    main()
