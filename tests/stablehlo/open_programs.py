"""Programs whose sizes are open: what JAX exports with symbolic shapes, each to be run with several sizes."""

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

_random = np.random.default_rng(7)


def floats(*shape):
    return _random.standard_normal(shape).astype(np.float32)


def integers(most, *shape):
    return _random.integers(0, most, shape).astype(np.int32)


def attention(q, k, v):
    scores = jnp.einsum("bqd,bkd->bqk", q, k) / jnp.sqrt(jnp.float32(q.shape[-1]))
    causal = jnp.arange(q.shape[1])[:, None] >= jnp.arange(k.shape[1])[None, :]
    return jax.nn.softmax(jnp.where(causal, scores, -1e9), axis=-1) @ v


def layer_norm(x, scale, offset):
    mean = x.mean(-1, keepdims=True)
    return (x - mean) * lax.rsqrt(x.var(-1, keepdims=True) + 1e-5) * scale + offset


def recurrent(x, w):
    def step(h, row):
        h = jnp.tanh(h @ w + row)
        return h, h.sum()

    return lax.scan(step, jnp.zeros(w.shape[0], jnp.float32), x)


def written(x, update, at):
    return lax.dynamic_update_slice(x, update, (at, jnp.int32(0)))


def convolved(strides, padding):
    return lambda x, w: lax.conv_general_dilated(x, w, strides, padding)


def windows(combine, first, extents, strides=(1, 1), padding="VALID"):
    def reduced(x):
        sizes = extents(x) if callable(extents) else extents
        return lax.reduce_window(x, np.float32(first), combine, sizes, strides, padding)

    return reduced


def random_numbers(x):
    key = jax.random.key(3, impl="threefry2x32")
    return x + jax.random.normal(key, x.shape), jax.random.uniform(jax.random.fold_in(key, 1), (x.shape[0],))


