"""Operators of ai.onnx.ml beside ONNX Runtime."""

import os
import tempfile
import unittest

import numpy
import onnx
from beside_onnxruntime import FLOAT, INT, reference_of
from onnx import TensorProto, helper, numpy_helper

import fettle

DOMAIN = "ai.onnx.ml"
MODES = ["BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ"]
NAN, STRING = float("nan"), TensorProto.STRING


class Forest:
    """Random trees, and the lists of attributes that say what they are."""

    def __init__(self, n_trees, depth, features=4, modes=("BRANCH_LEQ",), targets=lambda tree: [0], seed=0, keep=0.85,
                 low=-1.0, tracks=False, double=False):
        self.rng = numpy.random.default_rng(seed)
        self.features, self.modes, self.targets, self.keep, self.low = features, modes, targets, keep, low
        self.double = double
        self.lists = {key: [] for key in ("treeids nodeids featureids modes truenodeids falsenodeids values").split()}
        self.weights = {key: [] for key in ("treeids", "nodeids", "ids", "weights")}
        for tree in range(n_trees):
            self.count = 0
            self.grow(tree, depth)
        n = len(self.lists["values"])
        self.tracks = self.rng.integers(0, 2, n).tolist() if tracks else None

    def number(self):
        value = self.rng.uniform(self.low, 1)
        return float(value if self.double else numpy.float32(value))

    def grow(self, tree, depth):
        me, self.count = self.count, self.count + 1
        at = len(self.lists["values"])
        is_leaf = depth == 0 or (me > 0 and self.rng.random() > self.keep)
        mode = "LEAF" if is_leaf else self.modes[self.rng.integers(len(self.modes))]
        # Few values, so that features meet them.
        split = round(float(self.rng.uniform(-1, 1)), 1)
        row = [tree, me, int(self.rng.integers(self.features)), mode, 0, 0, 0.0 if is_leaf else split]
        for values, x in zip(self.lists.values(), row):
            values.append(x)
        if is_leaf:
            for target in self.targets(tree):
                for values, x in zip(self.weights.values(), [tree, me, target, self.number()]):
                    values.append(x)
        else:
            self.lists["truenodeids"][at] = self.grow(tree, depth - 1)
            self.lists["falsenodeids"][at] = self.grow(tree, depth - 1)
        return me

    def attributes(self, prefix, **more):
        lists = {f"nodes_{key}": values for key, values in self.lists.items()}
        lists |= {f"{prefix}_{key}": values for key, values in self.weights.items()}
        if self.double:
            for key in "nodes_values", f"{prefix}_weights":
                lists[f"{key}_as_tensor"] = numpy_helper.from_array(numpy.array(lists.pop(key), numpy.float64))
        if self.tracks:
            lists["nodes_missing_value_tracks_true"] = self.tracks
        return lists | more


def features(rows, columns, seed=1, nan=False, dtype=numpy.float32):
    rng = numpy.random.default_rng(seed)
    x = numpy.round(rng.uniform(-1.2, 1.2, (rows, columns)), 1).astype(dtype)
    if nan:
        x[rng.random(x.shape) < 0.2] = NAN
    return x


class Models(unittest.TestCase):
    def model(self, folder, op, x_type, x_shape, outputs, attributes, version=3):
        names = [f"y{i}" for i in range(len(outputs))]
        node = helper.make_node(op, ["x"], names, domain=DOMAIN, **attributes)
        graph = helper.make_graph(
            [node], "g", [helper.make_tensor_value_info("x", x_type, x_shape)],
            [helper.make_tensor_value_info(name, kind, None) for name, kind in zip(names, outputs)],
        )  # fmt: skip
        model = helper.make_model(
            graph, opset_imports=[helper.make_opsetid("", 17), helper.make_opsetid(DOMAIN, version)], ir_version=8
        )
        path = os.path.join(folder, "model.onnx")
        onnx.save(model, path)
        return path

    def check(self, op, feeds, outputs=(FLOAT,), version=3, rtol=1e-5, atol=1e-6, **attributes):
        """The first feed by a model of its shape; where there are more, all by one with an open batch, too."""
        is_text = feeds[0].dtype == object
        x_type = STRING if is_text else helper.np_dtype_to_tensor_dtype(feeds[0].dtype)
        shapes = [list(feeds[0].shape)] + ([["N", *feeds[0].shape[1:]]] if len(feeds) > 1 else [])
        for shape in shapes:
            with tempfile.TemporaryDirectory() as folder:
                path = self.model(folder, op, x_type, shape, outputs, attributes, version)
                reference, compiled = reference_of(path), fettle.compile(path)
                for x in feeds if "N" in shape else [x for x in feeds if list(x.shape) == shape]:
                    made = compiled.run(x=x)
                    for i, want in enumerate(reference.run(None, {"x": x})):
                        got = made[f"y{i}"]
                        self.assertEqual((got.shape, got.dtype), (want.shape, want.dtype))
                        if want.dtype.kind == "f":
                            numpy.testing.assert_allclose(got, want, rtol=rtol, atol=atol)
                        else:
                            numpy.testing.assert_array_equal(got, want)


