"""Networks for small pictures: VGG (Simonyan and Zisserman, 2015) and ResNet (He et al., 2016), with fewer channels."""

import trireme as fluid

layers, nets = fluid.layers, fluid.nets


def vgg(image, classes, channels):
    """Groups of 3 x 3 convolutions, each with batch normalization; pooling halves the side after each group."""
    x = image
    for depth, (factor, convolutions) in enumerate(((1, 1), (2, 2), (4, 2))):
        x = nets.img_conv_group(x, conv_num_filter=[factor * channels] * convolutions, pool_size=2, conv_padding=1, conv_filter_size=3,
                                conv_act="relu", conv_with_batchnorm=True, conv_batchnorm_drop_rate=0.1 if depth else 0.0, pool_stride=2,
                                pool_type="max")
    x = layers.fc(x, 8 * channels, act="relu")
    return layers.fc(x, classes, act="softmax")


def _normalized(x, filters, size, stride=1, act="relu"):
    x = layers.conv2d(x, filters, size, stride=stride, padding=(size - 1) // 2, bias_attr=False)
    return layers.batch_norm(x, act=act)


def _block(x, filters, stride):
    """Two convolutions beside a way that goes past them."""
    past = x if stride == 1 and x.shape[1] == filters else _normalized(x, filters, 1, stride, None)
    x = _normalized(_normalized(x, filters, 3, stride), filters, 3, act=None)
    return layers.relu(layers.elementwise_add(x, past))


def resnet(image, classes, channels):
    """Three groups of a block each; every group but the first halves the side and doubles the channels."""
    x = _normalized(image, channels, 3)
    for factor, stride in ((1, 1), (2, 2), (4, 2)):
        x = _block(x, factor * channels, stride)
    x = layers.pool2d(x, pool_type="avg", global_pooling=True)
    return layers.fc(x, classes, act="softmax")


NETWORKS = {"vgg": vgg, "resnet": resnet}
