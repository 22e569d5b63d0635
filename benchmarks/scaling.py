"""A model to predict, for example by

    trireme simulate --trainers 1,2,4,8,16,32,64,128,256 --json OUT benchmarks/scaling.py MODEL BATCH

The models are wide&deep and DeepFM with sparse tables (26 slots, rows of 10 and of 1, three layers of 400), an LSTM over 100 words, and
VGG-16 and a ResNet of 20 layers for pictures of 32x32 with ten classes. `scaling_curves.py` makes all curves of docs/scaling.md from them.
"""

import argparse

import numpy as np
import rows
import trireme_rows

import trireme as fluid

layers = fluid.layers


def widedeep():
    return trireme_rows.widedeep_tables()


def deepfm():
    return trireme_rows.deepfm_tables()


def lstm():
    return trireme_rows.lstm()


def resnet20():
    return trireme_rows.resnet20()


def vgg16():
    x = layers.data("x", [3, 32, 32])
    for count, filters in ((2, 64), (2, 128), (3, 256), (3, 512), (3, 512)):
        for _ in range(count):
            x = layers.batch_norm(layers.conv2d(x, filters, 3, padding=1, bias_attr=False), act="relu")
        x = layers.pool2d(x, 2, pool_stride=2)
    x = layers.batch_norm(layers.fc(layers.dropout(x, 0.5), 512), act="relu")
    logits = layers.fc(layers.fc(layers.dropout(x, 0.5), 512, act="relu"), 10)
    loss = layers.mean(layers.softmax_with_cross_entropy(logits, layers.data("y", [1], dtype="int64")))
    return loss, fluid.optimizer.Adam(learning_rate=1e-3)


MODELS = {"widedeep": widedeep, "deepfm": deepfm, "lstm": lstm, "vgg16": vgg16, "resnet20": resnet20}


def batch_of(model, random, size):
    if model == "lstm":
        words = random.integers(0, rows.LSTM_WORDS, (size * rows.LSTM_LENGTH, 1))
        return {"x": fluid.create_lod_tensor(words, [[rows.LSTM_LENGTH] * size], fluid.CPUPlace()), "y": random.integers(0, 2, (size, 1))}
    if model in ("vgg16", "resnet20"):
        return {"x": random.normal(size=(size, 3, 32, 32)).astype("float32"), "y": random.integers(0, 10, (size, 1))}
    feed = rows.ctr_batch(random, size)
    return {**feed, "ids": feed["ids"][:, :, None]}


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    options.add_argument("model", choices=sorted(MODELS))
    options.add_argument("batch", type=int)
    options.add_argument("--steps", type=int, default=100)
    options = options.parse_args()
    loss, optimizer = MODELS[options.model]()
    optimizer.minimize(loss)
    exe = fluid.Executor()
    exe.run(fluid.default_startup_program())
    random = np.random.default_rng([1, fluid.distributed.trainer_index()])
    feeds = [batch_of(options.model, random, options.batch) for _ in range(8)]
    for i in range(options.steps):
        exe.run(feed=feeds[i % len(feeds)], fetch_list=[loss])


if __name__ == "__main__":
    main()