class TreeEnsembles(Models):
    def regress(self, forest, feeds, n_targets=1, **more):
        self.check("TreeEnsembleRegressor", feeds, **forest.attributes("target", n_targets=n_targets, **more))

    def classify(self, forest, feeds, labels, rtol=1e-5, **more):
        attributes = forest.attributes("class", classlabels_int64s=labels, **more)
        self.check("TreeEnsembleClassifier", feeds, (INT, FLOAT), rtol=rtol, **attributes)

    def test_shapes_of_trees(self):
        for n_trees, depth, keep in [(1, 0, 1), (1, 1, 1), (3, 4, 1), (70, 6, 0.9), (5, 15, 0.8)]:
            forest = Forest(n_trees, depth, seed=n_trees, keep=keep)
            self.regress(forest, [features(n, 4) for n in (1, 7, 100, 0)])

    def test_modes(self):
        for modes in [[mode] for mode in MODES] + [MODES]:
            for tracks in (False, True):
                forest = Forest(6, 5, modes=modes, tracks=tracks, seed=3)
                self.regress(forest, [features(90, 4, nan=True)])

    def test_targets_and_aggregates(self):
        for aggregate in ("SUM", "AVERAGE", "MIN", "MAX"):
            for how, targets in enumerate([lambda tree: [0, 1, 2], lambda tree: [tree % 3], lambda tree: [1]]):
                for base in ({}, {"base_values": [0.5, -1.0, 2.0]}):
                    forest = Forest(7, 3, targets=targets, seed=how)
                    self.regress(forest, [features(9, 4)], 3, aggregate_function=aggregate, **base)
            self.regress(Forest(7, 3), [features(9, 4)], aggregate_function=aggregate, base_values=[0.25])

    def test_targets_that_some_leaves_have(self):
        forest = Forest(2, 3, seed=5)
        forest.weights["ids"] = [i % 3 for i in range(len(forest.weights["ids"]))]
        for aggregate in ("SUM", "AVERAGE", "MIN", "MAX"):
            self.regress(forest, [features(40, 4)], 3, aggregate_function=aggregate, base_values=[1.0, 2.0, 3.0])

    def test_transforms(self):
        for transform in ("NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT"):
            self.regress(Forest(2, 3, low=0.1), [features(20, 4)], post_transform=transform)
            forest = Forest(3, 3, targets=lambda tree: [0, 1], low=0.05)
            self.regress(forest, [features(20, 4)], 2, post_transform=transform)

    def test_element_types(self):
        self.regress(Forest(5, 4), [features(20, 4).astype(numpy.float64)])
        self.regress(Forest(5, 4, double=True), [features(20, 4, dtype=numpy.float64)])
        whole = numpy.arange(-20, 20).reshape(10, 4)
        for dtype in (numpy.int32, numpy.int64):
            forest = Forest(5, 4)
            attributes = forest.attributes("class", classlabels_int64s=[3, 4])
            self.check("TreeEnsembleClassifier", [whole.astype(dtype)], (INT, FLOAT), **attributes)

    def test_one_feature(self):
        self.regress(Forest(20, 6, features=1), [features(33, 1), features(5, 1, nan=True)])

    def test_two_classes(self):
        kinds = {"first": lambda tree: [0], "second": lambda tree: [1], "both": lambda tree: [0, 1]}
        for kind, targets in kinds.items():
            for low in (0.0, -1.0):
                for base in ([], [0.25], [0.5, -0.25]):
                    others = () if base else ("SOFTMAX", "SOFTMAX_ZERO", "PROBIT")
                    for transform in ("NONE", "LOGISTIC", *others):
                        alone = kind == "first" and len(base) < 2
                        if transform == "PROBIT" and alone:
                            continue  # there, ONNX Runtime leaves a score as it finds it
                        forest = Forest(3, 3, targets=targets, low=low)
                        more = {"base_values": base} if base else {}
                        rtol = 1e-3 if transform == "PROBIT" else 1e-5  # which magnifies what sums differ by
                        self.classify(forest, [features(30, 4)], [10, 20], rtol, post_transform=transform, **more)

    def test_two_classes_by_row(self):
        forest = Forest(1, 4, seed=2)
        forest.weights["ids"] = [i % 2 for i in range(len(forest.weights["ids"]))]
        for base in ([], [0.5, -0.25]):
            for transform in ("NONE", "LOGISTIC", "SOFTMAX"):
                more = {"base_values": base} if base else {}
                self.classify(forest, [features(30, 4)], [10, 20], post_transform=transform, **more)

    def test_many_classes(self):
        for targets in (lambda tree: [tree % 5], lambda tree: [0, 1, 2, 3, 4], lambda tree: [1, 3]):
            for base in ([], [0.1, 0.2, 0.3, -0.1, 0.0]):
                for transform in ("NONE",) if base else ("NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO"):
                    more = {"base_values": base} if base else {}
                    forest = Forest(15, 4, targets=targets, low=-1.0)
                    self.classify(
                        forest, [features(64, 4), features(1, 4), features(0, 4)], [7, 5, 3, -1, 0],
                        post_transform=transform, **more,
                    )  # fmt: skip

    def test_ties_go_to_the_first(self):
        forest = Forest(8, 2, targets=lambda tree: [2, 1, 3])
        forest.weights["weights"] = [0.25] * len(forest.weights["weights"])
        self.classify(forest, [features(8, 4)], [0, 1, 2, 3])

    def test_one_class(self):
        for base in ([], [0.25]):
            for transform in ("NONE", "LOGISTIC"):
                more = {"base_values": base} if base else {}
                self.classify(Forest(3, 3), [features(12, 4)], [7], post_transform=transform, **more)


