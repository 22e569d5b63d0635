"""Does a sentence of a film review praise or blame the film? Sentences are sequences of words, without padding.

    python examples/sentence_polarity.py --network conv
    trireme launch --servers 2 --trainers 2 examples/sentence_polarity.py --network conv

Two convolutions look at every 3 and every 4 neighbouring words, and keep the strongest answer of each filter (Kim,
2014). For comparison, --network words adds the words up and knows nothing of their order.
"""

import argparse
import sys

import trireme as fluid

polarity = fluid.dataset.sentence_polarity


def conv(words, size):
    """Windows of 3 and of 4 words."""
    drop = fluid.layers.dropout(fluid.layers.embedding(words, size=[size, 128]), dropout_prob=0.5)
    seen = [fluid.nets.sequence_conv_pool(drop, num_filters=128, filter_size=length, act="relu", pool_type="max")
            for length in (3, 4)]
    return fluid.layers.fc([fluid.layers.dropout(x, dropout_prob=0.5) for x in seen], size=2, act="softmax")


def words(words, size):
    """The sum of the words."""
    table = fluid.layers.embedding(words, size=[size, 64])
    total = fluid.layers.sequence_pool(table, "sqrt")
    return fluid.layers.fc(fluid.layers.dropout(total, dropout_prob=0.5), size=2, act="softmax")


NETWORKS = {"conv": conv, "words": words}


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    options.add_argument("--network", choices=NETWORKS, default="conv")
    options.add_argument("--epochs", type=int, default=4)
    options.add_argument("--batch", type=int, default=64, help="sentences of a step, of all trainers together")
    options = options.parse_args()

    fluid.default_startup_program().random_seed = 1
    dictionary = polarity.word_dict()
    sentence = fluid.layers.data("sentence", shape=[1], dtype="int64", lod_level=1)
    label = fluid.layers.data("label", shape=[1], dtype="int64")
    guess = NETWORKS[options.network](sentence, len(dictionary) + 1)
    loss = fluid.layers.mean(fluid.layers.cross_entropy(guess, label))
    accuracy = fluid.layers.accuracy(guess, label)

    train = fluid.reader.shuffle(polarity.train(dictionary), 10000, seed=1)
    steps = -(-9594 // options.batch)
    rate = fluid.layers.cosine_decay(0.001, step_each_epoch=steps, epochs=options.epochs)
    trainer = fluid.Trainer(loss, fluid.optimizer.Adam(learning_rate=rate), metrics={"accuracy": accuracy})
    trainer.train(fluid.batch(train, options.batch), options.epochs,
                  fluid.Progress(options.epochs, steps))
    result = trainer.test(fluid.batch(polarity.test(dictionary), 200))
    if fluid.distributed.trainer_index() == 0:
        print(f"test accuracy: {100 * result.metrics['accuracy']:.2f} % of {result.samples} sentences")
    if result.metrics["accuracy"] < 0.75:
        sys.exit("the model has not learnt enough")


if __name__ == "__main__":
    main()
