#!/usr/bin/env python3
"""Makes a case of each form of ONNX Runtime's own operators (com.microsoft), with what ONNX Runtime makes of it:

    ort_cases.py FOLDER

A case is a folder like those of the ONNX package: model.onnx, test_data_set_0/input_0.pb, …, output_0.pb, …
"""
import os
import sys

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


def scale(value):
    return np.array(value, np.float32)


def zero(value, dtype):
    return np.array(value, dtype)


def case(folder, name, op, inputs, n_outputs=1, constants=(), domain="com.microsoft", outputs=None, **attributes):
    """inputs: arrays, None where one is left out; constants: which of them are initializers."""
    names = ["" if x is None else f"x{i}" for i, x in enumerate(inputs)]
    outputs = outputs or [f"y{i}" for i in range(n_outputs)]
    node = helper.make_node(op, names, outputs, domain=domain, name=op, **attributes)
    given = [(names[i], x) for i, x in enumerate(inputs) if x is not None and i not in constants]
    graph = helper.make_graph(
        [node], name,
        [helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(x.dtype), x.shape) for n, x in given],
        [onnx.ValueInfoProto(name=n) for n in outputs if n],  # ONNX Runtime knows the types
        [numpy_helper.from_array(inputs[i], names[i]) for i in constants])
    model = helper.make_model(graph, ir_version=8, opset_imports=[
        helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)])
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    results = session.run(None, dict(given))
    data = os.path.join(folder, name, "test_data_set_0")
    os.makedirs(data)
    onnx.save(model, os.path.join(folder, name, "model.onnx"))
    for kind, arrays in ("input", [x for _, x in given]), ("output", results):
        for i, array in enumerate(arrays):
            with open(os.path.join(data, f"{kind}_{i}.pb"), "wb") as file:
                file.write(numpy_helper.from_array(np.asarray(array)).SerializeToString())


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
    b = [whole(I8, 6, 5), scale(0.03), zero(3, I8)]
    make("qgemm", "QGemm", a + b + [RANDOM.integers(-500, 500, size=5).astype(np.int32), scale(0.05), zero(100, U8)])
    make("qgemm_transposed_to_float", "QGemm",
         [whole(U8, 6, 4), scale(0.02), zero(120, U8), whole(I8, 5, 6), f32(5)**2, zero(0, I8) * whole(I8, 5), None,
          None, None], transA=1, transB=1, alpha=0.5)
    for kind, dtype in ("u8", U8), ("i8", I8):
        make(f"matmul_integer_to_float_{kind}", "MatMulIntegerToFloat",
             [whole(dtype, 2, 4, 6), whole(I8, 6, 5), scale(0.02), f32(5)**2, zero(4, dtype), whole(I8, 5), f32(5)])
    make("matmul_integer_to_float_plain", "MatMulIntegerToFloat",
         [whole(U8, 4, 6), whole(I8, 6, 5), scale(0.02), scale(0.01)])
    make("dynamic_quantize_matmul", "DynamicQuantizeMatMul",
         [f32(4, 6), whole(I8, 6, 5), scale(0.03), zero(3, I8), f32(5)])
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


def fused(make):
    make("fused_matmul", "FusedMatMul", [f32(2, 3, 4), f32(2, 4, 5)], alpha=0.5)
    make("fused_matmul_transposed", "FusedMatMul", [f32(2, 4, 3), f32(2, 5, 4)], transA=1, transB=1, alpha=2.0)
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
    make("quantize_linear", "QuantizeLinear", [f32(3, 4), np.abs(f32(4)) + np.float32(0.1), whole(U8, 4)], axis=1)
    make("dequantize_linear", "DequantizeLinear", [whole(I8, 3, 4), f32(3), whole(I8, 3)], axis=0)


def main():
    folder = sys.argv[1]

    def make(name, op, inputs, **more):
        case(folder, name, op, inputs, **more)
    for family in (quantised_elementwise, quantised_pooling, quantised_products, packed_products, fused, normalised,
                   renamed):
        family(make)


main()
