"""Programs of JAX on Fettle beside JAX's CPU client."""

import unittest

from both import assert_same, check, jax, np, on  # noqa: I001: it says which platforms there are

from jax import lax, numpy as jnp

RANDOM = np.random.default_rng(0)


def floats(*shape):
    return RANDOM.standard_normal(shape).astype(np.float32)


def mlp(parameters, x):
    for w, b in parameters[:-1]:
        x = jax.nn.gelu(x @ w + b)
    w, b = parameters[-1]
    return x @ w + b


def loss(parameters, x, y):
    return jnp.mean(jax.nn.logsumexp(mlp(parameters, x), axis=-1) - jnp.take_along_axis(mlp(parameters, x), y, 1)[:, 0])


PARAMETERS = [(floats(8, 16), floats(16)), (floats(16, 4), floats(4))]


class Programs(unittest.TestCase):
    def test_elementwise(self):
        check(lambda x, y: (x + y, x * y - 2, jnp.maximum(x, y), jnp.tanh(x), x > y), floats(3, 5), floats(5))

    def test_matrix_products(self):
        check(lambda a, b: (a @ b, jnp.einsum("ij,kj->ik", a, b.T)), floats(7, 5), floats(5, 3))

    def test_gradients(self):
        check(jax.value_and_grad(loss), PARAMETERS, floats(6, 8), RANDOM.integers(0, 4, (6, 1)))

    def test_training_step(self):
        def step(parameters, x, y):
            return jax.tree.map(lambda p, g: p - 0.1 * g, parameters, jax.grad(loss)(parameters, x, y))

        check(step, PARAMETERS, floats(6, 8), RANDOM.integers(0, 4, (6, 1)))

    def test_convolution(self):
        def function(x, w):
            y = lax.conv_general_dilated(x, w, (2, 2), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))
            return lax.reduce_window(jax.nn.relu(y), 0.0, lax.add, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")

        check(function, floats(1, 16, 16, 3), floats(3, 3, 3, 4))

    def test_scan(self):
        def body(carry, x):
            carry = jnp.tanh(carry @ PARAMETERS[0][0][:8, :8] + x)
            return carry, carry.sum()

        check(lambda c, xs: lax.scan(body, c, xs), floats(2, 8), floats(5, 2, 8))

    def test_while_loop(self):
        check(lambda x: lax.while_loop(lambda s: s[0] < 10, lambda s: (s[0] + 1, s[1] * 1.5), (0, x)), floats(3))

    def test_cond(self):
        for flag in (True, False):
            check(lambda p, x: lax.cond(p, lambda v: v + 1, lambda v: v * 2, x), np.bool_(flag), floats(3))

    def test_vmap(self):
        check(jax.vmap(lambda a, b: jnp.dot(a, b), in_axes=(0, None)), floats(4, 5), floats(5))

    def test_keys_are_handed_over(self):
        def draw(key):
            return jax.random.normal(key, (4, 2))

        for make in (jax.random.key, jax.random.PRNGKey):
            assert_same(np.asarray(jax.jit(draw)(make(3))), on("cpu", lambda make=make: draw(make(3))))

    def test_random_numbers(self):
        def function(seed):
            keys = jax.random.split(jax.random.key(seed), 3)
            return [jax.random.uniform(keys[0], (5,)), jax.random.normal(keys[1], (4, 2)),
                    jax.random.randint(keys[2], (6,), 0, 100)]  # fmt: skip

        check(function, np.int32(7))

    def test_random_numbers_without_a_key(self):
        for low, high in ((-1.0, 3.0), (np.float16(0), np.float16(1)), (np.int32(3), np.int32(9))):
            function = jax.jit(lambda a, b: lax.rng_uniform(a, b, (4, 50)))
            first, second = np.asarray(function(low, high)), np.asarray(function(low, high))
            self.assertTrue((first >= low).all() and (first < high).all())
            self.assertFalse((first == second).all())
        with self.assertRaisesRegex(Exception, "random numbers in a loop"):
            jax.jit(lambda: lax.fori_loop(0, 3, lambda i, x: x + lax.rng_uniform(0.0, 1.0, ()), 0.0))()

    def test_sort_and_top_k(self):
        check(lambda x: (jnp.sort(x), jnp.argsort(x), lax.top_k(x, 3)), floats(4, 9))

    def test_approximate_top_k(self):
        check(lambda x: (lax.approx_max_k(x, 3), lax.approx_min_k(x, 2, reduction_dimension=0)), floats(6, 9))

    def test_indexing(self):
        check(lambda x, i: (x[i], x.at[i].add(1.0), x[1:3, ::2], lax.dynamic_slice(x, (i[0], 0), (2, 3))), floats(6, 5),
              np.array([4, 0, 2]))  # fmt: skip

    def test_complex_numbers(self):
        z = (floats(4, 3) + 1j * floats(4, 3)).astype(np.complex64)
        check(lambda z: (z * z.conj(), jnp.abs(z), jnp.exp(z), z.T @ z, jnp.real(z)), z)

    def test_small_types(self):
        check(lambda x: (x.astype(jnp.bfloat16) * 2, x.astype(jnp.float16) + 1, (x > 0).astype(jnp.int8)), floats(5))

    def test_empty_arrays(self):
        check(lambda x: (x + 1, x.sum(), jnp.concatenate([x, x])), floats(0, 3))

    def test_no_arguments_and_constants(self):
        check(lambda: (jnp.arange(5), jnp.float32(2.5), jnp.zeros((2, 2))))

    def test_same_array_twice(self):
        check(lambda x: (x, x, x + 0), floats(3))

    def test_static_arguments(self):
        function = jax.jit(lambda x, n: x * n, static_argnums=1)
        with jax.default_device(jax.devices("fettle")[0]):
            self.assertEqual([float(function(2.0, n)) for n in (1, 2, 3)], [2.0, 4.0, 6.0])

    def test_trees_and_weak_types(self):
        check(lambda tree: {"a": tree["a"] * 2, "b": [tree["b"][0] + 1.5]}, {"a": floats(2), "b": [3]})

    def test_ahead_of_time(self):
        lowered = jax.jit(lambda a: a @ a.T).lower(jax.ShapeDtypeStruct((8, 4), np.float32))
        compiled = lowered.compile()
        a = floats(8, 4)
        np.testing.assert_allclose(np.asarray(compiled(a)), a @ a.T, rtol=1e-5, atol=1e-5)
        self.assertGreater(compiled.cost_analysis()["flops"], 0)
        self.assertEqual(compiled.memory_analysis().output_size_in_bytes, 8 * 8 * 4)


    def test_long_chains_of_rounds_are_compiled(self):  # values that read each other twice, twenty times over
        check(lambda x: jax.random.gamma(jax.random.key(42), x), np.float32(2.5))

    def test_loops_over_rows(self):
        def forward(c, xs):
            return lax.scan(lambda c, v: (c * 0.9 + v, (c.sum(), v)), c, xs)

        check(forward, floats(8), floats(20, 8))
        check(lambda c, xs: lax.scan(lambda c, v: (c * 0.9 + v, c * 2), c, xs, reverse=True), floats(8), floats(20, 8))
        check(lambda x: lax.fori_loop(2, 9, lambda i, c: c + x[i] * i, jnp.zeros(8)), floats(20, 8))
        check(lambda x: lax.fori_loop(-3, 25, lambda i, c: c + x[i] * i, jnp.zeros(8)), floats(20, 8))
        check(lambda x: lax.fori_loop(0, 20, lambda i, c: c.at[i].set(c[i] * 2 + i), x), floats(20, 8))
        check(lambda x: lax.fori_loop(0, 19, lambda i, c: c.at[i].set(x[i] * 2), jnp.zeros_like(x)), floats(20, 8))


class Donation(unittest.TestCase):
    def test_what_is_donated_is_gone(self):
        function = jax.jit(lambda x, y: x + y, donate_argnums=0)
        x, y = jax.device_put((floats(4), floats(4)))
        expected = np.asarray(x) + np.asarray(y)
        np.testing.assert_array_equal(np.asarray(function(x, y)), expected)
        self.assertTrue(x.is_deleted())
        self.assertFalse(y.is_deleted())

    def test_its_memory_is_written_over(self):
        def step(w, m, gradient):
            m = 0.9 * m + gradient
            return w - 0.1 * m, m

        w, m, gradient = floats(8, 4), floats(8, 4), floats(8, 4)
        expected = on("cpu", step, w, m, gradient)
        call = jax.jit(step, donate_argnums=(0, 1))
        given = [jax.device_put(v) + 0 for v in (w, m)]
        addresses = {v.unsafe_buffer_pointer() for v in given}
        results = call(*given, gradient)
        self.assertEqual({v.unsafe_buffer_pointer() for v in results}, addresses)
        for a, b in zip(results, expected, strict=True):
            np.testing.assert_allclose(np.asarray(a), b, rtol=1e-6, atol=1e-6)

    def test_a_view_of_it_stays(self):
        function = jax.jit(lambda x: x * 2, donate_argnums=0)
        x = jax.device_put(np.arange(100, dtype=np.float32))
        view = np.asarray(x)
        function(x)
        np.testing.assert_array_equal(view, np.arange(100, dtype=np.float32))


class Exports(unittest.TestCase):
    def test_what_was_exported_runs(self):
        def function(x, w):
            return jnp.tanh(x @ w), lax.scan(lambda c, v: (c + v, c.sum()), jnp.zeros(4), x)[1]

        x, w = floats(3, 4), floats(4, 5)
        exported = jax.export.export(jax.jit(function), platforms=["fettle", "cpu"])(x, w)
        again = jax.export.deserialize(exported.serialize())
        self.assertEqual(again.platforms, ("fettle", "cpu"))
        check(again.call, x, w)


class Callbacks(unittest.TestCase):
    def test_pure_callback(self):
        def function(x):
            shape = jax.ShapeDtypeStruct(x.shape, x.dtype)
            return jax.pure_callback(lambda v: np.sin(v) + 1, shape, x) * 2

        check(function, floats(3, 2))

    def test_its_arguments_may_be_computed_with(self):
        def function(x):
            return jax.pure_callback(lambda v: jnp.sort(v) + 1, jax.ShapeDtypeStruct(x.shape, x.dtype), x)

        check(function, floats(5))

    def test_debug_print_in_loops_and_branches(self):
        def function(x):
            def body(i, c):
                jax.debug.print("{} {}", i, c.sum())
                return lax.cond(i % 2 == 0, lambda: (jax.debug.callback(seen.append, i), c + 1)[1], lambda: c * 2)

            return lax.fori_loop(0, 4, body, x)

        seen = []
        check(function, floats(3))
        jax.effects_barrier()
        self.assertEqual([int(i) for i in seen], [0, 2, 0, 2])  # on both

    def test_effects_whose_results_nobody_reads(self):
        seen = []
        function = jax.jit(lambda x: jax.debug.callback(lambda: seen.append(1)))
        function(floats(2))
        function(floats(2))
        jax.effects_barrier()
        self.assertEqual(len(seen), 2)

    def test_ordered_effects(self):
        from jax.experimental import io_callback

        def function(x):
            a = io_callback(lambda v: seen.append("a") or v, jax.ShapeDtypeStruct((), np.float32), x[0], ordered=True)
            jax.debug.print("{}", a, ordered=True)
            b = io_callback(lambda: (seen.append("b"), np.float32(2))[1], jax.ShapeDtypeStruct((), np.float32), ordered=True)
            return a + b

        seen = []
        check(function, floats(2))
        self.assertEqual(seen, ["a", "b"] * 2)

    def test_its_errors_are_told(self):
        def fails(_):
            raise ValueError("no such thing")

        with self.assertRaisesRegex(Exception, "no such thing"):
            on("fettle", lambda x: jax.pure_callback(fails, jax.ShapeDtypeStruct((2,), np.float32), x), floats(2))


class Cache(unittest.TestCase):
    def test_programs_are_kept(self):
        import os
        import subprocess
        import sys
        import tempfile

        code = (
            "import jax, numpy as np\n"
            "print(np.asarray(jax.jit(lambda a: a @ a + 1)(np.eye(4, dtype=np.float32))).sum())\n"
        )  # fmt: skip
        with tempfile.TemporaryDirectory() as folder:
            environment = {**os.environ, "JAX_PLATFORMS": "fettle", "JAX_COMPILATION_CACHE_DIR": folder,
                           "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
                           "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1", "JAX_LOGGING_LEVEL": "DEBUG"}  # fmt: skip
            runs = [subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True)
                    for _ in range(2)]  # fmt: skip
        for run in runs:
            self.assertEqual(run.stdout.strip(), "20.0", run.stderr[-2000:])
        self.assertIn("compilation cache hit for", runs[1].stderr)


if __name__ == "__main__":
    unittest.main()
