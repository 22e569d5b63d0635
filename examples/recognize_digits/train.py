"""Recognize handwritten digits (MNIST) with a multi-layer perceptron or a convolutional network.

    python examples/recognize_digits/train.py --network conv
    trireme launch --servers 2 --trainers 2 examples/recognize_digits/train.py --network conv
"""

import argparse
import sys

import numpy as np

import trireme as fluid
from networks import NETWORKS


def images(reader):
    """Samples of (image [1, 28, 28], digit)."""
    return fluid.reader.map_readers(lambda sample: (np.reshape(sample[0], (1, 28, 28)), sample[1]), reader)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    options.add_argument("--network", choices=NETWORKS, default="conv")
    options.add_argument("--epochs", type=int, default=3)
    options.add_argument("--batch", type=int, default=64, help="samples of a step, of all trainers together")
    options.add_argument("--curve", type=int, default=0, help="steps from one point of the loss curve to the next; 0: no curve")
    options.add_argument("--at-least", type=float, default=90, help="per cent of right answers; with fewer it exits with 1")
    options.add_argument("--mixed", action="store_true", help="store activations and their gradients in bfloat16")
    options = options.parse_args()

    fluid.default_startup_program().random_seed = 1
    image = fluid.layers.data("image", shape=[1, 28, 28])
    digit = fluid.layers.data("digit", shape=[1], dtype="int64")
    guess = NETWORKS[options.network](image)
    loss = fluid.layers.mean(fluid.layers.cross_entropy(guess, digit))
    accuracy = fluid.layers.accuracy(guess, digit)

    train = fluid.reader.shuffle(images(fluid.dataset.mnist.train()), 60000, seed=1)
    steps = -(-60000 // options.batch)
    rate = fluid.layers.cosine_decay(0.002, step_each_epoch=steps, epochs=options.epochs)
    optimizer = fluid.optimizer.Adam(learning_rate=rate)
    if options.mixed:
        optimizer = fluid.contrib.mixed_precision.decorate(optimizer)
    trainer = fluid.Trainer(loss, optimizer, metrics={"accuracy": accuracy})
    trainer.train(fluid.batch(train, options.batch), options.epochs,
                  fluid.Progress(options.epochs, steps, curve=options.curve, run=options.network))
    result = trainer.test(fluid.batch(images(fluid.dataset.mnist.test()), 500))
    right = 100 * result.metrics["accuracy"]
    if fluid.distributed.trainer_index() == 0:
        print(f"test accuracy: {right:.2f} % of {result.samples} images")
    if right < options.at_least:
        sys.exit("the model has not learnt enough")


if __name__ == "__main__":
    main()
