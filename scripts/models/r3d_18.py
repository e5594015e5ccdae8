"""R3D-18, 16 frames of 112x112: a residual network whose convolutions have three axes. BatchNormalization is folded into
Conv, as torch.onnx writes torchvision's in evaluation mode."""

from models.builder import Builder
from models.convnet import classifier, conv_bn


def block(g, x, width, stride, project):
    y = g.op("Relu", conv_bn(g, x, "conv1.0", "conv1.1", width, 3, stride, fold=True))
    y = conv_bn(g, y, "conv2.0", "conv2.1", width, 3, gain=0.7 if project else 0.5, fold=True)
    shortcut = conv_bn(g, x, "downsample.0", "downsample.1", width, 1, stride, gain=0.7, fold=True) if project else x
    return g.op("Relu", g.check(g.op("Add", y, shortcut)))


def make(is_small=False):
    frames, side, widths = (4, 16, [8, 16]) if is_small else (16, 112, [64, 128, 256, 512])
    g = Builder("r3d_18", opset=17, seed=2018)
    x = g.input("input", g.normal((1, 3, frames, side, side), 1))
    with g.scope("stem"):
        x = g.op("Relu", conv_bn(g, x, "0", "1", widths[0], (3, 7, 7), (1, 2, 2), fold=True))
    for stage, width in enumerate(widths):
        for index in range(2):
            project = stage > 0 and index == 0
            with g.scope(f"layer{stage + 1}/{index}"):
                x = block(g, x, width, 2 if project else 1, project)
    g.output("output", classifier(g, x, "fc", 400))
    return g.finish(n_parameters=None if is_small else 33_371_472)
