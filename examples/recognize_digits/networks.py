"""The networks of the digits examples: what they see is [batch, 1, side, side], what they say 10 probabilities."""

import trireme as fluid


def mlp(image):
    """Two hidden layers."""
    hidden = fluid.layers.fc(image, size=128, act="relu")
    hidden = fluid.layers.fc(hidden, size=64, act="relu")
    return fluid.layers.fc(hidden, size=10, act="softmax")


def conv(image):
    """LeNet's form: two of convolution and pooling, then one fully connected layer. For 28 x 28 pixels."""
    hidden = fluid.nets.simple_img_conv_pool(image, num_filters=20, filter_size=5, pool_size=2, pool_stride=2, act="relu")
    hidden = fluid.nets.simple_img_conv_pool(hidden, num_filters=50, filter_size=5, pool_size=2, pool_stride=2, act="relu")
    return fluid.layers.fc(hidden, size=10, act="softmax")


def small_conv(image):
    """For 8 x 8 pixels: one pooling is enough, and few images need dropout."""
    hidden = fluid.nets.simple_img_conv_pool(image, num_filters=20, filter_size=3, pool_size=2, pool_stride=2,
                                             conv_padding=1, act="relu")
    hidden = fluid.layers.conv2d(hidden, num_filters=50, filter_size=3, padding=1, act="relu")
    hidden = fluid.layers.dropout(hidden, 0.4, dropout_implementation="upscale_in_train")
    hidden = fluid.layers.fc(hidden, size=64, act="relu")
    return fluid.layers.fc(hidden, size=10, act="softmax")


NETWORKS = {"mlp": mlp, "conv": conv}
