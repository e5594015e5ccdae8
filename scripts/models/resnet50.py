"""ResNet-50 v1.5: bottlenecks with the stride on the 3x3 convolution. BatchNormalization stays a node, as exporters that
preserve the trained graph write it (mxnet, keras, torch.onnx with TrainingMode.PRESERVE)."""

from models.builder import Builder
from models.convnet import classifier, conv_bn


def bottleneck(g, x, width, stride, project):
    out = 4 * width
    with g.scope("downsample" if project else "identity"):
        shortcut = conv_bn(g, x, "0", "1", out, 1, stride, gain=0.7) if project else x
    y = g.op("Relu", conv_bn(g, x, "conv1", "bn1", width, 1))
    y = g.op("Relu", conv_bn(g, y, "conv2", "bn2", width, 3, stride))
    y = conv_bn(g, y, "conv3", "bn3", out, 1, gain=0.7 if project else 0.4)
    return g.op("Relu", g.check(g.op("Add", y, shortcut)))


def make():
    g = Builder("resnet50", opset=13, seed=50)
    x = g.input("input", g.normal((1, 3, 224, 224), 1))
    x = g.op("Relu", conv_bn(g, x, "conv1", "bn1", 64, 7, 2))
    x = g.op("MaxPool", x, kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1], ceil_mode=0)
    for stage, n_blocks in enumerate([3, 4, 6, 3]):
        for block in range(n_blocks):
            with g.scope(f"layer{stage + 1}/{block}"):
                x = bottleneck(g, x, 64 << stage, 2 if stage and not block else 1, project=block == 0)
    g.output("output", classifier(g, x, "fc", 1000))
    return g.finish(n_parameters=25_557_032)
