"""The generator of HiFi-GAN V1, 32 frames of 80 bins to 8192 samples of sound, as torch.onnx writes it with weight norms
removed: ConvTranspose along time, three dilated residual blocks beside each other on each level, LeakyRelu, Tanh."""

from models.builder import Builder
from models.convnet import conv, conv_transpose

# factor, kernel of each level; kernels and dilations of residual blocks (Kong et al. 2020, appendix A)
LEVELS, KERNELS, DILATIONS = [(8, 16), (8, 16), (2, 4), (2, 4)], [3, 7, 11], [1, 3, 5]


def residual_block(g, x, name, kernel):
    channels = g.values[x].shape[1]
    with g.scope(name):
        for index, dilation in enumerate(DILATIONS):
            y = conv(g, g.op("LeakyRelu", x, alpha=0.1), f"convs1.{index}", channels, kernel, dilation=dilation)
            y = conv(g, g.op("LeakyRelu", y, alpha=0.1), f"convs2.{index}", channels, kernel, gain=0.5)
            x = g.check(g.op("Add", y, x))
    return x


def make(is_small=False):
    frames, width, levels = (6, 32, LEVELS[1:3]) if is_small else (32, 512, LEVELS)
    g = Builder("hifigan", opset=17, seed=2020)
    x = conv(g, g.input("mel", g.normal((1, 80, frames), 1)), "conv_pre", width, 7)
    for level, (factor, kernel) in enumerate(levels):
        x = conv_transpose(g, g.op("LeakyRelu", x, alpha=0.1), f"ups.{level}", width >> level + 1, kernel, factor)
        first, *others = [residual_block(g, x, f"resblocks.{len(KERNELS) * level + i}", k) for i, k in enumerate(KERNELS)]
        for other in others:
            first = g.op("Add", first, other)
        x = g.check(g.op("Div", first, g.constant(float(len(KERNELS)))))
    x = conv(g, g.op("LeakyRelu", x, alpha=0.01), "conv_post", 1, 7)
    g.output("audio", g.op("Tanh", x))
    return g.finish(n_parameters=None if is_small else 13_926_017)
