"""The networks of the example: what they see are sequences of ids of words, what they say 2 probabilities."""

import trireme as fluid

layers = fluid.layers


def conv(words, size):
    """Two convolutions over 3 and over 4 neighbouring words; the strongest answer of each filter is kept (Kim, 2014)."""
    drop = layers.dropout(layers.embedding(words, size=[size, 128]), dropout_prob=0.5)
    seen = [fluid.nets.sequence_conv_pool(drop, num_filters=128, filter_size=length, act="relu", pool_type="max")
            for length in (3, 4)]
    return layers.fc([layers.dropout(x, dropout_prob=0.5) for x in seen], size=2, act="softmax")


def lstm(words, size, width=64, depth=3):
    """Stacked LSTMs, of which every second one reads backwards (Zhou and Xu, 2015).

    Each has a projection of what is below it; the greatest values of the last projection and of the last LSTM are kept.
    """
    below = [layers.dropout(layers.embedding(words, size=[size, 128]), dropout_prob=0.6)]
    for level in range(depth):
        projection = layers.fc(below, size=4 * width)
        hidden, _ = layers.dynamic_lstm(projection, size=4 * width, is_reverse=level % 2 == 1)
        below = [projection, layers.dropout(hidden, dropout_prob=0.3)]
    pools = [layers.dropout(layers.sequence_pool(x, "max"), dropout_prob=0.6) for x in below]
    return layers.fc(pools, size=2, act="softmax")


def words(words, size):
    """The sum of the words."""
    table = layers.embedding(words, size=[size, 64])
    total = layers.sequence_pool(table, "sqrt")
    return layers.fc(layers.dropout(total, dropout_prob=0.5), size=2, act="softmax")


NETWORKS = {"conv": conv, "lstm": lstm, "words": words}
