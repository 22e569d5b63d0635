"""The rows in PyTorch, eager, with its best settings: fused optimizers for what is dense, and for images the faster of both layouts of
memory.
"""

import time


import torch
import torch.nn.functional as F
from torch import nn

NAME = "torch"
PRECISIONS = ("bfloat16", "mixed")               # both are its autocast
autocast = False                                 # set by prepare


def _linear(params, i):
    w, b = params[f"w{i}"], params[f"b{i}"]
    layer = nn.Linear(*w.shape)
    with torch.no_grad():
        layer.weight.copy_(torch.from_numpy(w.T.copy()))
        layer.bias.copy_(torch.from_numpy(b))
    return layer


def _conv(params, name, bias=None, stride=1, padding=0):
    w = params[name]
    layer = nn.Conv2d(w.shape[1], w.shape[0], w.shape[2], stride, padding, bias=bias is not None)
    with torch.no_grad():
        layer.weight.copy_(torch.from_numpy(w))
        if bias:
            layer.bias.copy_(torch.from_numpy(params[bias]))
    return layer


def _table(params, name, sparse=False):
    return nn.Embedding.from_pretrained(torch.from_numpy(params[name].copy()), freeze=False, sparse=sparse)


def _sgd(params, fused=True, **options):
    return torch.optim.SGD(params, lr=0.01, fused=fused, **options)


def _step(optimizers, loss_of):
    def step(batch):
        for optimizer in optimizers:
            optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cpu", torch.bfloat16, enabled=autocast):
            loss = loss_of(batch)
        loss.backward()
        for optimizer in optimizers:
            optimizer.step()
        return loss
    return step


def _classifier(model, optimizer):
    return _step([optimizer(model.parameters())], lambda batch: F.cross_entropy(model(batch["x"]), batch["y"]))


def linreg(params):
    model = _linear(params, 0)
    return _step([_sgd(model.parameters())], lambda batch: F.mse_loss(model(batch["x"]), batch["y"]))


def _mlp(params, optimizer):
    modules = [_linear(params, 0), nn.ReLU(), _linear(params, 1), nn.ReLU(), _linear(params, 2)]
    return _classifier(nn.Sequential(*modules), optimizer)


def mlp_sgd(params):
    return _mlp(params, _sgd)


def mlp_adam(params):
    return _mlp(params, lambda p: torch.optim.Adam(p, lr=1e-3, fused=True))


mlpbig_sgd = mlp_sgd


def lenet5(params):
    model = nn.Sequential(_conv(params, "c1", "cb1"), nn.ReLU(), nn.MaxPool2d(2),
                          _conv(params, "c2", "cb2"), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(1), _linear(params, 0))
    return _classifier(model, _sgd)


class _Block(nn.Module):
    def __init__(self, params, name, channels, width, stride):
        super().__init__()
        self.c1, self.b1 = _conv(params, f"{name}.c1", None, stride, 1), nn.BatchNorm2d(width)
        self.c2, self.b2 = _conv(params, f"{name}.c2", None, 1, 1), nn.BatchNorm2d(width)
        self.short = nn.Identity()
        if stride != 1 or channels != width:
            self.short = nn.Sequential(_conv(params, f"{name}.short", None, stride), nn.BatchNorm2d(width))

    def forward(self, x):
        return F.relu(self.b2(self.c2(F.relu(self.b1(self.c1(x))))) + self.short(x))


def resnet20(params):
    from rows import resnet_blocks
    blocks = [_Block(params, *block) for block in resnet_blocks()]
    model = nn.Sequential(_conv(params, "c", None, 1, 1), nn.BatchNorm2d(16), nn.ReLU(), *blocks,
                          nn.AdaptiveAvgPool2d(1), nn.Flatten(1), _linear(params, 0))
    return _classifier(model, lambda p: _sgd(p, momentum=0.9))


def ngram(params):
    model = nn.Sequential(_table(params, "table"), nn.Flatten(1), _linear(params, 0), nn.Sigmoid(), _linear(params, 1))
    return _classifier(model, _sgd)


