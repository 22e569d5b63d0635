"""The rows in JAX: the whole step under one jit, with donated parameters; feeds are NumPy arrays."""

from functools import partial

import jax
import jax.numpy as jnp

NAME = "jax"


def _layers(params, x, act):
    count = sum(name.startswith("w") for name in params)
    for i in range(count):
        x = x @ params[f"w{i}"] + params[f"b{i}"]
        x = act(x) if i < count - 1 else x
    return x


def _cross_entropy(logits, y):
    return -jnp.take_along_axis(jax.nn.log_softmax(logits), y, 1).mean()


def _mlp_loss(params, batch):
    return _cross_entropy(_layers(params, batch["x"], jax.nn.relu), batch["y"])


def _sgd(loss_of):
    @partial(jax.jit, donate_argnums=0)
    def step(params, batch):
        loss, grads = jax.value_and_grad(loss_of)(params, batch)
        return jax.tree.map(lambda p, g: p - 0.01 * g, params, grads), loss
    return step, lambda params: params


def _adam(loss_of, rate=1e-3, beta1=0.9, beta2=0.999, epsilon=1e-8):
    @partial(jax.jit, donate_argnums=0)
    def step(state, batch):
        params, m, v, t = state
        loss, grads = jax.value_and_grad(loss_of)(params, batch)
        t = t + 1
        m = jax.tree.map(lambda m, g: beta1 * m + (1 - beta1) * g, m, grads)
        v = jax.tree.map(lambda v, g: beta2 * v + (1 - beta2) * g * g, v, grads)
        scale = rate * jnp.sqrt(1 - beta2 ** t) / (1 - beta1 ** t)
        params = jax.tree.map(lambda p, m, v: p - scale * m / (jnp.sqrt(v) + epsilon), params, m, v)
        return (params, m, v, t), loss

    def start(params):
        zeros = lambda: jax.tree.map(jnp.zeros_like, params)
        return params, zeros(), zeros(), jnp.zeros((), jnp.float32)
    return step, start


def linreg():
    return _sgd(lambda params, batch: ((_layers(params, batch["x"], None) - batch["y"]) ** 2).mean())


def mlp_sgd():
    return _sgd(_mlp_loss)


mlpbig_sgd = mlp_sgd


def mlp_adam():
    return _adam(_mlp_loss)


def ngram():
    def loss_of(params, batch):
        dense = {name: value for name, value in params.items() if name != "table"}
        x = params["table"][batch["x"]].reshape(len(batch["x"]), -1)
        return _cross_entropy(_layers(dense, x, jax.nn.sigmoid), batch["y"])
    return _sgd(loss_of)


def prepare(name, row, threads):
    """The number of threads follows from the CPUs that the process may use."""
    step_fn, start = globals()[name]()
    state = start({name: jnp.asarray(value) for name, value in row.params.items()})
    feeds = [{var: value.astype("int32") if value.dtype == "int64" else value for var, value in batch.items()}
             for batch in row.batches()]

    def step(feed):
        nonlocal state
        state, loss = step_fn(state, feed)
        return loss
    return feeds, step


def product_gflops(clock, precision, side=1024, tries=25):
    """Return the speed, by this clock, of the best of some large products in float32."""
    x, multiply, best = jnp.ones((side, side)), jax.jit(jnp.matmul), float("inf")
    multiply(x, x).block_until_ready()
    for _ in range(tries):
        start = clock()
        multiply(x, x).block_until_ready()
        best = min(best, clock() - start)
    return 2 * side ** 3 / best / 1e9


def wait(loss):
    loss.block_until_ready()


def version():
    return jax.__version__
