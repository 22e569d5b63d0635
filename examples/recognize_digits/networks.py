"""The two networks of the digits examples: what they see is [batch, 1, side, side], what they say 10 probabilities."""

import trireme as fluid


def mlp(image):
    """Two hidden layers."""
    hidden = fluid.layers.fc(image, size=128, act="relu")
    hidden = fluid.layers.fc(hidden, size=64, act="relu")
    return fluid.layers.fc(hidden, size=10, act="softmax")


def conv(image):
    """LeNet's form: two of convolution and pooling, then one fully connected layer."""
    small = image.shape[2] < 16
    filters = 3 if small else 5
    first = fluid.nets.simple_img_conv_pool(image, num_filters=20, filter_size=filters, pool_size=2, pool_stride=2,
                                            conv_padding=1 if small else 0, act="relu")
    second = fluid.nets.simple_img_conv_pool(first, num_filters=50, filter_size=filters, pool_size=2, pool_stride=2,
                                             conv_padding=1 if small else 0, act="relu")
    return fluid.layers.fc(second, size=10, act="softmax")


NETWORKS = {"mlp": mlp, "conv": conv}