class _LastState(nn.Module):
    """The hidden state after the last word."""

    def __init__(self, params):
        super().__init__()
        self.lstm = nn.LSTM(len(params["wi"]), len(params["wh"]), batch_first=True)
        with torch.no_grad():
            for ours, theirs in (("wi", "weight_ih_l0"), ("wh", "weight_hh_l0"), ("bi", "bias_ih_l0"), ("bh", "bias_hh_l0")):
                getattr(self.lstm, theirs).copy_(torch.from_numpy(params[ours].T.copy()))

    def forward(self, x):
        return self.lstm(x)[1][0][0]


def lstm(params):
    model = nn.Sequential(_table(params, "table"), _LastState(params), _linear(params, 0))
    return _classifier(model, lambda p: torch.optim.Adam(p, lr=1e-3, fused=True))


def _ctr(params, table_optimizer, with_products=False):
    table, wide = _table(params, "table", True), _table(params, "wide", True)
    wide_dense = _linear({"w0": params["wide_dense"], "b0": params["wide_b"]}, 0)
    deep = nn.Sequential(*[module for i in range(4) for module in (_linear(params, i), nn.ReLU())][:-1])

    def loss_of(batch):
        rows, x = table(batch["ids"]), batch["x"]
        logit = wide(batch["ids"]).sum((1, 2)) + wide_dense(x)[:, 0]
        logit = logit + deep(torch.cat((rows.flatten(1), x), 1))[:, 0]
        if with_products:
            total = rows.sum(1)
            logit = logit + 0.5 * (total * total - (rows * rows).sum(1)).sum(1)
        return F.binary_cross_entropy_with_logits(logit, batch["y"][:, 0])

    dense = [*wide_dense.parameters(), *deep.parameters()]
    return _step([_sgd(dense), table_optimizer([table.weight, wide.weight])], loss_of)


def widedeep_sgd(params):
    return _ctr(params, lambda p: _sgd(p, fused=False))        # the fused one takes no sparse gradients


def _sparse_adam(params):
    return torch.optim.SparseAdam(params, lr=1e-3)


def widedeep_adam(params):
    return _ctr(params, _sparse_adam)


def deepfm_adam(params):
    return _ctr(params, _sparse_adam, with_products=True)


LAYOUTS = (torch.contiguous_format, torch.channels_last)


def _laid_out(feeds, layout):
    return [{var: t.contiguous(memory_format=layout) if t.dim() == 4 else t for var, t in feed.items()} for feed in feeds]


def _seconds(name, row, feeds):
    """Of a step, the best of a few; its parameters are thrown away."""
    step, best = globals()[name](row.params), float("inf")
    for feed in feeds[:8]:
        start = time.perf_counter()
        step(feed)
        best = min(best, time.perf_counter() - start)
    return best


def prepare(name, row, threads, precision="float32"):
    global autocast
    autocast = precision != "float32"
    torch.set_num_threads(threads)
    torch.set_num_interop_threads(1)
    feeds = [{var: torch.from_numpy(value) for var, value in batch.items()} for batch in row.batches()]
    for feed in feeds:
        if not feed["y"].is_floating_point():
            feed["y"] = feed["y"][:, 0]
    if feeds[0]["x"].dim() == 4:                  # images: modules follow the layout of their input
        feeds = min((_laid_out(feeds, layout) for layout in LAYOUTS), key=lambda laid: _seconds(name, row, laid))
    return feeds, globals()[name](row.params)


def product_gflops(clock, precision, side=1024, tries=25):
    """Return the speed, by this clock, of the best of some large products."""
    x = torch.ones(side, side, dtype=torch.float32 if precision == "float32" else torch.bfloat16)
    out, best = torch.empty_like(x), float("inf")
    for _ in range(tries):
        start = clock()
        torch.mm(x, x, out=out)
        best = min(best, clock() - start)
    return 2 * side ** 3 / best / 1e9


def wait(loss):
    """Eager results are there when the call returns."""


def version():
    return torch.__version__
