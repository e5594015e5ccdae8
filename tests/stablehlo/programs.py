"""Programs as people write them in JAX: networks, optimisers, physics, algorithms. `PROGRAMS` maps each one's name to a
function and its arguments. None runs for more than an instant."""

import math
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

PROGRAMS = {}


def program(*arguments):
    """The function below, with these arguments: arrays, or the shapes of arrays of random numbers."""

    def add(function):
        random = np.random.default_rng(len(PROGRAMS))
        made = [
            random.standard_normal(argument).astype(np.float32) if isinstance(argument, tuple) else np.asarray(argument)
            for argument in arguments
        ]
        PROGRAMS[function.__name__] = (function, made)
        return function

    return add


# --- Networks --------------------------------------------------------------------------------------------------------


@program((8, 16), (16, 32), (32,), (32, 10), (10,))
def mlp(x, w1, b1, w2, b2):
    return jax.nn.log_softmax(jax.nn.gelu(x @ w1 + b1) @ w2 + b2)


def convolve(x, w, stride=1, padding="SAME", groups=1):
    return lax.conv_general_dilated(
        x, w, (stride, stride), padding, dimension_numbers=("NHWC", "HWIO", "NHWC"), feature_group_count=groups
    )


@program((2, 12, 12, 3), (3, 3, 3, 8), (3, 3, 1, 8), (72, 10))
def cnn(x, w1, depthwise, dense):
    x = jax.nn.relu(convolve(x, w1))
    x = lax.reduce_window(x, -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")
    x = jax.nn.silu(convolve(x, depthwise, stride=2, groups=8))
    return jax.nn.softmax(x.reshape(x.shape[0], -1) @ dense / 8)


def batch_norm(x, scale, offset):
    mean, variance = x.mean((0, 1, 2)), x.var((0, 1, 2))
    return (x - mean) * lax.rsqrt(variance + 1e-5) * scale + offset


@program((2, 8, 8, 16), (3, 3, 16, 16), (3, 3, 16, 16), (16,), (16,))
def resnet_block(x, w1, w2, scale, offset):
    y = jax.nn.relu(batch_norm(convolve(x, w1), scale, offset))
    return jax.nn.relu(x + batch_norm(convolve(y, w2), scale, offset))


def layer_norm(x):
    return (x - x.mean(-1, keepdims=True)) * lax.rsqrt(x.var(-1, keepdims=True) + 1e-5)


def heads_of(x, heads):
    return x.reshape(*x.shape[:-1], heads, -1).swapaxes(-2, -3)


@program((2, 6, 32), (32, 96), (32, 32))
def attention(x, w_qkv, w_out):
    q, k, v = (heads_of(part, 4) for part in jnp.split(x @ w_qkv / 6, 3, axis=-1))
    scores = jnp.einsum("bhqd,bhkd->bhqk", q, k) / math.sqrt(q.shape[-1])
    y = jnp.einsum("bhqk,bhkd->bhqd", jax.nn.softmax(scores), v)
    return y.swapaxes(1, 2).reshape(x.shape) @ w_out


@program(np.array([[3, 1, 4, 1, 5, 9]], np.int32), (10, 32), (6, 32), (32, 96), (32, 32), (32, 64), (64, 32))
def gpt_block(tokens, embedding, positions, w_qkv, w_out, w_up, w_down):
    x = embedding[tokens] + positions
    q, k, v = (heads_of(part, 4) for part in jnp.split(layer_norm(x) @ w_qkv / 6, 3, axis=-1))
    scores = jnp.einsum("bhqd,bhkd->bhqk", q, k) / math.sqrt(q.shape[-1])
    mask = jnp.tril(jnp.ones(scores.shape[-2:], bool))
    y = jnp.einsum("bhqk,bhkd->bhqd", jax.nn.softmax(jnp.where(mask, scores, -jnp.inf)), v)
    x = x + y.swapaxes(1, 2).reshape(x.shape) @ w_out / 6
    x = x + jax.nn.gelu(layer_norm(x) @ w_up / 6) @ w_down / 8
    return layer_norm(x) @ embedding.T


@program((7, 3, 5), (5, 32), (8, 32), (32,))
def lstm(xs, w, u, b):
    def step(state, x):
        h, c = state
        i, f, g, o = jnp.split(x @ w + h @ u + b, 4, axis=-1)
        c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
        h = jax.nn.sigmoid(o) * jnp.tanh(c)
        return (h, c), h

    zeros = jnp.zeros((xs.shape[1], u.shape[0]))
    return lax.scan(step, (zeros, zeros), xs)


@program((1, 8, 8, 4), (3, 3, 4, 8), (3, 3, 8, 8), (2, 2, 4, 8), (3, 3, 8, 2))
def unet(x, down, bottom, up, out):
    a = jax.nn.relu(convolve(x, down[:, :, :, :4]))
    b = lax.reduce_window(convolve(a, down), 0.0, lax.add, (1, 2, 2, 1), (1, 2, 2, 1), "VALID") / 4
    b = jax.nn.relu(convolve(b, bottom))
    b = lax.conv_transpose(b, up, (2, 2), "SAME", dimension_numbers=("NHWC", "HWOI", "NHWC"))
    return convolve(jnp.concatenate([a, b], -1), out)


@program((4, 8), (8, 4), (4, 8), np.float32(0.7))
def autoencoder_gradient(x, encode, decode, weight):
    def loss(encode, decode):
        y = jnp.tanh(x @ encode) @ decode
        return jnp.mean((x - y) ** 2) + weight * jnp.sum(jnp.abs(encode))

    return jax.value_and_grad(loss, (0, 1))(encode, decode)


@program((6, 5), np.array([[0, 1], [1, 2], [2, 3], [3, 4], [4, 5], [5, 0], [0, 3]], np.int32), (5, 5), (5, 3))
def graph_network(nodes, edges, w1, w2):
    def layer(x, w):
        messages = jax.ops.segment_sum(x[edges[:, 0]], edges[:, 1], nodes.shape[0])
        return jax.nn.relu((x + messages) @ w)

    return layer(layer(nodes, w1), w2).max(0)


# --- Optimisers ------------------------------------------------------------------------------------------------------


def regression_loss(w, x, y):
    return jnp.mean(jax.nn.softplus(-y * (x @ w))) + 1e-3 * w @ w


DATA = ((24, 6), np.sign(np.sin(np.arange(24))).astype(np.float32))


@program((6,), *DATA)
def sgd(w, x, y):
    return lax.fori_loop(0, 20, lambda _, w: w - 0.3 * jax.grad(regression_loss)(w, x, y), w)


@program((6,), (6,), *DATA)
def momentum(w, velocity, x, y):
    def step(state, _):
        w, velocity = state
        velocity = 0.9 * velocity - 0.1 * jax.grad(regression_loss)(w + 0.9 * velocity, x, y)
        return (w + velocity, velocity), regression_loss(w, x, y)

    return lax.scan(step, (w, 0.01 * velocity), None, 15)


@program((6,), *DATA)
def adam(w, x, y):
    def step(i, state):
        w, m, v = state
        gradient = jax.grad(regression_loss)(w, x, y)
        m, v = 0.9 * m + 0.1 * gradient, 0.999 * v + 0.001 * gradient**2
        t = (i + 1).astype(jnp.float32)
        return w - 0.05 * (m / (1 - 0.9**t)) / (jnp.sqrt(v / (1 - 0.999**t)) + 1e-8), m, v

    return lax.fori_loop(0, 12, step, (w, jnp.zeros_like(w), jnp.zeros_like(w)))


@program((6,), *DATA)
def adagrad(w, x, y):
    def step(state, _):
        w, total = state
        gradient = jax.grad(regression_loss)(w, x, y)
        total = total + gradient**2
        return (w - 0.2 * gradient * lax.rsqrt(total + 1e-6), total), jnp.linalg.norm(gradient)

    return lax.scan(step, (w, jnp.zeros_like(w)), None, 10)


@program((6,), *DATA)
def lbfgs(w, x, y):
    memory = 4

    def direction(gradient, steps, changes, count):
        ages = [(count - 1 - k) % memory for k in range(memory)]
        q, alphas = gradient, []
        for k, age in enumerate(ages):
            is_there = k < count
            rho = jnp.where(is_there, 1 / (changes[age] @ steps[age] + 1e-10), 0)
            alphas.append(rho * (steps[age] @ q))
            q = q - alphas[-1] * changes[age]
        for age, alpha, k in reversed(list(zip(ages, alphas, range(memory), strict=True))):
            rho = jnp.where(k < count, 1 / (changes[age] @ steps[age] + 1e-10), 0)
            q = q + steps[age] * (alpha - rho * (changes[age] @ q))
        return -q

    def step(i, state):
        w, gradient, steps, changes = state
        new = w + 0.5 * direction(gradient, steps, changes, jnp.minimum(i, memory))
        gradient_there = jax.grad(regression_loss)(new, x, y)
        steps = steps.at[i % memory].set(new - w)
        return new, gradient_there, steps, changes.at[i % memory].set(gradient_there - gradient)

    nothing = jnp.zeros((memory, w.size))
    return lax.fori_loop(0, 6, step, (w, jax.grad(regression_loss)(w, x, y), nothing, nothing))[0]


@program((4,))
def newton(x):
    def function(x):
        return jnp.sum(jnp.cosh(x)) + jnp.prod(jnp.sin(x)) + x @ x

    def step(_, x):
        direction, _ = jax.scipy.sparse.linalg.cg(jax.hessian(function)(x), jax.grad(function)(x), maxiter=4)
        return x - direction

    return lax.fori_loop(0, 2, step, x)


# --- Physics ---------------------------------------------------------------------------------------------------------


@program((5, 3), (5, 3), np.array([3, 1, 2, 1, 1], np.float32))
def n_body(position, velocity, mass):
    def acceleration(p):
        d = p[None] - p[:, None]
        return jnp.sum(mass[None, :, None] * d / (jnp.sum(d**2, -1, keepdims=True) + 0.1) ** 1.5, 1)

    def step(state, _):
        p, v = state
        v = v + 0.005 * acceleration(p)
        p = p + 0.01 * v
        return (p, v + 0.005 * acceleration(p)), jnp.sum(mass[:, None] * v**2) / 2

    return lax.scan(step, (position, velocity), None, 10)


@program((16, 16))
def heat_equation(u):
    def step(_, u):
        around = jnp.roll(u, 1, 0) + jnp.roll(u, -1, 0) + jnp.roll(u, 1, 1) + jnp.roll(u, -1, 1)
        return u + 0.2 * (around - 4 * u)

    return lax.fori_loop(0, 25, step, u)


@program((32,))
def wave_equation(u):
    def step(state, _):
        before, now = state
        inner = now[1:-1] * 2 - before[1:-1] + 0.25 * (now[2:] - 2 * now[1:-1] + now[:-2])
        after = jnp.pad(inner, 1)
        return (now, after), after[::4]

    return lax.scan(step, (u, u), None, 20)


@program(np.array([1, 1, 1], np.float32))
def lorenz(start):
    def derivative(s):
        x, y, z = s
        return jnp.stack([10 * (y - x), x * (28 - z) - y, x * y - 8 / 3 * z])

    def step(s, _):
        s = s + 0.01 * derivative(s)
        return s, s

    return lax.scan(step, start, None, 50)[1]


@program((4,))
def runge_kutta(start):
    def derivative(t, y):
        return jnp.stack([y[1], -jnp.sin(y[0]) - 0.1 * y[1], y[3], jnp.cos(t) - y[2]])

    def step(y, t):
        h = 0.1
        k1 = derivative(t, y)
        k2 = derivative(t + h / 2, y + h / 2 * k1)
        k3 = derivative(t + h / 2, y + h / 2 * k2)
        k4 = derivative(t + h, y + h * k3)
        return y + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4), y

    return lax.scan(step, start, jnp.arange(20) * 0.1)


