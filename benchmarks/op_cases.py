"""What ops.py measures: for each case an operator, its inputs, its attributes, and the work that bounds it from below.

NumPy alone, since every process of a run reads it. An input is named as both sides know it: `x`, `y` for activations, `w`, `b` for
parameters, `ids` and `label` for integers. A new case is one line here. A new operator is one function in op_trireme.py and one in
op_torch.py, both of the name that stands second in the line.
"""

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from rows import conv_flops


@dataclass
class Case:
    name: str
    op: str
    inputs: dict[str, tuple[int, ...]]
    flops: float = 0.0                          # of the forward pass's products; with its gradients three times as many
    attrs: dict[str, Any] = field(default_factory=dict)
    out: int = 0                                # elements of the output; 0: as many as `x` has
    modes: tuple[str, ...] = ("forward", "both")

    @property
    def target(self) -> float:
        """PyTorch's time over ours, to reach at least."""
        return 1.15 if self.name.startswith("conv3") else 1.05

    def arrays(self) -> dict[str, np.ndarray]:
        """Return the inputs; the same numbers in every process."""
        random = np.random.default_rng(7)
        return {name: self._draw(random, name, shape) for name, shape in self.inputs.items()}

    @staticmethod
    def gradient(shape: tuple[int, ...]) -> np.ndarray:
        """Return what comes back to an output of that shape."""
        return np.random.default_rng(8).standard_normal(shape, np.float32)

    def _draw(self, random: np.random.Generator, name: str, shape: tuple[int, ...]) -> np.ndarray:
        if name in ("ids", "label"):
            return random.integers(0, self.attrs["classes"], shape)
        values = random.standard_normal(shape, np.float32)
        if self.attrs.get("positive"):
            return np.abs(values) + np.float32(0.1)
        return values * np.float32(np.prod(shape[1:]) ** -0.5) if name == "w" else values

    def floor_bytes(self, mode: str) -> float:
        """Return the least that must be read and written: inputs and output once, and with gradients those of both."""
        if "bytes" in self.attrs:
            return self.attrs["bytes"]
        sizes = {name: int(np.prod(shape)) for name, shape in self.inputs.items()}
        out = self.out or sizes.get("x", 0)
        read = sum(sizes.values()) - self.attrs.get("unread", 0)
        return 4.0 * (read + out if mode == "forward" else 2 * read + 2 * out)

    def floor_flops(self, mode: str) -> float:
        return self.flops if mode == "forward" else 3 * self.flops


def _elementwise(name, shape, *, op="activation", **attrs):
    return Case(name, op, {"x": shape}, attrs={"act": name, **attrs})


def _binary(name, x, y):
    return Case(name, name.split(":")[0], {"x": x, "y": y})


def _matmul(name, x, y, **attrs):
    batch, n = int(np.prod(x[:-2])), x[-2] if not attrs.get("trans_x") else x[-1]
    k = x[-1] if not attrs.get("trans_x") else x[-2]
    m = y[-1] if not attrs.get("trans_y") else y[-2]
    return Case(name, "matmul", {"x": x, "y": y}, 2.0 * batch * n * k * m, attrs, out=batch * n * m)