def numbers(*shape, seed=1):
    return [float(x) for x in numpy.random.default_rng(seed).standard_normal(shape).astype(numpy.float32).ravel()]


class LinearModels(Models):
    def test_regressors(self):
        for targets in (1, 3):
            for transform in ("NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO"):
                for intercepts in ({}, {"intercepts": numbers(targets, seed=2)}):
                    self.check(
                        "LinearRegressor", [features(9, 4), features(0, 4), features(1, 4)], targets=targets,
                        coefficients=numbers(targets, 4), post_transform=transform, **intercepts,
                    )  # fmt: skip

    def test_classifiers(self):
        for columns, labels in [(1, [5, 9]), (2, [5, 9]), (4, [3, 1, 0, 2])]:
            for transform in ("NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO"):
                self.check(
                    "LinearClassifier", [features(20, 4), features(3, 4)], (INT, FLOAT), classlabels_ints=labels,
                    coefficients=numbers(columns, 4), intercepts=numbers(columns, seed=2), post_transform=transform,
                )  # fmt: skip
        for x in [features(5, 4, dtype=numpy.float64), numpy.arange(20).reshape(5, 4)]:
            self.check(
                "LinearClassifier", [x], (INT, FLOAT), classlabels_ints=[5, 9], coefficients=numbers(1, 4),
                intercepts=[0.5],
            )  # fmt: skip


KERNELS = [
    ("LINEAR", [0.0, 0.0, 0.0]), ("POLY", [0.5, 0.25, 3.0]), ("POLY", [0.5, 2.0, 2.0]), ("POLY", [0.1, 2.0, 1.5]),
    ("RBF", [0.7, 0.0, 0.0]), ("SIGMOID", [0.5, -0.1, 0.0]),
]  # fmt: skip


