"""Recommend films: learn from 90,000 ratings of 671 viewers how they will rate others (MovieLens), with vectors in sparse tables.

    python examples/recommender/train.py
    trireme launch --servers 2 --trainers 2 examples/recommender/train.py

What is learnt is the root of the mean square error (RMSE) of ratings that were kept for tests: 1.06 where every guess is the mean of all
ratings, about 0.90 where it is that of the viewer and the film.
"""

import argparse
import sys

import numpy as np

import trireme as fluid
from network import network
from trireme.dataset import movielens_small as movielens


def with_rows(reader):
    """Samples as they are fed: a rating is [1]."""
    def fed():
        for viewer, film, kinds, title, rating in reader():
            yield [viewer], [film], kinds, title, [rating]
    return fed


def test(exe, program, feeder, guess, kept):
    """The RMSE of ratings that were not trained on; guesses stay between 0.5 and 5."""
    squares = []
    for batch in fluid.batch(kept, 2000)():
        guesses, = exe.run(program, feed=feeder.feed(batch), fetch_list=[guess])
        squares.append((np.clip(guesses[:, 0], 0.5, 5) - np.array([sample[-1][0] for sample in batch])) ** 2)
    return float(np.concatenate(squares).mean() ** 0.5)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    options.add_argument("--epochs", type=int, default=12)
    options.add_argument("--batch", type=int, default=500, help="ratings of a step, of all trainers together")
    options.add_argument("--ratings", type=int, default=0, help="train on so many alone; 0: on all")
    options.add_argument("--width", type=int, default=16, help="of a vector")
    options.add_argument("--rate", type=float, default=0.1, help="learning rate")
    options.add_argument("--decay", type=float, default=1.0, help="weight of the squares of what a sample uses")
    options.add_argument("--dense", action="store_true", help="keep the vectors as parameters, not in sparse tables by key")
    options.add_argument("--curve", type=int, default=45, help="steps from one point of the loss curve to the next")
    options.add_argument("--at-most", type=float, default=0.88, help="RMSE above which the run has failed")
    options = options.parse_args()

    fluid.default_startup_program().random_seed = 1
    guess, cost, loss = network(options.width, not options.dense, options.decay)
    trainer = fluid.Trainer(loss, fluid.optimizer.Adagrad(learning_rate=options.rate, initial_accumulator_value=1e-3),
                            metrics={"cost": cost}, feed_order=["viewer", "film", "kinds", "title", "rating"])
    reader = fluid.reader.cache(with_rows(movielens.train()))
    shuffled = fluid.reader.shuffle(reader, 200000, seed=1)
    shuffled = fluid.reader.firstn(shuffled, options.ratings) if options.ratings else shuffled
    kept = fluid.reader.cache(with_rows(movielens.test()))
    samples = options.ratings or sum(1 for _ in reader())
    progress = fluid.Progress(options.epochs, -(-samples // options.batch), curve=options.curve,
                              run="dense" if options.dense else "sparse tables",
                              test=lambda: {"rmse": test(trainer.executor, trainer.test_program, trainer.feeder, guess, kept)})
    trainer.train(fluid.batch(shuffled, options.batch), options.epochs, progress)
    if fluid.distributed.trainer_index() == 0:
        print(f"RMSE of ratings that were kept for tests: {progress.tested['rmse']:.4f}")
    if progress.tested["rmse"] > options.at_most:
        sys.exit("the model has not learnt enough")


if __name__ == "__main__":
    main()