@program(np.array([0, 42], np.uint32))
def ising(seed):
    key = jax.random.wrap_key_data(seed)
    side = 8
    checks = (jnp.arange(side)[:, None] + jnp.arange(side)) % 2

    def step(state, colour):
        spins, key = state
        key, draw = jax.random.split(key)
        around = jnp.roll(spins, 1, 0) + jnp.roll(spins, -1, 0) + jnp.roll(spins, 1, 1) + jnp.roll(spins, -1, 1)
        flips = jax.random.uniform(draw, spins.shape) < jnp.exp(-0.8 * spins * around)
        spins = jnp.where(flips & (checks == colour), -spins, spins)
        return (spins, key), spins.mean()

    spins = jnp.where(jax.random.bernoulli(key, 0.5, (side, side)), 1.0, -1.0)
    (spins, _), magnetisation = lax.scan(step, (spins, key), jnp.arange(12) % 2)
    return spins, magnetisation


@program((8, 3))
def molecular_dynamics(position):
    box = 4.0
    grid = jnp.stack(jnp.meshgrid(*[jnp.arange(2.0)] * 3, indexing="ij"), -1).reshape(-1, 3) * 2
    start = (grid + 0.05 * position) % box

    def energy(p):
        d = p[:, None] - p
        d = d - box * jnp.round(d / box)
        inverse = 1 / (jnp.sum(d**2, -1) + jnp.eye(8)) ** 3
        return 2 * jnp.sum(jnp.where(jnp.eye(8, dtype=bool), 0, inverse**2 - inverse))

    def step(_, state):
        p, v = state
        v = v - 0.001 * jax.grad(energy)(p)
        return (p + 0.001 * v) % box, v

    p, v = lax.fori_loop(0, 10, step, (start, jnp.zeros_like(start)))
    return p, v, energy(p)


