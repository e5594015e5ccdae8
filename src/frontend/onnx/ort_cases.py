#!/usr/bin/env python3
"""Makes a case of each form of ONNX Runtime's own operators (com.microsoft), with what ONNX Runtime makes of it:

    ort_cases.py FOLDER

A case is a folder like those of the ONNX package: model.onnx, test_data_set_0/input_0.pb, …, output_0.pb, …
"""
import math
import os
import pathlib
import sys

import ml_dtypes
import numpy as np
import onnx
import onnxruntime
from onnx import helper, numpy_helper

RANDOM = np.random.default_rng(7)
U8, I8 = np.uint8, np.int8


def f32(*shape):
    return RANDOM.normal(size=shape).astype(np.float32)


def whole(dtype, *shape):
    info = np.iinfo(dtype)
    return RANDOM.integers(info.min, info.max + 1, size=shape).astype(dtype)


def weights(*shape):
    """Any, where ONNX Runtime multiplies by VNNI. Without, it adds two products of u8 by them in 16 bits: these fit."""
    end = 128 if "_vnni" in pathlib.Path("/proc/cpuinfo").read_text(encoding="utf-8") else 64
    return RANDOM.integers(-end, end, size=shape).astype(I8)


def scale(value):
    return np.array(value, np.float32)


def zero(value, dtype):
    return np.array(value, dtype)


def model_of(name, op, inputs, outputs, constants, domain, attributes, compared=None):
    """The model, and what it is given, as pairs."""
    names = ["" if x is None else f"x{i}" for i, x in enumerate(inputs)]
    node = helper.make_node(op, names, outputs, domain=domain, name=op, **attributes)
    given = [(names[i], x) for i, x in enumerate(inputs) if x is not None and i not in constants]
    graph = helper.make_graph(
        [node], name,
        [helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(x.dtype), x.shape) for n, x in given],
        [onnx.ValueInfoProto(name=n) for n in outputs[:compared] if n],  # ONNX Runtime knows the types
        [numpy_helper.from_array(inputs[i], names[i]) for i in constants])
    model = helper.make_model(graph, ir_version=8, opset_imports=[
        helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)])
    return model, given


def case(folder, name, op, inputs, n_outputs=1, constants=(), domain="com.microsoft", outputs=None, judged=None,
         results=None, compared=None, **attributes):
    """inputs: arrays, None where one is left out; constants: which of them are initializers; judged: the same inputs in
    a form that ONNX Runtime has on CPUs; results: those of operators that it has for other devices only;
    compared: how many of the outputs are."""
    outputs = outputs or [f"y{i}" for i in range(n_outputs)]
    model, given = model_of(name, op, inputs, outputs, constants, domain, attributes, compared)
    if results is None:
        results = results_of(*((model, given) if judged is None
                               else model_of(name, op, judged, outputs, (), domain, attributes)))
    data = os.path.join(folder, name, "test_data_set_0")
    os.makedirs(data)
    onnx.save(model, os.path.join(folder, name, "model.onnx"))
    for kind, arrays in ("input", [x for _, x in given]), ("output", results):
        for i, array in enumerate(arrays):
            with open(os.path.join(data, f"{kind}_{i}.pb"), "wb") as file:
                file.write(numpy_helper.from_array(np.asarray(array)).SerializeToString())


def results_of(model, given):
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return session.run(None, dict(given))


def quantised_elementwise(make):
    for dtype in U8, I8:
        at = 120 if dtype is U8 else -5
        a = [whole(dtype, 3, 5), scale(0.02), zero(at, dtype)]
        b = [whole(dtype, 5), scale(0.031), zero(at + 3, dtype)]
        out = [scale(0.05), zero(at - 2, dtype)]
        kind = np.dtype(dtype).name
        make(f"qlinear_add_{kind}", "QLinearAdd", a + b + out)
        make(f"qlinear_mul_{kind}", "QLinearMul", a + b + out)
        make(f"qlinear_sigmoid_{kind}", "QLinearSigmoid", a + [scale(0.004), zero(1, dtype)])
        make(f"qlinear_leaky_relu_{kind}", "QLinearLeakyRelu", a + out, alpha=0.3)
        make(f"qlinear_softmax_{kind}", "QLinearSoftmax", [whole(dtype, 2, 3, 4), scale(0.03), zero(at, dtype),
                                                          scale(1 / 256), zero(0 if dtype is U8 else -128, dtype)],
             axis=-1, opset=13)
        make(f"qlinear_where_{kind}", "QLinearWhere", [RANDOM.integers(0, 2, size=(3, 5)).astype(bool)] + a +
             [whole(dtype, 3, 5), scale(0.031), zero(at + 3, dtype)] + out)
    make("qlinear_softmax_flat", "QLinearSoftmax", [whole(U8, 2, 3, 4), scale(0.03), zero(100, U8), scale(1 / 256),
                                                    zero(0, U8)], axis=1, opset=12)
    make("qlinear_concat", "QLinearConcat",
         [scale(0.05), zero(10, U8), whole(U8, 2, 3), scale(0.02), zero(7, U8), whole(U8, 2, 4), scale(0.05),
          zero(10, U8)], axis=1, constants=(0, 1, 3, 4, 6, 7))