def _conv(name, batch, channels, side, filters, size, stride=1, pad=None, groups=1):
    pad = (size - 1) // 2 if pad is None else pad
    out = (side + 2 * pad - size) // stride + 1
    work = conv_flops(batch, filters, channels, size, out * out, stride, groups)
    attrs = {"stride": stride, "pad": pad, "groups": groups, "size": size, "filters": filters}
    if size < stride:                           # places that no filter stands on need not be read
        attrs["unread"] = batch * channels * (side * side - out * out)
    return Case(name, "conv", {"x": (batch, channels, side, side), "w": (filters, channels // groups, size, size)}, work, attrs,
                out=batch * filters * out * out)


def _pool(name, shape, kind, size, stride, pad=0):
    out = shape[0] * shape[1] * ((shape[2] + 2 * pad - size) // stride + 1) ** 2
    return Case(name, "pool", {"x": shape}, attrs={"kind": kind, "size": size, "stride": stride, "pad": pad}, out=out)


def _reduce(name, kind, shape, axes):
    kept = [size for axis, size in enumerate(shape) if axis not in axes]
    return Case(name, "reduce", {"x": shape}, attrs={"kind": kind, "axes": axes}, out=int(np.prod(kept)) if kept else 1)


def _optimizer(name, size, streams):
    return Case(name, "optimizer", {"w": (size,), "g": (size,)}, attrs={"kind": name, "bytes": 4.0 * size * streams}, modes=("forward",))


IMAGES, TOKENS = (32, 64, 56, 56), (4096, 768)
CASES = {case.name: case for case in (
    _elementwise("relu", IMAGES), _elementwise("gelu", (2048, 3072)), _elementwise("sigmoid", (2048, 1024)),
    _elementwise("tanh", (2048, 1024)), _elementwise("exp", (2048, 1024)), _elementwise("log", (2048, 1024), positive=True),
    _elementwise("sqrt", (2048, 1024), positive=True), _elementwise("swish", (2048, 1024)),
    _binary("add", IMAGES, IMAGES), _binary("mul", TOKENS, TOKENS), _binary("add:bias", TOKENS, (768,)),
    _matmul("matmul_1024", (1024, 1024), (1024, 1024)), _matmul("matmul_fc", (256, 784), (784, 1024)),
    _matmul("matmul_tall", (4096, 768), (768, 768)),
    _matmul("bmm_scores", (96, 128, 64), (96, 128, 64), trans_y=True), _matmul("bmm_context", (96, 128, 128), (96, 128, 64)),
    Case("softmax_attention", "softmax", {"x": (12288, 128)}), Case("softmax_words", "softmax", {"x": (256, 10000)}),
    Case("cross_entropy", "cross_entropy", {"x": (256, 10000), "label": (256, 1)}, attrs={"classes": 10000}, out=256),
    Case("layer_norm", "layer_norm", {"x": TOKENS, "w": (768,), "b": (768,)}),
    Case("batch_norm_56", "batch_norm", {"x": IMAGES, "w": (64,), "b": (64,)}),
    Case("batch_norm_8", "batch_norm", {"x": (32, 64, 8, 8), "w": (64,), "b": (64,)}),
    Case("dropout", "dropout", {"x": TOKENS}), Case("transpose_heads", "transpose", {"x": (32, 128, 12, 64)}, attrs={"perm": (0, 2, 1, 3)}),
    Case("transpose_matrix", "transpose", {"x": (4096, 1024)}, attrs={"perm": (1, 0)}),
    Case("concat", "concat", {"x": (4096, 256), "y": (4096, 512)}, out=4096 * 768),
    Case("split", "split", {"x": TOKENS}), Case("embedding", "embedding", {"w": (30000, 256), "ids": (4096, 1)},
                                                 attrs={"classes": 30000, "bytes": 8.0 * 4096 * 256}, modes=("forward",)),
    _reduce("sum_all", "sum", (4096, 1024), (0, 1)), _reduce("sum_rows", "sum", (4096, 1024), (1,)),
    _reduce("sum_columns", "sum", (4096, 1024), (0,)), _reduce("mean_images", "mean", (32, 256, 14, 14), (2, 3)),
    _reduce("max_rows", "max", (4096, 1024), (1,)),
    _pool("max_pool", IMAGES, "max", 3, 2, 1), _pool("avg_pool", IMAGES, "avg", 2, 2), _pool("global_pool", (32, 512, 7, 7), "avg", 7, 7),
    _conv("conv3_16_32x32", 32, 16, 32, 16, 3), _conv("conv3_32_16x16", 32, 32, 16, 32, 3), _conv("conv3_64_8x8", 32, 64, 8, 64, 3),
    _conv("conv3_64_56x56", 16, 64, 56, 64, 3), _conv("conv3_256_14x14", 8, 256, 14, 256, 3),
    _conv("conv3_stride2", 16, 128, 28, 128, 3, 2), _conv("conv1_256_64", 8, 256, 56, 64, 1), _conv("conv1_512_128", 8, 512, 28, 128, 1),
    _conv("conv1_stride2", 8, 256, 56, 512, 1, 2, 0), _conv("conv5_lenet", 64, 20, 12, 50, 5, 1, 0),
    _conv("conv7_stride2", 4, 3, 224, 64, 7, 2), _conv("conv3_depthwise", 8, 128, 28, 128, 3, groups=128),
    _optimizer("sgd", 1 << 22, 3), _optimizer("momentum", 1 << 22, 5), _optimizer("adam", 1 << 22, 7))}
