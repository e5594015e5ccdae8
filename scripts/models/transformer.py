"""What transformers share."""

import math

import numpy as np

from models.builder import power_of


def dense_parameters(g, name, n_in, n_out, gain=1.0):
    """Weight [n_in, n_out] and bias; inputs of variance 1 give outputs of variance gain^2."""
    with g.scope(name):
        return (g.parameter("weight", g.normal((n_in, n_out), gain / math.sqrt(n_in))),
                g.parameter("bias", g.normal(n_out, 0.02)))


def dense(g, x, name, n_out, gain=1.0):
    """MatMul and Add, as torch.onnx writes nn.Linear on tensors of rank 3. Scaled by the power of its input."""
    weight, bias = dense_parameters(g, name, g.values[x].shape[-1], n_out, gain / math.sqrt(power_of(g, x)))
    with g.scope(name):
        return g.check(g.op("Add", bias, g.op("MatMul", x, weight)), gain)


def dense_without_bias(g, x, name, n_out):
    n_in = g.values[x].shape[-1]
    weight = g.parameter(f"{name}.weight", g.normal((n_in, n_out), 1 / math.sqrt(n_in * power_of(g, x))))
    with g.scope(name):
        return g.check(g.op("MatMul", x, weight))


def norm_parameters(g, name, width):
    with g.scope(name):
        return (g.parameter("weight", g.random.uniform(0.8, 1.2, width).astype(np.float32)),
                g.parameter("bias", g.normal(width, 0.05)))


def layer_norm(g, x, name, epsilon):
    """The operator, which exporters write from opset 17 on."""
    weight, bias = norm_parameters(g, name, g.values[x].shape[-1])
    with g.scope(name):
        return g.check(g.op("LayerNormalization", x, weight, bias, axis=-1, epsilon=epsilon))


def decomposed_layer_norm(g, x, name, epsilon):
    """As exporters write it before opset 17."""
    weight, bias = norm_parameters(g, name, g.values[x].shape[-1])
    with g.scope(name):
        centred = g.op("Sub", x, g.op("ReduceMean", x, axes=[-1]))
        variance = g.op("ReduceMean", g.op("Pow", centred, g.constant(2.0)), axes=[-1])
        deviation = g.op("Sqrt", g.op("Add", variance, g.constant(epsilon)))
        return g.check(g.op("Add", g.op("Mul", g.op("Div", centred, deviation), weight), bias))


def gelu_erf(g, x):
    """x/2 (1 + erf(x/√2))"""
    one_plus = g.op("Add", g.op("Erf", g.op("Div", x, g.constant(math.sqrt(2)))), g.constant(1.0))
    return g.op("Mul", g.op("Mul", x, one_plus), g.constant(0.5))


def gelu_tanh(g, x):
    """As the code of GPT-2 spells it."""
    half = g.op("Mul", x, g.constant(0.5))
    cubic = g.op("Mul", g.op("Pow", x, g.constant(3.0)), g.constant(0.044715))
    inner = g.op("Mul", g.op("Add", x, cubic), g.constant(math.sqrt(2 / math.pi)))
    return g.op("Mul", half, g.op("Add", g.op("Tanh", inner), g.constant(1.0)))


def extent(g, x, axis):
    """Dimension `axis` of x as a list of one number, read at run time: Shape, Gather, Unsqueeze."""
    dimension = g.op("Gather", g.op("Shape", x), g.constant(axis, np.int64), axis=0)
    return g.op("Unsqueeze", dimension, g.ints(0))


def reshape(g, x, *dims):
    """dims: numbers, or values that hold one number."""
    if all(isinstance(d, int) for d in dims):
        return g.op("Reshape", x, g.ints(*dims))
    parts = [g.ints(d) if isinstance(d, int) else d for d in dims]
    return g.op("Reshape", x, g.op("Concat", *parts, axis=0))