class SupportVectorMachines(Models):
    def test_regressors(self):
        for kernel, params in KERNELS:
            for one_class in (0, 1):
                self.check(
                    "SVMRegressor", [features(15, 4), features(2, 4)], kernel_type=kernel, kernel_params=params,
                    n_supports=7, support_vectors=numbers(7, 4), coefficients=numbers(7, seed=3), rho=[0.3],
                    one_class=one_class, rtol=1e-4, atol=1e-5,
                )  # fmt: skip
        self.check("SVMRegressor", [features(15, 4)], coefficients=numbers(4), rho=[0.3], kernel_params=[0.0] * 3)

    def classify(self, counts, feeds=None, **more):
        n = len(counts)
        all, pairs = sum(counts), n * (n - 1) // 2
        self.check(
            "SVMClassifier", feeds or [features(30, 4), features(1, 4)], (INT, FLOAT), vectors_per_class=counts,
            classlabels_ints=[7, 5, 3, 1, 9][:n], support_vectors=numbers(all, 4),
            coefficients=numbers(n - 1, all, seed=4), rho=numbers(pairs, seed=5), rtol=1e-4, atol=1e-5, **more,
        )  # fmt: skip

    def test_classifiers(self):
        for counts in ([3, 4], [2, 3, 1], [1, 2, 3, 2, 4]):
            for kernel, params in KERNELS[:2] + KERNELS[4:]:
                self.classify(counts, kernel_type=kernel, kernel_params=params)
            for transform in ("SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO"):
                kernel = {"kernel_type": "RBF", "kernel_params": [0.5, 0.0, 0.0]}
                self.classify(counts, [features(30, 4)], post_transform=transform, **kernel)

    def test_probabilities(self):
        for counts in ([3, 4], [2, 3, 1], [1, 2, 3, 2, 4]):
            pairs = len(counts) * (len(counts) - 1) // 2
            self.classify(
                counts, kernel_type="RBF", kernel_params=[0.5, 0.0, 0.0], prob_a=numbers(pairs, seed=6),
                prob_b=numbers(pairs, seed=7),
            )  # fmt: skip

    def test_classifiers_of_features(self):
        for labels in ([4, 2], [4, 2, 6]):
            for low in (-1, 0):
                coefficients = [max(c, low * 9.0) for c in numbers(len(labels), 4)]
                self.check(
                    "SVMClassifier", [features(30, 4)], (INT, FLOAT), classlabels_ints=labels,
                    coefficients=coefficients, rho=[0.1], kernel_params=[0.0] * 3,
                )  # fmt: skip


