"""Fit a line: the price of a house from 13 numbers about it (Boston housing), by linear regression.

    python examples/fit_a_line.py
    trireme launch --servers 2 --trainers 2 examples/fit_a_line.py
"""

import sys

import trireme as fluid

EPOCHS, BATCH = 40, 20


def main() -> None:
    fluid.default_startup_program().random_seed = 7
    x = fluid.layers.data("x", shape=[13])
    price = fluid.layers.data("price", shape=[1])
    guess = fluid.layers.fc(x, size=1)
    loss = fluid.layers.mean(fluid.layers.square_error_cost(guess, price))

    reader = fluid.batch(fluid.reader.shuffle(fluid.dataset.uci_housing.train(), 500, seed=1), BATCH)
    test = fluid.batch(fluid.dataset.uci_housing.test(), 102)
    trainer = fluid.Trainer(loss, fluid.optimizer.SGD(learning_rate=0.01))
    trainer.train(reader, EPOCHS, fluid.Progress(EPOCHS, curve=21, run="a line"))              # a point of the curve for each epoch
    result = trainer.test(test)
    if fluid.distributed.trainer_index() == 0:
        print(f"mean squared error on {result.samples} other houses: {result.cost:.2f} (thousand dollars squared)")
    if result.cost > 40:
        sys.exit("the line does not fit")


if __name__ == "__main__":
    main()