def quantised_pooling(make):
    image = [whole(U8, 1, 3, 6, 7), scale(0.03), zero(128, U8), scale(0.02), zero(110, U8)]
    last = [whole(U8, 1, 6, 7, 3)] + image[1:]
    make("qlinear_global_average_pool", "QLinearGlobalAveragePool", image)
    make("qlinear_global_average_pool_last", "QLinearGlobalAveragePool", last, channels_last=1)
    make("qlinear_average_pool", "QLinearAveragePool", image, kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
    make("qlinear_average_pool_counted", "QLinearAveragePool", image, kernel_shape=[3, 3], pads=[1, 1, 1, 1],
         count_include_pad=1)
    make("qlinear_average_pool_last", "QLinearAveragePool", last, kernel_shape=[2, 3], channels_last=1)


def quantised_products(make):
    a = [whole(U8, 4, 6), scale(0.02), zero(120, U8)]
    b = [weights(6, 5), scale(0.03), zero(3, I8)]
    make("qgemm", "QGemm", a + b + [RANDOM.integers(-500, 500, size=5).astype(np.int32), scale(0.05), zero(100, U8)])
    make("qgemm_transposed_to_float", "QGemm",
         [whole(U8, 6, 4), scale(0.02), zero(120, U8), weights(5, 6), f32(5)**2, zero(0, I8) * whole(I8, 5), None,
          None, None], transA=1, transB=1, alpha=0.5)
    for kind, dtype in ("u8", U8), ("i8", I8):
        make(f"matmul_integer_to_float_{kind}", "MatMulIntegerToFloat",
             [whole(dtype, 2, 4, 6), weights(6, 5), scale(0.02), f32(5)**2, zero(4, dtype), whole(I8, 5), f32(5)])
    make("matmul_integer_to_float_plain", "MatMulIntegerToFloat",
         [whole(U8, 4, 6), weights(6, 5), scale(0.02), scale(0.01)])
    make("dynamic_quantize_matmul", "DynamicQuantizeMatMul",
         [f32(4, 6), weights(6, 5), scale(0.03), zero(3, I8), f32(5)])
    make("dynamic_quantize_matmul_by_column", "DynamicQuantizeMatMul",
         [f32(2, 4, 6), whole(U8, 6, 5), f32(5)**2, whole(U8, 5)])


def packed_products(make):
    for bits, block, k in (4, 32, 64), (4, 32, 72), (8, 16, 32), (2, 32, 64):
        n, blocks = 6, -(-k // block)
        blob = block * bits // 8
        weights, scales = whole(U8, n, blocks, blob), np.abs(f32(n, blocks)) * np.float32(0.1)
        zeros = whole(U8, n, -(-blocks * bits // 8))
        name = f"matmul_{bits}_bits_{block}_{k}"
        sizes = dict(K=k, N=n, bits=bits, block_size=block)
        make(name, "MatMulNBits", [f32(3, k), weights, scales], constants=(1, 2), **sizes)
        make(name + "_zeros", "MatMulNBits", [f32(2, 3, k), weights, scales, zeros], constants=(1, 2, 3), **sizes)
    make("matmul_4_bits_bias", "MatMulNBits",
         [f32(3, 32), whole(U8, 5, 1, 16), np.abs(f32(5, 1)), None, None, f32(5)], constants=(1, 2, 5), K=32, N=5,
         bits=4, block_size=32)


def packed_rows(make):
    indices = np.array([[3, 0, 5], [1, 1, 2]], np.int64)
    for bits in 2, 4, 8:
        data, scales = whole(U8, 6, 64 * bits // 8), np.abs(f32(6, 2))
        zeros = whole(U8, 6, -(-2 * bits // 8))
        sizes = dict(bits=bits, block_size=32, gather_axis=0, quantize_axis=1)
        make(f"gather_{bits}_bits", "GatherBlockQuantized", [data, indices, scales], constants=(0, 2), **sizes)
        make(f"gather_{bits}_bits_zeros", "GatherBlockQuantized", [data, indices, scales, zeros], constants=(0, 2, 3),
             **sizes)
    for kind in ml_dtypes.int4, ml_dtypes.uint4:
        data, zeros = [RANDOM.integers(0, 8, size=(32, n, 4)).astype(kind) for n in (6, 1)]
        zeros = np.repeat(zeros[:2], 6, axis=1)
        make(f"gather_{np.dtype(kind).name}", "GatherBlockQuantized", [data, indices, np.abs(f32(2, 6, 4)), zeros],
             constants=(0, 2, 3), block_size=16, gather_axis=1, quantize_axis=0)


def attention(make):
    inputs = [whole(U8, 2, 3, 8), weights(8, 24), f32(24), scale(0.01), scale(0.02)]
    zeros = [zero(120, U8), zero(0, I8)]
    lengths, mask = np.array([2, 3], np.int32), np.array([[1, 0, 1], [1, 1, 1]], np.int32)
    make("q_attention", "QAttention", inputs + [None] + zeros, num_heads=2)
    make("q_attention_lengths", "QAttention", inputs + [lengths] + zeros, num_heads=2)
    make("q_attention_mask", "QAttention", inputs + [mask] + zeros, num_heads=2)
    make("q_attention_causal", "QAttention", inputs + [None] + zeros, num_heads=2, unidirectional=1)
    make("q_attention_past", "QAttention", inputs + [None] + zeros + [f32(2, 2, 2, 4, 4)], n_outputs=2, num_heads=2,
         unidirectional=1)


def self_attention(make):
    x, w, b = f32(2, 3, 8), f32(8, 24), f32(24)
    lengths, mask = np.array([2, 3], np.int32), np.array([[1, 0, 1], [1, 1, 1]], np.int32)
    make("attention", "Attention", [x, w, b], num_heads=2)
    make("attention_lengths", "Attention", [x, w, b, lengths], num_heads=2)
    make("attention_ends", "Attention", [x, w, b, np.array([2, 3, 0, 1], np.int32)], num_heads=2)
    make("attention_mask", "Attention", [x, w, b, mask], num_heads=2, mask_filter_value=-5.0)
    make("attention_mask_of_queries", "Attention", [x, w, b, RANDOM.integers(0, 2, (2, 3, 3)).astype(np.int32)],
         num_heads=2)
    make("attention_causal", "Attention", [x, w, b], num_heads=2, unidirectional=1)
    make("attention_causal_filter", "Attention", [x, w, b, mask], num_heads=2, unidirectional=1, mask_filter_value=-5.0)
    make("attention_past", "Attention", [x, w, b, None, f32(2, 2, 2, 4, 4)], n_outputs=2, num_heads=2,
         unidirectional=1)
    make("attention_bias", "Attention", [x, w, b, None, None, f32(2, 2, 3, 3)], num_heads=2)
    make("attention_sizes", "Attention", [x, f32(8, 22), f32(22)], num_heads=2, qkv_hidden_sizes=[8, 8, 6])


def multi_head_attention(make):
    q, k, v = f32(2, 3, 8), f32(2, 5, 8), f32(2, 5, 6)
    mask = np.array([[1, 0, 1, 1, 0], [1, 1, 1, 0, 1]], np.int32)
    make("multi_head", "MultiHeadAttention", [q, k, v], num_heads=2)
    make("multi_head_bias", "MultiHeadAttention", [q, k, v, f32(22)], num_heads=2, scale=0.2)
    make("multi_head_mask", "MultiHeadAttention", [q, k, v, None, mask], num_heads=2)
    make("multi_head_mask_of_queries", "MultiHeadAttention",
         [q, k, v, None, RANDOM.integers(0, 2, (2, 3, 5)).astype(np.int32)], num_heads=2)
    make("multi_head_scores_bias", "MultiHeadAttention", [q, k, v, None, None, f32(1, 2, 3, 5)], num_heads=2)
    make("multi_head_cross", "MultiHeadAttention", [q, f32(2, 2, 5, 4), f32(2, 2, 5, 4)], num_heads=2)
    packed, keys = f32(2, 3, 2, 3, 4), f32(2, 5, 2, 2, 4)
    make("multi_head_packed", "MultiHeadAttention", [packed], num_heads=2,
         judged=[np.ascontiguousarray(packed[:, :, :, i]).reshape(2, 3, 8) for i in range(3)])
    make("multi_head_packed_keys", "MultiHeadAttention", [q, keys], num_heads=2,
         judged=[q] + [np.ascontiguousarray(keys[:, :, :, i]).reshape(2, 5, 8) for i in range(2)])
    make("multi_head_past", "MultiHeadAttention",
         [q, f32(2, 3, 8), f32(2, 3, 8), None, None, None, f32(2, 2, 4, 4), f32(2, 2, 4, 4)], n_outputs=3, num_heads=2,
         unidirectional=1)


def group_query_attention(make):
    def group(name, inputs, total, **attributes):
        inputs = inputs[:5] + [inputs[5], np.array(total, np.int32)] + inputs[6:]
        make(name, "GroupQueryAttention", inputs, n_outputs=3, constants=(6,), num_heads=4, kv_num_heads=2,
             **attributes)
    q, k, v = f32(2, 3, 64), f32(2, 3, 32), f32(2, 3, 32)
    caches = [f32(16, 8), f32(16, 8)]
    whole = np.array([2, 2], np.int32)
    group("group_prompt", [q, k, v, None, None, whole], 3)
    group("group_prompt_packed", [f32(2, 3, 128), None, None, None, None, whole], 3, scale=0.3)
    group("group_prompt_rotary", [q, k, v, None, None, whole] + caches, 3, do_rotary=1)
    group("group_prompt_rotary_interleaved", [q, k, v, None, None, whole] + caches, 3, do_rotary=1,
          rotary_interleaved=1)
    group("group_prompt_window", [q, k, v, None, None, whole], 3, local_window_size=2)
    group("group_prompt_softcap", [q, k, v, None, None, whole], 3, softcap=2.0)
    group("group_prompt_smooth", [q, k, v, None, None, whole], 3, smooth_softmax=1)
    group("group_prompt_sinks", [q, k, v, None, None, whole, None, None, None, None, f32(4)], 3)
    group("group_prompt_bias", [q, k, v, None, None, whole, None, None, None, f32(2, 1, 3, 3)], 3)
    one = [f32(2, 1, 64), f32(2, 1, 32), f32(2, 1, 32)]
    past = [f32(2, 2, 4, 16), f32(2, 2, 4, 16)]
    group("group_token", one + past + [np.array([4, 4], np.int32)], 5)
    group("group_token_rotary", one + past + [np.array([4, 4], np.int32)] + caches, 5, do_rotary=1)
    group("group_token_ragged", one + past + [np.array([4, 2], np.int32)] + caches, 5, do_rotary=1,
          compared=1)  # what lies behind a batch's own keys in the cache is not stated
    group("group_tokens", [f32(1, 3, 64), f32(1, 3, 32), f32(1, 3, 32), f32(1, 2, 4, 16), f32(1, 2, 4, 16),
                           np.array([6], np.int32)] + caches, 7, do_rotary=1)


def rotary(make):
    caches = [f32(16, 4), f32(16, 4)]
    places = np.array([[3, 1, 4], [0, 9, 2]], np.int64)
    make("rotary", "RotaryEmbedding", [f32(2, 3, 16), places] + caches)
    make("rotary_offset", "RotaryEmbedding", [f32(2, 3, 16), np.array([5], np.int64)] + caches, interleaved=1)
    make("rotary_heads", "RotaryEmbedding", [f32(2, 2, 3, 8), places] + caches)
    make("rotary_part", "RotaryEmbedding", [f32(2, 3, 24), places] + caches, num_heads=2, rotary_embedding_dim=8)


def fused(make):
    make("fused_matmul", "FusedMatMul", [f32(2, 3, 4), f32(2, 4, 5)], alpha=0.5)
    make("fused_matmul_transposed", "FusedMatMul", [f32(2, 4, 3), f32(2, 5, 4)], transA=1, transB=1, alpha=2.0)
    make("fused_matmul_batches", "FusedMatMul", [f32(3, 2, 4), f32(4, 2, 5)], transBatchA=1, transBatchB=1)
    make("fused_matmul_batches_transposed", "FusedMatMul", [f32(4, 2, 3), f32(5, 2, 4)], transBatchA=1, transBatchB=1,
         transA=1, transB=1)
    x, bias, skip = f32(2, 3, 8), f32(8), f32(2, 3, 8)
    make("bias_add", "BiasAdd", [x, bias, skip], results=[x + bias + skip])
    a, b = np.split(x + bias, 2, axis=-1)
    make("bias_split_gelu", "BiasSplitGelu", [x, bias],
         results=[(a * b / 2 * (1 + np.vectorize(math.erf)(b / math.sqrt(2)))).astype(np.float32)])
    x, w, bias = f32(1, 5, 6, 3), f32(4, 3, 3, 3), f32(4)
    windows = np.lib.stride_tricks.sliding_window_view(x, (3, 3), axis=(1, 2))  # [n, y, x, c, ky, kx]
    make("nhwc_conv", "NhwcConv", [x, w, bias],
         results=[(np.einsum("nyxcij,oijc->nyxo", windows, w) + bias).astype(np.float32)])
    make("fused_conv", "FusedConv", [f32(1, 3, 6, 6), f32(4, 3, 3, 3), f32(4)], activation="Relu", pads=[1, 1, 1, 1])
    make("fused_conv_sum", "FusedConv", [f32(1, 3, 6, 6), f32(4, 3, 3, 3), f32(4), f32(1, 4, 4, 4)],
         activation="Relu")
    make("fused_conv_leaky", "FusedConv", [f32(1, 3, 6, 6), f32(4, 3, 3, 3)], activation="LeakyRelu",
         activation_params=[0.3])
    make("fused_conv_clip", "FusedConv", [f32(1, 3, 6, 6), f32(4, 3, 3, 3)], activation="Clip",
         activation_params=[-0.5, 0.75])
    make("fused_gemm", "FusedGemm", [f32(3, 4), f32(5, 4), f32(5)], transB=1, alpha=0.5, beta=2.0,
         activation="LeakyRelu", activation_alpha=0.2)
    make("gelu", "Gelu", [f32(3, 4)])
    make("bias_gelu", "BiasGelu", [f32(3, 4), f32(4)])
    make("fast_gelu", "FastGelu", [f32(3, 4)])
    make("fast_gelu_bias", "FastGelu", [f32(3, 4), f32(4)])
    make("quick_gelu", "QuickGelu", [f32(3, 4)])
    make("quick_gelu_alpha", "QuickGelu", [f32(3, 4)], alpha=1.25)


def normalised(make):
    x, gamma, beta, bias = f32(2, 3, 8), f32(8), f32(8), f32(8)
    sums = ["y", "", "", "sum"]
    make("skip_layer_norm", "SkipLayerNormalization", [x, f32(2, 3, 8), gamma, beta])
    make("skip_layer_norm_sum", "SkipLayerNormalization", [x, f32(2, 3, 8), gamma, beta, bias], outputs=sums,
         epsilon=1e-3)
    make("skip_layer_norm_broadcast", "SkipLayerNormalization", [x, f32(1, 3, 8), gamma])
    make("skip_simplified", "SkipSimplifiedLayerNormalization", [x, f32(2, 3, 8), gamma])
    make("skip_simplified_sum", "SkipSimplifiedLayerNormalization", [x, f32(2, 3, 8), gamma, bias], outputs=sums,
         epsilon=1e-3)
    make("simplified_layer_norm", "SimplifiedLayerNormalization", [x, gamma], domain="", axis=-1, epsilon=1e-3)
    ids = RANDOM.integers(0, 9, size=(2, 3)).astype(np.int32)
    segments = RANDOM.integers(0, 2, size=(2, 3)).astype(np.int32)
    tables = [f32(9, 8), f32(5, 8), f32(2, 8), gamma, beta]
    mask = np.array([[1, 1, 0], [1, 1, 1]], np.int32)
    make("embed_layer_norm", "EmbedLayerNormalization", [ids, segments] + tables, n_outputs=2, epsilon=1e-6)
    make("embed_layer_norm_mask", "EmbedLayerNormalization", [ids, segments] + tables + [mask], n_outputs=3)
    make("embed_layer_norm_positions", "EmbedLayerNormalization",
         [ids, None] + tables[:2] + [None] + tables[3:] + [None, np.array([[4, 2, 0], [1, 1, 3]], np.int32)],
         n_outputs=2)


def renamed(make):
    make("trilu", "Trilu", [f32(3, 4)], upper=0)
    make("grid_sample_cubic_border", "GridSample", [f32(1, 2, 5, 5), 2 * f32(1, 3, 4, 2)], domain="", mode="bicubic",
         padding_mode="border")
    make("gather_nd", "GatherND", [f32(3, 4), np.array([[1, 2], [0, 3]], np.int64)])
    make("quantize_linear", "QuantizeLinear", [f32(3, 4), np.abs(f32(4)) + np.float32(0.1), whole(U8, 4)], axis=1)
    make("dequantize_linear", "DequantizeLinear", [whole(I8, 3, 4), f32(3), whole(I8, 3)], axis=0)


def main():
    folder = sys.argv[1]

    def make(name, op, inputs, **more):
        case(folder, name, op, inputs, **more)
    for family in (quantised_elementwise, quantised_pooling, quantised_products, packed_products, packed_rows, attention, self_attention,
                   multi_head_attention, group_query_attention, rotary, fused, normalised, renamed):
        family(make)


main()
