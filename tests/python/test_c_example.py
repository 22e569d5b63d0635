"""The example in C runs what Python saved, and says the same."""

import re
import subprocess
from pathlib import Path

import numpy as np
import pytest

import trireme as fluid
from trireme import _core

PROGRAM = Path(_core.__file__).parents[2] / "bin" / "example-recognize"

pytestmark = pytest.mark.skipif(not PROGRAM.exists(), reason=f"{PROGRAM} is not there: this is not a build tree's package")


def recognize(*args, text=""):
    return subprocess.run([PROGRAM, *args], check=False, input=text, capture_output=True, text=True, timeout=60)


@pytest.fixture
def model(exe, rng, tmp_path):
    """A small convolutional network, trained for a few steps; where it is saved, and what it says of images."""
    fluid.default_startup_program().random_seed = 5
    image = fluid.layers.data("image", shape=[1, 8, 8])
    digit = fluid.layers.data("digit", shape=[1], dtype="int64")
    guess = fluid.layers.fc(fluid.nets.simple_img_conv_pool(image, 4, 3, 2, 2, act="relu"), size=10, act="softmax")
    loss = fluid.layers.mean(fluid.layers.cross_entropy(guess, digit))
    test_program = fluid.default_main_program().clone(for_test=True)
    fluid.optimizer.Adam(learning_rate=0.01).minimize(loss)
    exe.run(fluid.default_startup_program())
    images = rng.normal(size=(40, 1, 8, 8)).astype("float32")
    labels = rng.integers(0, 10, (40, 1))
    for _ in range(5):
        exe.run(feed={"image": images, "digit": labels}, fetch_list=[loss])
    fluid.io.save_inference_model(str(tmp_path / "model"), ["image"], [guess], exe)

    def ask(image):
        return exe.run(test_program, feed={"image": image, "digit": np.zeros((1, 1), "int64")}, fetch_list=[guess])[0][0]

    return str(tmp_path / "model"), ask


def said(output):
    return [float(chance) for chance in re.findall(r"^\d  ([\d.]+)$", output, re.M)]


def test_c_says_what_python_says(model, rng):
    directory, ask = model
    image = rng.normal(size=(1, 1, 8, 8)).astype("float32")
    done = recognize(directory, "-", text=" ".join(f"{pixel:.9g}" for pixel in image.ravel()))
    assert done.returncode == 0, done.stderr
    chances = ask(image)
    np.testing.assert_allclose(said(done.stdout), chances, atol=0.51e-4)
    assert done.stdout.endswith(f"read as {chances.argmax()}\n")


def test_its_own_drawing_is_a_one_of_bright_columns(model):
    directory, ask = model
    drawing = np.full((1, 1, 8, 8), -1, "float32")
    drawing[..., 3:5] = 1
    np.testing.assert_allclose(said(recognize(directory).stdout), ask(drawing), atol=0.51e-4)


def test_mistakes_are_told(model, tmp_path):
    directory, _ = model
    few = recognize(directory, "-", text="1 2 3")
    assert few.returncode == 1 and "fewer than 64 numbers" in few.stderr
    (Path(directory) / "fc_0.b_0").write_bytes(b"torn")
    torn = recognize(directory)
    assert torn.returncode == 1 and "fc_0.b_0" in torn.stderr and torn.stdout == ""
    assert recognize(str(tmp_path / "nothing")).returncode == 1
    assert recognize().returncode == 2


def test_threads_in_c_serve_what_python_saved(exe, tmp_path):
    x = fluid.layers.data("x", [3])
    y = fluid.layers.fc(x, 1, param_attr=fluid.initializer.Constant(2.0), bias_attr=False)
    exe.run(fluid.default_startup_program())
    fluid.io.save_inference_model(str(tmp_path), ["x"], [y], exe)
    done = subprocess.run([PROGRAM.with_name("example-serve"), str(tmp_path), "50"], check=False, capture_output=True, text=True,
                          timeout=60)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["6"] * 4


def test_c_asks_with_raw_values(exe, tmp_path):
    user, genres = fluid.layers.data("user", [1], dtype="int64"), fluid.layers.data("genres", [1], dtype="int64", lod_level=1)
    price = fluid.layers.data("price", [2])
    sums = [fluid.layers.cast(user, "float32"), fluid.layers.sequence_pool(fluid.layers.cast(genres, "float32"), "sum"),
            fluid.layers.reduce_sum(price, dim=1, keep_dim=True)]
    y = fluid.layers.reduce_sum(fluid.layers.concat(sums, axis=1), dim=1, keep_dim=True)
    slots = [fluid.Slot(user, hash=1000), genres, price]
    fluid.io.save_inference_model(str(tmp_path), ["user", "genres", "price"], [y], exe, slots=slots)
    ask = [str(PROGRAM.with_name("example-ask")), str(tmp_path), "genres=8,9", "price=0.5,0.25"]

    def asked(*words):
        return subprocess.run([*ask, *words], check=False, capture_output=True, text=True, timeout=60)

    assert float(asked("user=Oslo").stdout) == fluid.feeds.hash_id("Oslo", 1000) + 17.75
    for words, text in (((), "slot 'user' has no values"), (("user=a,b",), "slot 'user' has 1 values"), (("age=5",), "no slot 'age'")):
        assert text in asked(*words).stderr
