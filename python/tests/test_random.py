"""Random numbers of compiled models: what a seed says, and what calls without one draw."""

import os
import tempfile
import unittest

import numpy
from beside_onnxruntime import FLOAT, node, saved, value

import fettle


class Random(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def model(self, nodes, inputs, outputs, constants=None, opset=22, **options):
        return fettle.compile(saved(self.folder, nodes, inputs, outputs, constants or {}, opset), **options)

    def test_a_seed_gives_the_same_numbers_on_any_number_of_threads(self):
        nodes = [
            node("RandomNormal", [], ["a"], shape=[200, 300], seed=7.0, mean=1.0, scale=3.0),
            node("RandomUniform", [], ["b"], shape=[200, 300], seed=7.0, low=-2.0, high=6.0),
            node("RandomUniform", [], ["c"], shape=[31], dtype=11, seed=7.0),
            node("Add", ["a", "x"], ["y"]),
        ]
        outputs = [value(name, FLOAT, None) for name in "yb"] + [value("c", 11, None)]
        inputs = [value("x", FLOAT, ["n", 1])]
        x = numpy.zeros((200, 1), numpy.float32)
        one = self.model(nodes, inputs, outputs, threads=1).run(x=x)
        two = self.model(nodes, inputs, outputs, threads=2).run(x=x)
        for name in "ybc":
            numpy.testing.assert_array_equal(one[name], two[name])
        y, b, c = one["y"], one["b"], one["c"]
        self.assertAlmostEqual(y.mean(), 1, delta=4 * 3 / numpy.sqrt(y.size))
        self.assertAlmostEqual(y.std(), 3, delta=0.05)
        self.assertAlmostEqual(b.mean(), 2, delta=4 * 2.31 / numpy.sqrt(b.size))
        self.assertTrue((b >= -2).all() and (b < 6).all())
        self.assertEqual(c.dtype, numpy.float64)
        self.assertTrue((c >= 0).all() and (c < 1).all())
        # Neighbours do not depend on each other.
        self.assertLess(abs(numpy.corrcoef(b[:, :-1].ravel(), b[:, 1:].ravel())[0, 1]), 0.02)
        self.assertLess(abs(numpy.corrcoef(b[:-1].ravel(), b[1:].ravel())[0, 1]), 0.02)

    def test_the_numbers_of_a_seed_are_part_of_what_it_means(self):
        """Each is the hash of a key and a place: those of a row are the same, however many rows there are."""
        nodes = [node("RandomUniformLike", ["x"], ["y"], seed=1.0)]
        model = self.model(nodes, [value("x", FLOAT, ["n", 8])], [value("y", FLOAT, None)])
        few = model.run(x=numpy.zeros((3, 8), numpy.float32))["y"]
        many = model.run(x=numpy.zeros((50, 8), numpy.float32))["y"]
        numpy.testing.assert_array_equal(few, many[:3])
        self.assertEqual(len(numpy.unique(many)), many.size)

    def test_without_a_seed_each_call_draws_others(self):
        nodes = [node("RandomUniformLike", ["x"], ["u"]), node("Bernoulli", ["x"], ["y"])]
        outputs = [value("u", FLOAT, None), value("y", FLOAT, None)]
        model = self.model(nodes, [value("x", FLOAT, [1000])], outputs)
        p = numpy.linspace(0, 1, 1000, dtype=numpy.float32)
        context = model.context()
        first, second = context.run(x=p), context.run(x=p)
        self.assertFalse((first["u"] == second["u"]).any())
        self.assertAlmostEqual(first["y"].mean(), 0.5, delta=0.06)
        self.assertEqual(first["y"][0], 0)
        self.assertEqual(context.state("random.calls"), 2)
        context.reset_states()
        numpy.testing.assert_array_equal(context.run(x=p)["u"], first["u"])
        context.set_state("random.calls", numpy.array(1))
        numpy.testing.assert_array_equal(context.run(x=p)["u"], second["u"])

    def test_dropout_that_trains(self):
        nodes = [node("Dropout", ["x", "ratio", "training"], ["y", "mask"], seed=5)]
        inputs = [value("x", FLOAT, [64, 64]), value("training", 9, [])]
        outputs = [value("y", FLOAT, None), value("mask", 9, None)]
        model = self.model(nodes, inputs, outputs, {"ratio": numpy.float32(0.25)})
        x = numpy.random.default_rng(0).uniform(1, 2, (64, 64)).astype(numpy.float32)
        made = model.run(x=x, training=numpy.array(True))
        numpy.testing.assert_allclose(made["y"], numpy.where(made["mask"], x / 0.75, 0), rtol=1e-6)
        self.assertAlmostEqual(made["mask"].mean(), 0.75, delta=4 * 0.433 / 64)
        made = model.run(x=x, training=numpy.array(False))
        numpy.testing.assert_array_equal(made["y"], x)
        self.assertTrue(made["mask"].all())

    def test_classes_are_drawn_as_often_as_they_are_likely(self):
        nodes = [node("Multinomial", ["x"], ["y"], sample_size=20000, seed=3.0, dtype=7)]
        model = self.model(nodes, [value("x", FLOAT, [2, 4])], [value("y", 7, None)])
        likely = numpy.array([[0.1, 0.2, 0.3, 0.4], [0.7, 0.0, 0.3, 0.0]], numpy.float32)
        with numpy.errstate(divide="ignore"):
            drawn = model.run(x=numpy.log(likely))["y"]
        for row, want in zip(drawn, likely):
            counts = numpy.bincount(row, minlength=4) / row.size
            numpy.testing.assert_allclose(counts, want, atol=0.015)


if __name__ == "__main__":
    unittest.main()
