"""U-Net of four levels, 64 to 512 channels, as torch.onnx writes one in evaluation mode: two convolutions a level with
BatchNormalization folded, MaxPool on the way down, ConvTranspose and Concat on the way up."""

from models.builder import Builder
from models.convnet import conv, conv_bn, conv_transpose


def double_conv(g, x, channels):
    with g.scope("double_conv"):
        x = g.op("Relu", conv_bn(g, x, "0", "1", channels, 3, fold=True))
        return g.op("Relu", conv_bn(g, x, "3", "4", channels, 3, fold=True))


def make(is_small=False):
    widths, side = ([8, 16], 16) if is_small else ([64, 128, 256, 512], 256)
    g = Builder("unet", opset=17, seed=2015)
    x = g.input("input", g.normal((1, 3, side, side), 1))
    skips = []
    for level, width in enumerate(widths):
        with g.scope(f"down{level}"):
            if level:
                skips.append(x)
                x = g.op("MaxPool", x, kernel_shape=[2, 2], strides=[2, 2], pads=[0] * 4, dilations=[1, 1], ceil_mode=0)
            x = double_conv(g, x, width)
    for level, width in enumerate(reversed(widths[:-1])):
        with g.scope(f"up{level}"):
            x = conv_transpose(g, x, "up", width, 2, 2)
            x = double_conv(g, g.op("Concat", skips.pop(), x, axis=1), width)
    g.output("output", conv(g, x, "outc.conv", 2, 1))
    return g.finish(n_parameters=None if is_small else 7_700_226)