@program((16, 12))
def poisson_by_fft(density):
    density = density - density.mean()
    kx, ky = jnp.fft.fftfreq(16)[:, None], jnp.fft.rfftfreq(12)
    laplacian = (2 * jnp.pi) ** 2 * (kx**2 + ky**2)
    return jnp.fft.irfft2(jnp.fft.rfft2(density) / jnp.where(laplacian == 0, 1, laplacian), density.shape)


@program((10, 10), (10,))
def conjugate_gradients(a, b):
    matrix = a @ a.T + 10 * jnp.eye(10)

    def is_far(state):
        _, _, _, norm, i = state
        return (norm > 1e-10) & (i < 20)

    def step(state):
        x, r, p, norm, i = state
        there = matrix @ p
        alpha = norm / (p @ there)
        x, r = x + alpha * p, r - alpha * there
        return x, r, r + (r @ r) / norm * p, r @ r, i + 1

    return lax.while_loop(is_far, step, (jnp.zeros_like(b), b, b, b @ b, 0))[0]


# --- Others ----------------------------------------------------------------------------------------------------------


@program((30, 2))
def k_means(points):
    def step(_, centres):
        nearest = jnp.argmin(jnp.sum((points[:, None] - centres) ** 2, -1), 1)
        count = jax.ops.segment_sum(jnp.ones(30), nearest, 4)
        return jax.ops.segment_sum(points, nearest, 4) / jnp.maximum(count, 1)[:, None]

    return lax.fori_loop(0, 6, step, points[:4])


