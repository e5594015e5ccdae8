"""The encoder of Whisper tiny, 3000 frames, 1500 tokens, as torch.onnx at opset 17 writes OpenAI's: two convolutions along
time, positions, 4 layers of 6 heads whose queries and keys are both scaled, LayerNormalization, Gelu by Erf."""

import math

from models.builder import Builder
from models.convnet import conv
from models.transformer import dense, dense_without_bias, gelu_erf, layer_norm, reshape

BINS, WIDTH, HEADS, EPSILON = 80, 384, 6, 1e-5


def heads(g, x, tokens, order, scale=None):
    """[1, tokens, width] → [1, tokens, heads, width / heads], transposed to `order`"""
    x = g.op("Transpose", reshape(g, x, 1, tokens, HEADS, WIDTH // HEADS), perm=order)
    return x if scale is None else g.op("Mul", x, g.constant(scale))


def attention(g, x, tokens, gain):
    with g.scope("attn"):
        scale = (WIDTH // HEADS) ** -0.25
        query, key, value = dense(g, x, "query", WIDTH), dense_without_bias(g, x, "key", WIDTH), dense(g, x, "value", WIDTH)
        query, key = heads(g, query, tokens, [0, 2, 1, 3], scale), heads(g, key, tokens, [0, 2, 3, 1], scale)
        weights = g.op("Softmax", g.check(g.op("MatMul", query, key)), axis=-1)
        context = g.op("MatMul", weights, heads(g, value, tokens, [0, 2, 1, 3]))
        context = reshape(g, g.op("Transpose", context, perm=[0, 2, 1, 3]), 1, tokens, WIDTH)
        return dense(g, context, "out", WIDTH, gain)


def make(is_small=False):
    n_layers, tokens = (1, 50) if is_small else (4, 1500)
    gain = 1 / math.sqrt(2 * n_layers)
    g = Builder("whisper_encoder", opset=17, seed=1500)
    x = g.input("mel", g.normal((1, BINS, 2 * tokens), 1))
    x = gelu_erf(g, conv(g, x, "conv1", WIDTH, 3))
    x = gelu_erf(g, conv(g, x, "conv2", WIDTH, 3, stride=2))
    x = g.op("Transpose", x, perm=[0, 2, 1])
    x = g.op("Add", x, g.parameter("positional_embedding", g.normal((tokens, WIDTH), 0.7)))
    for layer in range(n_layers):
        with g.scope(f"blocks.{layer}"):
            x = g.check(g.op("Add", x, attention(g, layer_norm(g, x, "attn_ln", EPSILON), tokens, gain)))
            y = gelu_erf(g, dense(g, layer_norm(g, x, "mlp_ln", EPSILON), "mlp/mlp.0", 4 * WIDTH))
            x = g.check(g.op("Add", x, dense(g, y, "mlp/mlp.2", WIDTH, gain)))
    g.output("output", layer_norm(g, x, "ln_post", EPSILON))
    return g.finish(n_parameters=None if is_small else 8_208_384)
