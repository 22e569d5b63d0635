"""The operators of op_cases.py in PyTorch, eager, each with its best settings: `fused` optimizers, and for images both layouts of
memory."""

import torch
import torch.nn.functional as F

VARIANTS = ("contiguous", "channels_last")


def activation(t, a):
    name = {"gelu": F.gelu, "swish": F.silu, "relu": F.relu}.get(a["act"]) or getattr(torch, a["act"])
    return name(t["x"])


def add(t, a):
    return t["x"] + t["y"]


def mul(t, a):
    return t["x"] * t["y"]


def matmul(t, a):
    x = t["x"].transpose(-1, -2) if a.get("trans_x") else t["x"]
    y = t["y"].transpose(-1, -2) if a.get("trans_y") else t["y"]
    return torch.matmul(x, y)


def softmax(t, a):
    return F.softmax(t["x"], -1)


def cross_entropy(t, a):
    return F.cross_entropy(t["x"], t["label"][:, 0], reduction="none")[:, None]


def layer_norm(t, a):
    return F.layer_norm(t["x"], t["w"].shape, t["w"], t["b"])


_running = {}


def batch_norm(t, a):
    mean, var = _running.setdefault(len(t["w"]), (torch.zeros(len(t["w"])), torch.ones(len(t["w"]))))
    return F.batch_norm(t["x"], mean, var, t["w"], t["b"], True)


def dropout(t, a):
    return F.dropout(t["x"], 0.1, True)


def transpose(t, a):
    return t["x"].permute(a["perm"]).contiguous()


def concat(t, a):
    return torch.cat((t["x"], t["y"]), 1)


def split(t, a):
    return torch.stack([part.contiguous() for part in t["x"].split(256, 1)])


def embedding(t, a):
    return F.embedding(t["ids"][:, 0], t["w"])


def reduce(t, a):
    if a["kind"] == "max":
        return t["x"].amax(a["axes"])
    return getattr(torch, a["kind"])(t["x"], a["axes"])


def pool(t, a):
    if a["size"] == t["x"].shape[2]:
        return F.adaptive_avg_pool2d(t["x"], 1)
    return (F.max_pool2d if a["kind"] == "max" else F.avg_pool2d)(t["x"], a["size"], a["stride"], a["pad"])


def conv(t, a):
    return F.conv2d(t["x"], t["w"], None, a["stride"], a["pad"], 1, a["groups"])


def _optimizer(case, tensors):
    param = tensors["w"].detach().clone().requires_grad_()
    param.grad = tensors["g"].detach()
    kinds = {"sgd": lambda: torch.optim.SGD([param], lr=0.01, fused=True),
             "momentum": lambda: torch.optim.SGD([param], lr=0.01, momentum=0.9, fused=True),
             "adam": lambda: torch.optim.Adam([param], lr=1e-3, fused=True)}
    step = kinds[case.attrs["kind"]]().step

    def run():
        step()
        return [param]
    return run


def prepare(case, mode, threads, variant):
    """Return run() -> [output, gradient of each input]; None where the variant is none of this case."""
    torch.set_num_threads(threads)
    tensors = {name: torch.from_numpy(value) for name, value in case.arrays().items()}
    if variant == "channels_last":
        if case.op not in ("conv", "pool", "batch_norm", "activation", "add") or tensors["x"].dim() != 4:
            return None
        tensors = {name: t.contiguous(memory_format=torch.channels_last) if t.dim() == 4 else t for name, t in tensors.items()}
    if case.op == "optimizer":
        return _optimizer(case, tensors)
    function, attrs = globals()[case.op], case.attrs
    if mode == "forward":
        def forward():
            with torch.no_grad():
                return [function(tensors, attrs)]
        return forward
    wanted = [t.requires_grad_() for t in tensors.values() if t.is_floating_point()]
    out = function(tensors, attrs).detach()
    gradient = torch.empty_like(out).copy_(torch.from_numpy(case.gradient(tuple(out.shape))))

    def both():
        for one in wanted:
            one.grad = None
        out = function(tensors, attrs)
        out.backward(gradient)
        return [out, *(one.grad for one in wanted)]
    return both


def arrays(results):
    return [one.detach().contiguous().numpy() for one in results]


def version():
    return torch.__version__
