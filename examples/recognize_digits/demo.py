"""The demo: handwritten digits, trained on parameter servers, saved, loaded back and recognized.

    make demo
    trireme launch --servers 2 --trainers 2 examples/recognize_digits/demo.py

The digits are those that come with scikit-learn (8 x 8 pixels); with MNIST in TRIREME_DATA_HOME it trains on that.
"""

import os

import numpy as np

import trireme as fluid
from curve import draw_svg, draw_text
from networks import conv, small_conv

OUTPUT = os.environ.get("TRIREME_DEMO_OUTPUT", "output")
BATCH = 64


def digits():
    """Return (name, training images and labels, test images and labels); images are [n, 1, side, side]."""
    if os.environ.get("TRIREME_DATA_HOME") and fluid.dataset.common.find("mnist", "train-images-idx3-ubyte"):
        mnist = fluid.dataset.mnist
        return ("MNIST", *_arrays(mnist.train()), *_arrays(mnist.test()), 1)
    small = fluid.dataset.digits
    return ("scikit-learn's digits", *_arrays(small.train()), *_arrays(small.test()), 25)


def _arrays(reader):
    pixels, labels = zip(*reader())
    pixels = np.asarray(pixels, np.float32)
    side = round(pixels[0].size ** 0.5)
    return pixels.reshape(-1, 1, side, side), np.asarray(labels, np.int64)


def shuffled(images, labels):
    """A reader that gives the samples in another order each epoch, the same one on every trainer."""
    order = np.random.default_rng(1)

    def reader():
        for i in order.permutation(len(images)):
            yield images[i], labels[i]
    return reader


def show(image):
    """A digit as text, two characters a pixel."""
    shades = " .:-=+*#%@"
    low, high = image.min(), image.max()
    rows = (image[0] - low) / (high - low) * (len(shades) - 1)
    return ["".join(shades[int(shade)] * 2 for shade in row) for row in rows]


def recognize(directory, images, labels):
    """Load the saved model as anybody would, and let it read a few digits."""
    scope = fluid.Scope()
    with fluid.scope_guard(scope):
        exe = fluid.Executor(fluid.CPUPlace())
        program, feeds, fetches = fluid.io.load_inference_model(directory, exe)
        guesses, = exe.run(program, feed={feeds[0]: images}, fetch_list=fetches)
    pictures = [show(image[:, ::max(1, image.shape[1] // 14), ::max(1, image.shape[2] // 14)]) for image in images]
    for lines in zip(*pictures):
        print("   ".join(lines))
    for guess, label in zip(guesses.argmax(axis=1), labels):
        print(f"read as {guess}, is {label}" + ("" if guess == label else "   <- wrong"))


def main() -> None:
    name, images, labels, test_images, test_labels, epochs = digits()
    fluid.default_startup_program().random_seed = 90
    image = fluid.layers.data("image", shape=list(images.shape[1:]))
    label = fluid.layers.data("label", shape=[1], dtype="int64")
    guess = (conv if images.shape[2] == 28 else small_conv)(image)
    loss = fluid.layers.mean(fluid.layers.cross_entropy(guess, label))
    accuracy = fluid.layers.accuracy(guess, label)

    speaks = fluid.distributed.trainer_index() == 0
    if speaks:
        print(f"{name}: {len(images)} images to learn from, {len(test_images)} to be tested on; "
              f"{fluid.distributed.server_count()} servers, {fluid.distributed.trainer_count()} trainers")
    trainer = fluid.Trainer(loss, fluid.optimizer.Adam(learning_rate=0.001), metrics={"accuracy": accuracy})
    progress = fluid.Progress(epochs, -(-len(images) // BATCH))
    trainer.train(fluid.batch(shuffled(images, labels), BATCH), epochs, progress)
    if not speaks:
        return

    result = trainer.test(fluid.batch(lambda: zip(test_images, test_labels), 200))
    os.makedirs(OUTPUT, exist_ok=True)
    print("\n".join(draw_text(progress.losses)))
    picture = draw_svg(progress.losses, os.path.join(OUTPUT, "loss.svg"))
    model = os.path.join(OUTPUT, "digits.model")
    trainer.save_inference_model(model, ["image"], [guess])
    recognize(model, test_images[:5], test_labels[:5])
    print(f"test accuracy: {100 * result.metrics['accuracy']:.2f} % of {result.samples} images it has not seen")
    print(f"loss curve: {picture}   model: {model}")


if __name__ == "__main__":
    main()
