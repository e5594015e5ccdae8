"""Operators of the domain fettle, which take dimension numbers and graphs of elements, as compiled code."""

import unittest

import numpy

import fettle

F32 = "float32"


def numbers(*shape, dtype=F32):
    return numpy.random.default_rng(sum(shape)).integers(-4, 5, shape).astype(dtype)


def elements(count, write, dtypes=(F32,)):
    """A graph of `count` elements, which are `write`'s arguments behind the graph."""
    body = fettle.Graph("body")
    given = [body.input(f"e{i}", dtypes[i % len(dtypes)], []) for i in range(count)]
    results = write(body, *given)
    for i, result in enumerate(results if isinstance(results, tuple) else (results,)):
        body.output(f"r{i}", result)
    return body


def greatest(b, value, place, other, where):
    takes = b.Or(b.Greater(other, value), b.And(b.Equal(other, value), b.Less(where, place)))
    return b.Where(takes, other, value), b.Where(takes, where, place)


def odd(b, state, element):
    """Neither commutes nor associates."""
    return b.Sub(b.Add(state, state), element)


def result(g, *outputs):
    for i, output in enumerate(outputs):
        g.output(f"y{i}", output)
    return fettle.compile(g)


class GeneralOperators(unittest.TestCase):
    def test_pairs_are_reduced_over_any_axis(self):
        for axis in (0, 1, 2):
            g = fettle.Graph()
            shape = ["N", 6, 37]
            x, places = g.input("x", F32, shape), g.input("places", "int64", shape)
            first = [g.constant(numpy.float32(-100)), g.constant(numpy.int64(100))]
            body = elements(4, greatest, (F32, "int64"))
            pair = g.node("Reduce", [x, places, *first], domain="fettle", outputs=2, axes=[axis], body=body)
            model = result(g, *pair)
            for n in (5, 70):
                given = numbers(n, 6, 37)
                value, place = model(given, numpy.ascontiguousarray(numpy.indices(given.shape)[axis]))
                numpy.testing.assert_array_equal(value, given.max(axis))
                numpy.testing.assert_array_equal(place, given.argmax(axis))

    def test_folds_keep_their_order(self):
        g = fettle.Graph()
        x, first = g.input("x", F32, [7, 3, 50]), g.input("first", F32, [])
        folded = g.node("Reduce", [x, first], domain="fettle", axes=[0, 1], body=elements(2, odd))
        rows = g.node("CumulativeReduce", [x, first], domain="fettle", axis=1, reverse=1, body=elements(2, odd))
        model = result(g, folded, rows)
        given = numbers(7, 3, 50)
        want, state = numpy.full(50, 2, F32), numpy.full((7, 50), 2, F32)
        for row in given.reshape(21, 50):
            want = 2 * want - row
        steps = numpy.empty_like(given)
        for k in (2, 1, 0):
            steps[:, k] = state = 2 * state - given[:, k]
        got = model(given, numpy.float32(2))
        numpy.testing.assert_array_equal(got[0], want)
        numpy.testing.assert_array_equal(got[1], steps)

    def test_windows(self):
        g = fettle.Graph()
        x = g.input("x", F32, [2, 3, 12, 12])
        attributes = {"domain": "fettle", "window": [1, 1, 3, 2], "strides": [1, 1, 2, 1]}
        attributes["pads"] = [0, 0, 1, 0, 0, 0, 1, 0]
        first = g.constant(numpy.float32(1))
        sums = g.node("ReduceWindow", [x, first], body=elements(2, lambda b, s, e: b.Add(s, e)), **attributes)
        folds = g.node("ReduceWindow", [x, first], body=elements(2, odd), **attributes)
        source = g.input("source", F32, [2, 3, 6, 11])
        select, scatter = elements(2, lambda b, s, e: b.GreaterOrEqual(s, e)), elements(2, lambda b, s, e: b.Add(s, e))
        back = g.node("SelectAndScatter", [x, source, first], select=select, scatter=scatter, **attributes)
        model = result(g, sums, folds, back)
        given, handed = numbers(2, 3, 12, 12), numbers(2, 3, 6, 11)

        def windows_of(x, padding):
            padded = numpy.pad(x, [(0, 0), (0, 0), (1, 1), (0, 0)], constant_values=padding)
            views = numpy.lib.stride_tricks.sliding_window_view(padded, (3, 2), (2, 3))
            return views[:, :, ::2].reshape(2, 3, 6, 11, 6)

        windows = windows_of(given, 1)
        want, total = numpy.ones((2, 3, 6, 11), F32), numpy.ones_like(given)
        for k in range(6):
            want = 2 * want - windows[..., k]
        chosen = windows_of(given, -100).argmax(-1)
        for n, c, h, w in numpy.ndindex(*handed.shape):
            k = chosen[n, c, h, w]
            total[n, c, 2 * h - 1 + k // 2, w + k % 2] += handed[n, c, h, w]
        got = model(given, handed)
        numpy.testing.assert_array_equal(got[0], windows.sum(-1) + 1)
        numpy.testing.assert_array_equal(got[1], want)
        numpy.testing.assert_array_equal(got[2], total)

    def test_sort_by_two_keys(self):
        def before(b, x, y, p, q):
            return b.Or(b.Greater(x, y), b.And(b.Equal(x, y), b.Less(p, q)))

        g = fettle.Graph()
        x, p = g.input("x", F32, ["N"]), g.input("p", F32, ["N"])
        model = result(g, *g.node("Sort", [x, p], domain="fettle", outputs=2, axis=0, body=elements(4, before)))
        for n in (0, 1, 2, 100, 1000):
            keys, others = numbers(n), numpy.random.default_rng(n).integers(0, 9, n).astype(F32)
            order = numpy.lexsort((others, -keys))
            got = model(keys, others)
            numpy.testing.assert_array_equal(got[0], keys[order])
            numpy.testing.assert_array_equal(got[1], others[order])

    def test_gather_and_scatter(self):
        g = fettle.Graph()
        x, at, new = g.input("x", F32, [9, 4]), g.input("at", "int64", ["N"]), g.input("new", F32, ["N", 4])
        dims = {"domain": "fettle", "window_dims": [1], "collapsed_dims": [0], "index_map": [0], "index_vector_dim": 1}
        read = g.node("Gather", [x, at], slice_sizes=[1, 4], **dims)
        added = g.node("Scatter", [x, at, new], body=elements(2, lambda b, s, e: b.Add(s, e)), **dims)
        folded = g.node("Scatter", [x, at, new], body=elements(2, odd), **dims)
        model = result(g, read, added, folded)
        for n in (0, 1, 20):
            data, places, given = numbers(9, 4), numpy.random.default_rng(n).integers(-2, 12, n), numbers(n, 4)
            sums, folds = data.copy(), data.copy()
            for k, place in enumerate(places):
                if 0 <= place < 9:
                    sums[place] += given[k]
                    folds[place] = 2 * folds[place] - given[k]
            got = model(data, places, given)
            numpy.testing.assert_array_equal(got[0], data[numpy.clip(places, 0, 8)])
            numpy.testing.assert_array_equal(got[1], sums)
            numpy.testing.assert_array_equal(got[2], folds)

    def test_contraction_and_convolution(self):
        g = fettle.Graph()
        a, b = g.input("a", F32, ["N", 8, 5, 16]), g.input("b", F32, [7, "N", 16, 8])
        dims = {"batch_a": [0], "batch_b": [1], "contracting_a": [1, 3], "contracting_b": [3, 2]}
        product = g.node("Contraction", [a, b], domain="fettle", **dims)
        image = g.input("image", F32, [1, 10, 10, 4])
        kernel = numbers(3, 3, 4, 6)
        dims = {"image_dims": [0, 3, 1, 2], "kernel_dims": [3, 2, 0, 1], "output_dims": [0, 3, 1, 2]}
        attributes = {"domain": "fettle", "pads": [1, 1, 1, 1], **dims}
        plain = g.node("Convolution", [image, g.constant(kernel)], **attributes)
        wider = g.node("Convolution", [image, g.constant(kernel)], image_dilations=[2, 2], **attributes)
        model = result(g, product, plain, wider)
        given = numbers(3, 8, 5, 16), numbers(7, 3, 16, 8), numbers(1, 10, 10, 4)
        spread = numpy.zeros((1, 19, 19, 4), F32)
        spread[:, ::2, ::2] = given[2]

        def convolved(x):
            padded = numpy.pad(x, [(0, 0), (1, 1), (1, 1), (0, 0)])
            windows = numpy.lib.stride_tricks.sliding_window_view(padded, (3, 3), (1, 2))
            return numpy.einsum("nhwcij,ijco->nhwo", windows, kernel)

        got = model(*given)
        numpy.testing.assert_array_equal(got[0], numpy.einsum("nicj,dnji->ncd", *given[:2]))
        numpy.testing.assert_array_equal(got[1], convolved(given[2]))
        numpy.testing.assert_array_equal(got[2], convolved(spread))

    def test_what_does_not_fit_is_refused(self):
        g = fettle.Graph()
        x, first = g.input("x", F32, [3]), g.input("first", F32, [])
        with self.assertRaises(fettle.Error) as raised:
            result(g, g.node("Reduce", [x, first], domain="fettle", axes=[0], body=elements(3, greatest_of_three)))
        self.assertIn("takes 3 elements", str(raised.exception))


def greatest_of_three(b, x, y, z):
    return b.Max(x, y, z)


if __name__ == "__main__":
    unittest.main()
