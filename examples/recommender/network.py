"""How a viewer will rate a film: a vector of the viewer, a vector of the film, and how alike they are.

A film's vector is made of its number, its kinds and the words of its title, so that a film that few have rated borrows from others.
"""

import trireme as fluid
from trireme.dataset import movielens_small as movielens

layers = fluid.layers


def rows(ids, count, width, name, tables):
    first = fluid.initializer.Normal(0.0, 0.05)
    return layers.embedding(ids, [count, width], is_sparse=True, is_distributed=tables,
                            param_attr=fluid.ParamAttr(name=name, initializer=first))


def network(width, tables, decay):
    """Return (the guessed rating, the mean of the squares of what it is wrong by)."""
    viewer, film = (layers.data(name, [1], dtype="int64") for name in ("viewer", "film"))
    kinds, title = (layers.data(name, [1], dtype="int64", lod_level=1) for name in ("kinds", "title"))
    rating = layers.data("rating", [1])

    of_viewer = layers.reshape(rows(viewer, movielens.USERS + 1, width, "viewers", tables), [-1, width])
    number = layers.reshape(rows(film, movielens.FILMS, width, "films", tables), [-1, width])
    of_kinds = layers.sequence_pool(rows(kinds, len(movielens.GENRES), width, "kinds.rows", tables), "average")
    of_title = layers.sequence_pool(rows(title, movielens.WORDS, width, "words", tables), "average")
    of_film = layers.sums([number, of_kinds, of_title])

    likes = layers.reshape(rows(viewer, movielens.USERS + 1, 1, "viewer.bias", tables), [-1, 1])
    liked = layers.reshape(rows(film, movielens.FILMS, 1, "film.bias", tables), [-1, 1])
    alike = layers.reduce_sum(layers.elementwise_mul(of_viewer, of_film), dim=1, keep_dim=True)
    mean = layers.create_parameter([1], "float32", name="mean", default_initializer=fluid.initializer.Constant(movielens.MEAN))
    guess = layers.elementwise_add(layers.sums([likes, liked, alike]), mean)
    cost = layers.mean(layers.square_error_cost(guess, rating))
    used = layers.sums([layers.mean(layers.square(x)) for x in (of_viewer, of_film, likes, liked)])
    return guess, cost, layers.elementwise_add(cost, layers.scale(used, scale=decay))
