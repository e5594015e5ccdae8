"""EfficientNet-B0 at 224: inverted residuals with squeeze and excitation, swish as Sigmoid and Mul. BatchNormalization is
folded into Conv, as torch.onnx writes torchvision's in evaluation mode."""

from models.builder import Builder
from models.convnet import classifier, conv, conv_bn, swish

# expansion, kernel, stride of the first, channels, blocks (Tan and Le 2019, table 1)
STAGES = [(1, 3, 1, 16, 1), (6, 3, 2, 24, 2), (6, 5, 2, 40, 2), (6, 3, 2, 80, 3), (6, 5, 1, 112, 3), (6, 5, 2, 192, 4),
          (6, 3, 1, 320, 1)]


def squeeze_excitation(g, x, squeezed):
    """Scales channels by what a small network makes of their averages."""
    y = g.op("GlobalAveragePool", x)
    y = swish(g, conv(g, y, "fc1", squeezed, 1))
    y = g.op("Sigmoid", conv(g, y, "fc2", g.values[x].shape[1], 1))
    return g.op("Mul", y, x)


def block(g, x, expansion, kernel, stride, channels):
    in_channels = g.values[x].shape[1]
    hidden = expansion * in_channels
    residual = stride == 1 and in_channels == channels
    y, index = x, 0
    if expansion > 1:
        y, index = swish(g, conv_bn(g, y, "0.0", "0.1", hidden, 1, fold=True)), 1
    y = swish(g, conv_bn(g, y, f"{index}.0", f"{index}.1", hidden, kernel, stride, groups=hidden, fold=True))
    with g.scope(f"block.{index + 1}"):
        y = squeeze_excitation(g, y, max(1, in_channels // 4))
    index += 2
    y = conv_bn(g, y, f"{index}.0", f"{index}.1", channels, 1, gain=0.5 if residual else 1.0, fold=True)
    return g.check(g.op("Add", y, x)) if residual else y


def make(is_small=False):
    side, stages = (32, STAGES[:3]) if is_small else (224, STAGES)
    g = Builder("efficientnet_b0", opset=17, seed=2019)
    # Scaled by four images: what excites channels has one number an image, and learns nothing of others from one.
    x = g.input("input", g.normal((4, 3, side, side), 1), [1, 3, side, side])
    with g.scope("features/features.0"):
        x = swish(g, conv_bn(g, x, "0", "1", 32, 3, 2, fold=True))
    for stage, (expansion, kernel, stride, channels, n_blocks) in enumerate(stages):
        for index in range(n_blocks):
            with g.scope(f"features/features.{stage + 1}/{index}"):
                x = block(g, x, expansion, kernel, 1 if index else stride, channels)
    with g.scope("features/features.8"):
        x = swish(g, conv_bn(g, x, "0", "1", 1280, 1, fold=True))
    with g.scope("classifier"):
        x = classifier(g, x, "1", 1000)
    g.output("output", x, [1, 1000])
    return g.finish(n_parameters=None if is_small else 5_288_548)
