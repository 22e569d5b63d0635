"""Pictures of 32 x 32 pixels in three colours and ten classes, made up as they are needed: a figure on a ground, both of any colour, with
noise.

They have the form of CIFAR-10. A picture depends on its number alone, so that any can be made at any time.
"""

import numpy as np

CLASSES = ("disc", "square", "triangle", "cross", "ring", "frame", "bars", "columns", "slanted bars", "dots")
SIDE = 32
TRAIN, TEST = 0, 1                               # parts of the data
_Y, _X = np.mgrid[0:SIDE, 0:SIDE].astype("float32")


def _figure(kind, y, x, size):
    """Where the figure is: coordinates `y`, `x` are those from its middle, turned."""
    far, near = np.maximum(abs(y), abs(x)), np.hypot(y, x)
    return {
        "disc": near < size, "square": far < size * 0.9, "triangle": (y > -size * 0.8) & (y + 1.8 * abs(x) < size),
        "cross": (np.minimum(abs(y), abs(x)) < size * 0.3) & (far < size), "ring": (near < size) & (near > size * 0.6),
        "frame": (far < size * 0.9) & (far > size * 0.55), "bars": (far < size) & (np.floor(y / size * 2.5) % 2 == 0),
        "columns": (far < size) & (np.floor(x / size * 2.5) % 2 == 0),
        "slanted bars": (far < size) & (np.floor((x + y) / size * 2) % 2 == 0),
        "dots": (far < size) & (np.floor(y / size * 2) % 2 == 0) & (np.floor(x / size * 2) % 2 == 0)}[kind]


def picture(part, number, noise=0.15):
    """Return (pixels float32 [3, 32, 32] around 0, class)."""
    random = np.random.default_rng([part, number])
    label = int(random.integers(len(CLASSES)))
    size, turn = random.uniform(7, 12), random.uniform(-0.25, 0.25)
    y, x = _Y - random.uniform(12, 20), _X - random.uniform(12, 20)
    y, x = y * np.cos(turn) - x * np.sin(turn), y * np.sin(turn) + x * np.cos(turn)
    ground = random.uniform(0, 1, 3)
    colour = (ground + random.uniform(0.3, 0.7, 3)) % 1.0
    pixels = np.where(_figure(CLASSES[label], y, x, size), colour[:, None, None], ground[:, None, None])
    return (pixels + random.normal(0, noise, pixels.shape) - 0.5).astype("float32"), label


def reader(part, count):
    """A reader of `count` pictures; classes are columns."""
    def pictures():
        for number in range(count):
            pixels, label = picture(part, number)
            yield pixels, [label]
    return pictures
