"""One block of GPT-2, as torch.onnx writes Hugging Face's: Conv1D as Reshape, Gemm and Reshape; the causal mask cut from a
buffer of 1024 x 1024 by Slice and applied by Where; Gelu with tanh, decomposed; keys and values are outputs too."""

import math

import numpy as np

from models.builder import Builder, power_of
from models.transformer import decomposed_layer_norm, dense_parameters, extent, gelu_tanh, reshape

WIDTH, HEADS, TOKENS, EPSILON = 768, 12, 128, 1e-5


def conv1d(g, x, name, n_out, gain=1.0):
    """[batch, tokens, n_in] → [batch, tokens, n_out]"""
    n_in = g.values[x].shape[-1]
    weight, bias = dense_parameters(g, name, n_in, n_out, gain / math.sqrt(power_of(g, x)))
    with g.scope(name):
        flat = g.op("Gemm", reshape(g, x, -1, n_in), weight, bias, alpha=1.0, beta=1.0)
        return g.check(reshape(g, flat, extent(g, x, 0), extent(g, x, 1), n_out), gain)


def heads(g, x):
    shaped = reshape(g, x, extent(g, x, 0), extent(g, x, 1), HEADS, WIDTH // HEADS)
    return g.op("Transpose", shaped, perm=[0, 2, 1, 3])


def attention(g, x):
    causal = g.buffer("bias", np.tril(np.ones((1, 1, 1024, 1024), np.bool_)))
    query, key, value = g.op("Split", conv1d(g, x, "c_attn", 3 * WIDTH), g.ints(WIDTH, WIDTH, WIDTH), n_outputs=3, axis=2)
    query, key, value = heads(g, query), heads(g, key), heads(g, value)
    scores = g.op("MatMul", query, g.op("Transpose", key, perm=[0, 1, 3, 2]))
    scores = g.check(g.op("Div", scores, g.constant(math.sqrt(WIDTH // HEADS))))
    n_queries, n_keys = extent(g, query, 2), extent(g, key, 2)
    visible = g.op("Slice", causal, g.op("Sub", n_keys, n_queries), n_keys, g.ints(2), g.ints(1))
    visible = g.op("Slice", visible, g.ints(0), n_keys, g.ints(3), g.ints(1))
    scores = g.op("Where", visible, scores, g.constant(np.finfo(np.float32).min))
    context = g.op("Transpose", g.op("MatMul", g.op("Softmax", scores, axis=-1), value), perm=[0, 2, 1, 3])
    context = reshape(g, context, extent(g, context, 0), extent(g, context, 1), WIDTH)
    return conv1d(g, context, "c_proj", WIDTH, gain=0.5), key, value


def make():
    g = Builder("gpt2_block", opset=13, seed=124)
    x = g.input("hidden_states", g.normal((1, TOKENS, WIDTH), 1), ["batch", "sequence", WIDTH])
    with g.scope("h.0"):
        y = decomposed_layer_norm(g, x, "ln_1", EPSILON)
        with g.scope("attn"):
            y, key, value = attention(g, y)
        x = g.check(g.op("Add", y, x))
        y = decomposed_layer_norm(g, x, "ln_2", EPSILON)
        with g.scope("mlp"):
            y = conv1d(g, gelu_tanh(g, conv1d(g, y, "c_fc", 4 * WIDTH)), "c_proj", WIDTH, gain=0.5)
        x = g.check(g.op("Add", x, y))
    present = ["batch", HEADS, "sequence", WIDTH // HEADS]
    g.output("output", x, ["batch", "sequence", WIDTH])
    g.output("present_key", key, present)
    g.output("present_value", value, present)
    return g.finish(n_parameters=7_087_872)