@program(np.array([[1, 2], [2, 0], [0, 3], [3, 2], [4, 2], [1, 4]], np.int32))
def page_rank(links):
    degree = jnp.zeros(5).at[links[:, 0]].add(1)

    def step(rank):
        given = jnp.where(degree > 0, rank / jnp.maximum(degree, 1), 0)
        lost = jnp.sum(jnp.where(degree == 0, rank, 0))
        return 0.15 / 5 + 0.85 * (jnp.zeros(5).at[links[:, 1]].add(given[links[:, 0]]) + lost / 5)

    return lax.fori_loop(0, 30, lambda _, rank: step(rank), jnp.full(5, 0.2))


@program((4, 4), (4, 3), np.array([0, 2, 1, 1, 0, 2, 2], np.int32))
def hmm_forward(transition, emission, observed):
    transition, emission = jax.nn.log_softmax(transition), jax.nn.log_softmax(emission)

    def step(alpha, o):
        alpha = jax.nn.logsumexp(alpha[:, None] + transition, 0) + emission[:, o]
        return alpha, alpha

    alpha, history = lax.scan(step, jnp.full(4, -math.log(4)) + emission[:, observed[0]], observed[1:])
    return jax.nn.logsumexp(alpha), history


@program((12, 2))
def kalman_filter(measured):
    f = jnp.array([[1, 0.1], [0, 1]])

    def step(state, z):
        x, p = state
        x, p = f @ x, f @ p @ f.T + 0.01 * jnp.eye(2)
        (a, b), (c, d) = p + 0.5 * jnp.eye(2)
        gain = p @ jnp.array([[d, -b], [-c, a]]) / (a * d - b * c)
        x, p = x + gain @ (z - x), (jnp.eye(2) - gain) @ p
        return (x, p), x

    return lax.scan(step, (jnp.zeros(2), jnp.eye(2)), measured)[1]


