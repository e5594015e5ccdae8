"""ViT-B/16 at 224, 197 tokens, as torch.onnx at opset 17 writes timm's: LayerNormalization operators, one dense layer for
queries, keys and values split after a transpose, attention with both factors scaled, a class token that is expanded."""

import math

import numpy as np

from models.builder import Builder
from models.transformer import dense, extent, gelu_erf, layer_norm, reshape

WIDTH, HEADS, TOKENS, EPSILON = 768, 12, 197, 1e-6


def patches(g, image, batch):
    with g.scope("patch_embed"):
        weight = g.parameter("proj.weight", g.normal((WIDTH, 3, 16, 16), 1 / math.sqrt(768)))
        bias = g.parameter("proj.bias", g.normal(WIDTH, 0.02))
        with g.scope("proj"):
            x = g.check(g.op("Conv", image, weight, bias, kernel_shape=[16, 16], strides=[16, 16], pads=[0] * 4,
                             dilations=[1, 1], group=1))
        return g.op("Transpose", reshape(g, x, batch, WIDTH, TOKENS - 1), perm=[0, 2, 1])


def attention(g, x, batch, n_layers):
    with g.scope("attn"):
        qkv = reshape(g, dense(g, x, "qkv", 3 * WIDTH), batch, TOKENS, 3, HEADS, WIDTH // HEADS)
        qkv = g.op("Transpose", qkv, perm=[2, 0, 3, 1, 4])
        query, key, value = (g.op("Squeeze", part, g.ints(0))
                             for part in g.op("Split", qkv, g.ints(1, 1, 1), n_outputs=3, axis=0))
        root = math.sqrt(1 / math.sqrt(WIDTH // HEADS))
        query = g.op("Mul", query, g.constant(root))
        key = g.op("Mul", g.op("Transpose", key, perm=[0, 1, 3, 2]), g.constant(root))
        weights = g.op("Softmax", g.check(g.op("MatMul", query, key)), axis=-1)
        context = g.op("Transpose", g.op("MatMul", weights, value), perm=[0, 2, 1, 3])
        return dense(g, reshape(g, context, batch, TOKENS, WIDTH), "proj", WIDTH, gain=1 / math.sqrt(2 * n_layers))


def make(n_layers=12, is_open=False):
    """is_open: any number of images, "N"."""
    g = Builder("vit_b16", opset=17, seed=16)
    image = g.input("input", g.normal((1, 3, 224, 224), 1), ["N", 3, 224, 224] if is_open else None)
    batch = extent(g, image, 0) if is_open else 1
    tokens = patches(g, image, batch)
    first = g.parameter("cls_token", g.normal((1, 1, WIDTH), 1))
    positions = g.parameter("pos_embed", g.normal((1, TOKENS, WIDTH), 0.3))
    shape = g.op("Concat", batch, g.ints(1), g.ints(WIDTH), axis=0) if is_open else g.ints(1, 1, WIDTH)
    first = g.op("Expand", first, shape)
    x = g.op("Add", g.op("Concat", first, tokens, axis=1), positions)
    for layer in range(n_layers):
        with g.scope(f"blocks/blocks.{layer}"):
            x = g.check(g.op("Add", x, attention(g, layer_norm(g, x, "norm1", EPSILON), batch, n_layers)))
            y = layer_norm(g, x, "norm2", EPSILON)
            with g.scope("mlp"):
                y = dense(g, gelu_erf(g, dense(g, y, "fc1", 4 * WIDTH)), "fc2", WIDTH, gain=1 / math.sqrt(2 * n_layers))
            x = g.check(g.op("Add", x, y))
    x = layer_norm(g, x, "norm", EPSILON)
    x = g.op("Gather", x, g.constant(0, np.int64), axis=1)
    with g.scope("head"):
        weight = g.parameter("weight", g.normal((1000, WIDTH), 1 / math.sqrt(WIDTH)))
        bias = g.parameter("bias", g.normal(1000, 0.02))
        x = g.check(g.op("Gemm", x, weight, bias, alpha=1.0, beta=1.0, transB=1))
    g.output("output", x, ["N", 1000] if is_open else None)
    return g.finish(n_parameters=86_567_656 if n_layers == 12 else None)
