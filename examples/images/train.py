"""Tell what a small picture shows, by VGG or ResNet: ten kinds of figures in pictures of the form of CIFAR-10, made up as they are needed.

    python examples/images/train.py --network resnet
    trireme launch --servers 2 --trainers 2 examples/images/train.py --network vgg
"""

import argparse
import sys

import trireme as fluid
from networks import NETWORKS
from pictures import CLASSES, SIDE, TEST, TRAIN, reader

layers = fluid.layers


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    options.add_argument("--network", choices=NETWORKS, default="resnet")
    options.add_argument("--pictures", type=int, default=6400, help="to train on")
    options.add_argument("--tests", type=int, default=1000, help="others, to be tested on")
    options.add_argument("--epochs", type=int, default=4)
    options.add_argument("--batch", type=int, default=64, help="pictures of a step, of all trainers together")
    options.add_argument("--channels", type=int, default=8, help="of the first convolution")
    options.add_argument("--rate", type=float, default=0.005, help="learning rate at its highest")
    options.add_argument("--curve", type=int, default=25, help="steps from one point of the loss curve to the next")
    options.add_argument("--at-least", type=float, default=90, help="per cent of right answers; with fewer it exits with 1")
    options = options.parse_args()

    fluid.default_startup_program().random_seed = 1
    image, label = layers.data("image", [3, SIDE, SIDE]), layers.data("label", [1], dtype="int64")
    chances = NETWORKS[options.network](image, len(CLASSES), options.channels)
    loss = layers.mean(layers.cross_entropy(chances, label))
    steps = -(-options.pictures // options.batch)
    rate = layers.cosine_decay(options.rate, step_each_epoch=steps, epochs=options.epochs)
    trainer = fluid.Trainer(loss, fluid.optimizer.Adam(learning_rate=rate), metrics={"accuracy": layers.accuracy(chances, label)},
                            feed_order=["image", "label"])
    tests = fluid.batch(fluid.reader.cache(reader(TEST, options.tests)), 200)
    progress = fluid.Progress(options.epochs, steps, curve=options.curve, run=options.network,
                              test=lambda: {"right": 100 * trainer.test(tests).metrics["accuracy"]})
    shuffled = fluid.reader.shuffle(fluid.reader.cache(reader(TRAIN, options.pictures)), options.pictures, seed=1)
    trainer.train(fluid.batch(shuffled, options.batch), options.epochs, progress)
    if fluid.distributed.trainer_index() == 0:
        print(f"right: {progress.tested['right']:.1f} % of {options.tests} other pictures")
    if progress.tested["right"] < options.at_least:
        sys.exit("the model has not learnt enough")


if __name__ == "__main__":
    main()