# Each: the function, the shapes of its arguments as jax.export reads them, and arguments of several sizes.
OPEN_PROGRAMS = {
    "argsort": (lambda x: (jnp.argsort(x, axis=-1), jnp.sort(x, axis=0)), ("b, c",), [[floats(3, 5)], [floats(4, 40)]]),
    "attention": (
        attention,
        ("b, q, 8", "b, k, 8", "b, k, 8"),
        [[floats(2, n, 8), floats(2, m, 8), floats(2, m, 8)] for n, m in ((5, 5), (7, 33))],
    ),
    "concatenate": (
        lambda x, y: jnp.concatenate([x, y], axis=0)[1:-1, ::2],
        ("a, 6", "b, 6"),
        [[floats(2, 6), floats(3, 6)], [floats(9, 6), floats(1, 6)]],
    ),
    "convolution": (
        convolved((1, 1), "SAME"),
        ("b, 3, 8, 8", "4, 3, 3, 3"),
        [[floats(n, 3, 8, 8), floats(4, 3, 3, 3)] for n in (1, 3)],
    ),
    "convolution_of_sizes": (
        convolved((2, 2), "SAME"),
        ("b, 3, h, w", "4, 3, 3, 3"),
        [[floats(1, 3, *s), floats(4, 3, 3, 3)] for s in ((8, 8), (9, 12), (7, 5))],
    ),
    "cumlogsumexp": (lambda x: lax.cumlogsumexp(x, axis=1), ("a, b",), [[floats(2, 9)], [floats(3, 100)]]),
    "cummax": (
        lambda x: (lax.cummax(x, axis=0), lax.cummin(x, axis=1, reverse=True)),
        ("a, b",),
        [[floats(5, 6)], [floats(50, 3)]],
    ),
    "cumprod": (lambda x: jnp.cumprod(x, axis=-1), ("2, b",), [[floats(2, 4)], [floats(2, 11)]]),
    "cumsum": (
        lambda x: (jnp.cumsum(x, axis=0), lax.cumsum(x, axis=1, reverse=True), jnp.cumsum(x)),
        ("b, 4",),
        [[floats(3, 4)], [floats(200, 4)]],
    ),
    "cumsum_of_integers": (lambda x: jnp.cumsum(x > 2, axis=0), ("b, 2",), [[integers(5, 6, 2)], [integers(5, 70, 2)]]),
    "cumsum_vmap": (jax.vmap(lambda x: jnp.cumsum(x)), ("a, b",), [[floats(3, 4)], [floats(2, 70)]]),
    "dynamic_slice": (
        lambda x, i: lax.dynamic_slice(x, (i, jnp.int32(0)), (3, x.shape[1])),
        ("a + 2, b", ""),
        [[floats(5, 4), np.int32(1)], [floats(9, 2), np.int32(8)]],
    ),
    "dynamic_update_slice": (
        written,
        ("a + c, 4", "c, 4", ""),
        [[floats(6, 4), floats(2, 4), np.int32(1)], [floats(9, 4), floats(8, 4), np.int32(3)]],
    ),
    "einsum": (
        lambda x, y: jnp.einsum("bhqd,bhkd->bhqk", x, y),
        ("b, 2, q, 4", "b, 2, k, 4"),
        [[floats(1, 2, 3, 4), floats(1, 2, 5, 4)], [floats(3, 2, 8, 4), floats(3, 2, 2, 4)]],
    ),
    "fori_loop": (
        lambda x: lax.fori_loop(0, x.shape[0], lambda i, s: s + x[i] * (i + 1), jnp.zeros(3, jnp.float32)),
        ("b, 3",),
        [[floats(4, 3)], [floats(17, 3)]],
    ),
    "layer_norm": (
        layer_norm,
        ("a, b", "b", "b"),
        [[floats(3, n), floats(n), floats(n)] for n in (6, 33)],
    ),
    "logsumexp": (lambda x: jax.nn.logsumexp(x, axis=0), ("a, b",), [[floats(4, 3)], [floats(31, 5)]]),
    "matmul": (
        lambda x, w: jax.nn.gelu(x @ w),
        ("b, 8", "8, 5"),
        [[floats(n, 8), floats(8, 5)] for n in (1, 19)],
    ),
    "matmul_vmap": (
        jax.vmap(jnp.matmul),
        ("b, m, 4", "b, 4, n"),
        [[floats(2, 3, 4), floats(2, 4, 5)], [floats(5, 1, 4), floats(5, 4, 9)]],
    ),
    "norm": (
        lambda x: (jnp.linalg.norm(x, axis=-1), jnp.linalg.norm(x), jnp.linalg.norm(x, 1, axis=0)),
        ("a, b",),
        [[floats(3, 4)], [floats(8, 21)]],
    ),
    "one_hot": (
        lambda i, x: (jax.nn.one_hot(i, 7), jax.nn.one_hot(i, x.shape[0]) @ x),
        ("b", "n, 3"),
        [[integers(4, 5), floats(4, 3)], [integers(9, 2), floats(9, 3)]],
    ),
    "pad": (
        lambda x: (jnp.pad(x, ((0, x.shape[1]), (1, 2))), jnp.pad(x, ((1, 1), (2, 0)), mode="edge")),
        ("a, b",),
        [[floats(2, 3)], [floats(5, 9)]],
    ),
    "pool": (
        lambda x: lax.reduce_window(x, -np.inf, lax.max, (1, 1, 2, 2), (1, 1, 2, 2), "VALID"),
        ("b, 3, h, w",),
        [[floats(2, 3, 4, 6)], [floats(1, 3, 9, 7)]],
    ),
    "random": (random_numbers, ("b, 3",), [[floats(2, 3)], [floats(7, 3)]]),
    "repeat": (
        lambda x: (jnp.repeat(x, 2, axis=0), jnp.tile(x, (2, 3)), jnp.roll(x, 1, axis=0), jnp.flip(x, 1)),
        ("a, b",),
        [[floats(2, 3)], [floats(5, 4)]],
    ),
    "reshape": (
        lambda x: (x.reshape(-1), x.reshape(x.shape[0] * 2, -1), x.reshape(x.shape[0], 2, 3).transpose(1, 0, 2)),
        ("b, 6",),
        [[floats(2, 6)], [floats(9, 6)]],
    ),
    "resize": (
        lambda x: jax.image.resize(x, (x.shape[0], 2 * x.shape[1], 10, 3), "bilinear"),
        ("b, h, 5, 3",),
        [[floats(1, 4, 5, 3)], [floats(2, 7, 5, 3)]],
    ),
    "scan": (recurrent, ("t, 4", "4, 4"), [[floats(3, 4), floats(4, 4)], [floats(29, 4), floats(4, 4)]]),
    "scan_vmap": (
        jax.vmap(recurrent, (0, None)),
        ("b, t, 4", "4, 4"),
        [[floats(b, t, 4), floats(4, 4)] for b, t in ((2, 3), (5, 29))],
    ),
    "segment_sum": (
        lambda x, i: jnp.zeros((5, 2), jnp.float32).at[i].add(x),
        ("b, 2", "b"),
        [[floats(n, 2), integers(5, n)] for n in (3, 40)],
    ),
    "softmax": (lambda x: jax.nn.softmax(x, axis=-1), ("a, b",), [[floats(3, 5)], [floats(2, 130)]]),
    "take": (
        lambda x, i: (jnp.take(x, i, axis=0), jnp.take_along_axis(x, i[:, None], axis=0), x[i, 1]),
        ("a, 3", "b"),
        [[floats(5, 3), integers(5, 4)], [floats(9, 3), integers(9, 2)]],
    ),
    "top_k": (lambda x: lax.top_k(x, 3), ("a, b + 2",), [[floats(2, 5)], [floats(4, 50)]]),
    "tril": (lambda x: (jnp.tril(x), jnp.triu(x, 1).sum(0)), ("a, b",), [[floats(3, 4)], [floats(9, 6)]]),
    "windows_beside": (
        windows(lax.add, 0, (3, 1), padding=((1, 1), (0, 0))),
        ("b, 2",),
        [[floats(4, 2)], [floats(33, 2)]],
    ),
    "windows_of_all": (
        windows(lax.max, -np.inf, lambda x: (x.shape[0], 1)),
        ("b, 3",),
        [[floats(4, 3)], [floats(33, 3)]],
    ),
    "windows_of_half": (
        windows(lax.add, 0, lambda x: (x.shape[0] // 2, 2), strides=(2, 1)),
        ("2*b, 3",),
        [[floats(4, 3)], [floats(34, 3)]],
    ),
}
