"""YOLOv8n at 640, as torch.onnx writes Ultralytics': a backbone of split residuals, pyramids up and down by nearest Resize
and Concat, two heads on three levels, boxes decoded from distributions of distances. Without NonMaxSuppression."""

import numpy as np

from models.builder import Builder
from models.convnet import conv, conv_bn, swish
from models.transformer import reshape

CLASSES, BINS = 80, 16


def unit(g, x, name, channels, kernel=1, stride=1):
    with g.scope(name):
        return swish(g, conv_bn(g, x, "conv", "bn", channels, kernel, stride, fold=True))


def split_residual(g, x, name, channels, n=1, shortcut=False):
    """C2f: half of the channels pass n pairs of convolutions; whatever comes out on the way is concatenated."""
    half = channels // 2
    with g.scope(name):
        parts = g.op("Split", unit(g, x, "cv1", channels), g.ints(half, half), n_outputs=2, axis=1)
        for index in range(n):
            with g.scope(f"m.{index}"):
                y = unit(g, unit(g, parts[-1], "cv1", half, 3), "cv2", half, 3)
            parts.append(g.check(g.op("Add", parts[-1], y)) if shortcut else y)
        return unit(g, g.op("Concat", *parts, axis=1), "cv2", channels)


def pooled_pyramid(g, x, name):
    """SPPF: three pools of 5x5, one after the other."""
    channels = g.values[x].shape[1]
    with g.scope(name):
        parts = [unit(g, x, "cv1", channels // 2)]
        for _ in range(3):
            parts.append(g.op("MaxPool", parts[-1], kernel_shape=[5, 5], strides=[1, 1], pads=[2] * 4, dilations=[1, 1],
                              ceil_mode=0))
        return unit(g, g.op("Concat", *parts, axis=1), "cv2", channels)


def twice_as_large(g, x):
    return g.op("Resize", x, "", g.constant([1, 1, 2, 2]), mode="nearest", nearest_mode="floor",
                coordinate_transformation_mode="asymmetric")


def backbone(g, x):
    """Features at 1/8, 1/16 and 1/32."""
    x = unit(g, unit(g, x, "model.0", 16, 3, 2), "model.1", 32, 3, 2)
    x = unit(g, split_residual(g, x, "model.2", 32, 1, True), "model.3", 64, 3, 2)
    fine = split_residual(g, x, "model.4", 64, 2, True)
    middle = split_residual(g, unit(g, fine, "model.5", 128, 3, 2), "model.6", 128, 2, True)
    x = split_residual(g, unit(g, middle, "model.7", 256, 3, 2), "model.8", 256, 1, True)
    return fine, middle, pooled_pyramid(g, x, "model.9")


def pyramids(g, fine, middle, coarse):
    """Down to the finest level, then up again."""
    middle = split_residual(g, g.op("Concat", twice_as_large(g, coarse), middle, axis=1), "model.12", 128)
    fine = split_residual(g, g.op("Concat", twice_as_large(g, middle), fine, axis=1), "model.15", 64)
    middle = g.op("Concat", unit(g, fine, "model.16", 64, 3, 2), middle, axis=1)
    middle = split_residual(g, middle, "model.18", 128)
    coarse = g.op("Concat", unit(g, middle, "model.19", 128, 3, 2), coarse, axis=1)
    return fine, middle, split_residual(g, coarse, "model.21", 256)


def head(g, x, name, channels, n_out):
    with g.scope(name):
        return conv(g, unit(g, unit(g, x, "0", channels, 3), "1", channels, 3), "2", n_out, 1)


def boxes(g, distances, places, strides):
    """distances: [1, 64, n]; places: [1, 2, n], in cells. Centres and sizes in pixels, [1, 4, n]."""
    n = g.values[distances].shape[2]
    shares = g.op("Transpose", reshape(g, distances, 1, 4, BINS, n), perm=[0, 2, 1, 3])
    bins = g.parameter("dfl.conv.weight", np.arange(BINS, dtype=np.float32).reshape(1, BINS, 1, 1))
    means = g.op("Conv", g.op("Softmax", shares, axis=1), bins, kernel_shape=[1, 1], strides=[1, 1], pads=[0] * 4,
                 dilations=[1, 1], group=1)
    before, after = g.op("Split", reshape(g, means, 1, 4, n), g.ints(2, 2), n_outputs=2, axis=1)
    low, high = g.op("Sub", places, before), g.op("Add", places, after)
    centre = g.op("Div", g.op("Add", low, high), g.constant(2.0))
    return g.op("Mul", g.op("Concat", centre, g.op("Sub", high, low), axis=1), strides)


def make(is_small=False):
    side = 64 if is_small else 640
    g = Builder("yolov8n", opset=17, seed=2023)
    levels = pyramids(g, *backbone(g, g.input("images", g.normal((1, 3, side, side), 1))))
    with g.scope("model.22"):
        found, places, strides = [], [], []
        for index, x in enumerate(levels):
            distances, classes = head(g, x, f"cv2.{index}", 64, 4 * BINS), head(g, x, f"cv3.{index}", CLASSES, CLASSES)
            found.append(reshape(g, g.op("Concat", distances, classes, axis=1), 1, 4 * BINS + CLASSES, -1))
            cells = side // (8 << index)
            places.append(np.indices((cells, cells), np.float32)[::-1].reshape(1, 2, -1) + np.float32(0.5))
            strides.append(np.full((1, cells * cells), 8 << index, np.float32))
        distances, classes = g.op("Split", g.op("Concat", *found, axis=2), g.ints(4 * BINS, CLASSES), n_outputs=2, axis=1)
        found = boxes(g, distances, g.buffer("anchors", np.concatenate(places, 2)),
                      g.buffer("strides", np.concatenate(strides, 1)))
        found = g.op("Concat", found, g.op("Sigmoid", classes), axis=1)
    g.output("output0", found)
    return g.finish(n_parameters=None if is_small else 3_157_200)