@program((5, 9), np.arange(45, dtype=np.int32).reshape(5, 9) * 7 % 13)
def sorting(keys, values):
    order = jnp.argsort(values, axis=1)
    best, places = lax.top_k(keys, 3)
    a, b = lax.sort((values, keys), num_keys=2)
    return order, best, places, a, b, jnp.searchsorted(jnp.sort(keys[0]), keys[1]), jnp.cumsum(values, 1)


@program(np.linspace(-2, 0.5, 24, dtype=np.float32), np.linspace(-1.1, 1.1, 16, dtype=np.float32))
def mandelbrot(x, y):
    c = lax.complex(*jnp.meshgrid(x, y))

    def step(_, state):
        z, count = state
        is_in = jnp.abs(z) <= 2
        return jnp.where(is_in, z * z + c, z), count + is_in

    return lax.fori_loop(0, 30, step, (jnp.zeros_like(c), jnp.zeros(c.shape, jnp.int32)))[1]


@program((np.random.default_rng(7).random((12, 12)) < 0.4).astype(np.int8))
def game_of_life(board):
    def step(board, _):
        around = sum(jnp.roll(board, (i, j), (0, 1)) for i in (-1, 0, 1) for j in (-1, 0, 1) if (i, j) != (0, 0))
        board = ((around == 3) | ((board == 1) & (around == 2))).astype(jnp.int8)
        return board, board.sum(dtype=jnp.int32)

    return lax.scan(step, board, None, 10)


@program((6, 6), (6, 2))
def elimination(a, b):
    """Gauss-Jordan, with pivots."""
    rows = jnp.concatenate([a, b], 1)

    def step(k, rows):
        pivot = jnp.argmax(jnp.where(jnp.arange(6) >= k, jnp.abs(rows[:, k]), -1))
        rows = rows.at[jnp.array([k, pivot])].set(rows[jnp.array([pivot, k])])
        row = rows[k] / rows[k, k]
        return (rows - rows[:, k, None] * row).at[k].set(row)

    return lax.fori_loop(0, 6, step, rows)[:, 6:]


@program(np.array([0, 7], np.uint32))
def monte_carlo(seed):
    key = jax.random.wrap_key_data(seed)
    points = jax.random.uniform(key, (256, 2))
    normal = jax.random.normal(key, (64,))
    return 4 * jnp.mean(jnp.sum(points**2, 1) < 1), normal.mean(), jax.random.randint(key, (8,), 0, 100)


@program(np.array([3, 14, 15, 92, 65, 35], np.uint32), np.array([1, 5, 9, 2, 6, 5], np.uint32))
def bits(a, b):
    def step(_, state):
        x, y = state
        return (x << 5) ^ (x >> 27) ^ y, lax.population_count(x) + y * np.uint32(2654435761)

    return lax.fori_loop(0, 9, step, (a, b)), lax.clz(a), jnp.bitwise_count(a ^ b)


@program((3, 7), (7, 2), (2,))
def mixed_precision(x, w, b):
    y = jnp.dot(x.astype(jnp.bfloat16), w.astype(jnp.bfloat16), preferred_element_type=jnp.float32) + b
    return y, y.astype(jnp.float16) / 3, jnp.finfo(jnp.float32).eps * jnp.sign(y)


@program((9,), np.int32(2))
def branches(x, which):
    made = lax.switch(which, [jnp.sin, jnp.cos, lambda x: x[::-1] ** 3, jnp.abs], x)
    return lax.cond(x.sum() > 0, lambda: made + 1, lambda: made * 2), partial(jnp.where, x > 0)(x, -x)