class Preprocessing(Models):
    def test_scalers(self):
        for x in [features(6, 3), features(6, 3, dtype=numpy.float64), numpy.arange(18).reshape(6, 3)]:
            self.check("Scaler", [x], scale=[2.0, -1.0, 0.5], offset=[0.5, 0.25, 1.0])
            self.check("Scaler", [x], scale=[2.0], offset=[0.5])

    def test_normalizers(self):
        x = features(6, 3)
        x[2] = 0
        for norm in ("MAX", "L1", "L2"):
            self.check("Normalizer", [x, features(2, 3)], norm=norm)
            self.check("Normalizer", [numpy.array([[3, -2], [0, 0]])], norm=norm)

    def test_imputers(self):
        x = features(6, 3, nan=True)
        for values in ([7.0], [7.0, 8.0, 9.0]):
            for replaced in (NAN, float(x[0, 0]), 0.0):
                self.check("Imputer", [x], imputed_value_floats=values, replaced_value_float=replaced)
        whole = numpy.arange(6).reshape(2, 3) % 3
        self.check("Imputer", [whole], (INT,), imputed_value_int64s=[7, 8, 9], replaced_value_int64=2)

    def test_one_hot(self):
        for x in [numpy.array([[1, 2], [5, 3]]), numpy.array([[1.7, -0.5]], dtype=numpy.float32)]:
            self.check("OneHotEncoder", [x], cats_int64s=[2, 0, 1, 7])
        known = numpy.array([[1, 2], [2, 1]])
        self.check("OneHotEncoder", [known, known[:1], known[:0]], cats_int64s=[2, 1], zeros=0)

    def test_an_unknown_category_is_an_error(self):
        with tempfile.TemporaryDirectory() as folder:
            attributes = {"cats_int64s": [2, 1], "zeros": 0}
            compiled = fettle.compile(self.model(folder, "OneHotEncoder", INT, [3], [FLOAT], attributes))
            self.assertEqual(compiled.run(x=numpy.array([1, 2, 1]))["y0"].shape, (3, 2))
            with self.assertRaises(fettle.Error) as raised:
                compiled.run(x=numpy.array([1, 2, 3]))
            self.assertIn("categories", str(raised.exception))

    def test_strings(self):
        words = numpy.array([["b", "c"], ["a", ""]], dtype=object)
        numbers = numpy.array([[5, 7], [6, 5]])
        lists = {"cats_strings": ["a", "b"], "cats_int64s": [5, 7]}
        self.check("CategoryMapper", [words], (INT,), default_int64=9, **lists)
        self.check("CategoryMapper", [numbers], (STRING,), default_string="?", **lists)
        self.check("OneHotEncoder", [words], cats_strings=["a", "c", "b"])
        self.check("LabelEncoder", [words], (INT,), 2, keys_strings=["a", "c"], values_int64s=[3, 4])
        self.check("LabelEncoder", [numbers], (FLOAT,), 2, keys_int64s=[5, 6], values_floats=[0.5, 0.25])
        x = numpy.array([1.5, NAN, 2.0], dtype=numpy.float32)
        self.check("LabelEncoder", [x], (STRING,), 4, keys_floats=[NAN, 1.5], values_strings=["none", "some"])

    def test_labels_that_are_strings(self):
        forest = Forest(5, 3, targets=lambda tree: [tree % 3], low=-1.0)
        attributes = forest.attributes("class", classlabels_strings=["red", "green", "blue"])
        self.check("TreeEnsembleClassifier", [features(20, 4)], (STRING, FLOAT), **attributes)
        for targets in ([0], [1], [0, 1]):
            forest = Forest(3, 3, targets=lambda tree: targets, low=-1.0)
            attributes = forest.attributes("class", classlabels_strings=["no", "yes"])
            self.check("TreeEnsembleClassifier", [features(20, 4)], (STRING, FLOAT), **attributes)
        for columns, labels in [(1, ["no", "yes"]), (3, ["a", "b", "c"])]:
            self.check(
                "LinearClassifier", [features(20, 4)], (STRING, FLOAT), classlabels_strings=labels,
                coefficients=numbers(columns, 4), intercepts=numbers(columns, seed=2),
            )  # fmt: skip
        self.check(
            "SVMClassifier", [features(20, 4)], (STRING, FLOAT), classlabels_strings=["no", "yes"],
            support_vectors=numbers(3, 4), coefficients=numbers(3), rho=[0.5], vectors_per_class=[1, 2],
            kernel_params=[0.0] * 3,
        )  # fmt: skip

    def test_feature_vectors(self):
        for kind in (numpy.float32, numpy.int64, numpy.float64):
            feeds = {name: numpy.arange(8).reshape(2, 4).astype(kind) for name in "abc"}
            node = helper.make_node("FeatureVectorizer", list(feeds), ["y"], domain=DOMAIN, inputdimensions=[4, 2, 6])
            inputs = [
                helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(x.dtype), x.shape)
                for name, x in feeds.items()
            ]
            graph = helper.make_graph([node], "g", inputs, [helper.make_tensor_value_info("y", FLOAT, None)])
            with tempfile.TemporaryDirectory() as folder:
                path = os.path.join(folder, "model.onnx")
                opsets = [helper.make_opsetid("", 17), helper.make_opsetid(DOMAIN, 3)]
                onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), path)
                want = reference_of(path).run(None, feeds)[0]
                numpy.testing.assert_array_equal(fettle.compile(path).run(**feeds)["y"], want)



if __name__ == "__main__":
    unittest.main()
