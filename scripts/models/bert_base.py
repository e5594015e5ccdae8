"""BERT-base, uncased: embeddings, 12 layers, pooler, as an exporter of opset 14 writes it, with open batch and sequence:
layer norms and Gelu decomposed, the mask from Unsqueeze, Cast, Sub and Mul, head shapes from Shape, Gather and Concat."""

import math

import numpy as np

from models.builder import Builder
from models.transformer import decomposed_layer_norm, dense, extent, gelu_erf, reshape

WIDTH, HEADS, EPSILON = 768, 12, 1e-12


def embeddings(g, ids, types):
    with g.scope("embeddings"):
        words = g.parameter("word_embeddings.weight", g.normal((30522, WIDTH), 0.6))
        positions = g.parameter("position_embeddings.weight", g.normal((512, WIDTH), 0.6))
        kinds = g.parameter("token_type_embeddings.weight", g.normal((2, WIDTH), 0.6))
        position_ids = g.buffer("position_ids", np.arange(512, dtype=np.int64)[None])
        here = g.op("Slice", position_ids, g.ints(0), extent(g, ids, 1), g.ints(1), g.ints(1))
        x = g.op("Add", g.op("Gather", words, ids), g.op("Gather", kinds, types))
        x = g.op("Add", x, g.op("Gather", positions, here))
        return decomposed_layer_norm(g, x, "LayerNorm", EPSILON)


def heads(g, x):
    """[batch, sequence, width] → [batch, heads, sequence, width / heads]"""
    shaped = reshape(g, x, extent(g, x, 0), extent(g, x, 1), HEADS, WIDTH // HEADS)
    return g.op("Transpose", shaped, perm=[0, 2, 1, 3])


def attention(g, x, mask):
    with g.scope("attention"):
        with g.scope("self"):
            query = dense(g, x, "query", WIDTH)
            key = heads(g, dense(g, x, "key", WIDTH))
            value = heads(g, dense(g, x, "value", WIDTH))
            query = heads(g, query)
            scores = g.op("MatMul", query, g.op("Transpose", key, perm=[0, 1, 3, 2]))
            scores = g.check(g.op("Div", scores, g.constant(math.sqrt(WIDTH // HEADS))))
            weights = g.op("Softmax", g.op("Add", scores, mask), axis=-1)
            context = g.op("Transpose", g.op("MatMul", weights, value), perm=[0, 2, 1, 3])
            context = reshape(g, context, extent(g, context, 0), extent(g, context, 1), WIDTH)
        with g.scope("output"):
            y = g.op("Add", dense(g, context, "dense", WIDTH), x)
            return decomposed_layer_norm(g, y, "LayerNorm", EPSILON)


def make(n_layers=12):
    g = Builder("bert_base", opset=14, seed=110)
    open_shape = ["batch", "sequence"]
    ids = g.input("input_ids", g.random.integers(0, 30522, (1, 128)), open_shape)
    mask = g.input("attention_mask", np.ones((1, 128), np.int64), open_shape)
    types = g.input("token_type_ids", g.random.integers(0, 2, (1, 128)), open_shape)
    # 0 where a token may be seen, the lowest number elsewhere
    extended = g.op("Unsqueeze", g.op("Unsqueeze", mask, g.ints(1)), g.ints(2))
    hidden = g.op("Sub", g.constant(1.0), g.op("Cast", extended, to=1))
    mask = g.op("Mul", hidden, g.constant(np.finfo(np.float32).min))
    x = embeddings(g, ids, types)
    for layer in range(n_layers):
        with g.scope(f"encoder/layer.{layer}"):
            x = attention(g, x, mask)
            with g.scope("intermediate"):
                y = gelu_erf(g, dense(g, x, "dense", 4 * WIDTH))
            with g.scope("output"):
                x = decomposed_layer_norm(g, g.op("Add", dense(g, y, "dense", WIDTH), x), "LayerNorm", EPSILON)
    with g.scope("pooler"):
        first = g.op("Gather", x, g.constant(0, np.int64), axis=1)
        weight = g.parameter("dense.weight", g.normal((WIDTH, WIDTH), 1 / math.sqrt(WIDTH)))
        bias = g.parameter("dense.bias", g.normal(WIDTH, 0.02))
        pooled = g.op("Tanh", g.op("Gemm", first, weight, bias, alpha=1.0, beta=1.0, transB=1))
    g.output("last_hidden_state", x, [*open_shape, WIDTH])
    g.output("pooler_output", pooled, ["batch", WIDTH])
    return g.finish(n_parameters=109_482_240 if n_layers == 12 else None)
