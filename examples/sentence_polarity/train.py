"""Does a sentence of a film review praise or blame the film? Sentences are sequences of words, without padding.

    python examples/sentence_polarity/train.py --network lstm
    trireme launch --servers 2 --trainers 2 examples/sentence_polarity/train.py --network lstm

Convolutions over neighbouring words (conv) or stacked LSTMs that read in both directions (lstm). For comparison,
--network words adds the words up and knows nothing of their order.
"""

import argparse
import sys

import trireme as fluid
from networks import NETWORKS

polarity = fluid.dataset.sentence_polarity


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    options.add_argument("--network", choices=NETWORKS, default="conv")
    options.add_argument("--epochs", type=int, default=4)
    options.add_argument("--sentences", type=int, default=9594, help="to learn from: all, or fewer")
    options.add_argument("--batch", type=int, default=64, help="sentences of a step, of all trainers together")
    options.add_argument("--curve", type=int, default=25, help="steps from one point of the loss curve to the next")
    options.add_argument("--at-least", type=float, default=75, help="per cent right in the test; with fewer it exits with 1")
    options.add_argument("--mixed", action="store_true", help="store activations and their gradients in bfloat16")
    options = options.parse_args()

    fluid.default_startup_program().random_seed = 1
    dictionary = polarity.word_dict()
    sentence = fluid.layers.data("sentence", shape=[1], dtype="int64", lod_level=1)
    label = fluid.layers.data("label", shape=[1], dtype="int64")
    guess = NETWORKS[options.network](sentence, len(dictionary) + 1)
    loss = fluid.layers.mean(fluid.layers.cross_entropy(guess, label))
    accuracy = fluid.layers.accuracy(guess, label)

    train = fluid.reader.firstn(fluid.reader.shuffle(polarity.train(dictionary), 10000, seed=1), options.sentences)
    steps = -(-options.sentences // options.batch)
    rate = fluid.layers.cosine_decay(0.001, step_each_epoch=steps, epochs=options.epochs)
    optimizer = fluid.optimizer.Adam(learning_rate=rate)
    if options.mixed:
        optimizer = fluid.contrib.mixed_precision.decorate(optimizer)
    trainer = fluid.Trainer(loss, optimizer, metrics={"accuracy": accuracy})
    trainer.train(fluid.batch(train, options.batch), options.epochs,
                  fluid.Progress(options.epochs, steps, curve=options.curve, run=options.network))
    result = trainer.test(fluid.batch(polarity.test(dictionary), 200))
    if fluid.distributed.trainer_index() == 0:
        print(f"test accuracy: {100 * result.metrics['accuracy']:.2f} % of {result.samples} sentences; cost {result.cost:.4f}")
    if 100 * result.metrics["accuracy"] < options.at_least:
        sys.exit("the model has not learnt enough")


if __name__ == "__main__":
    main()
