"""Strings, beside ONNX Runtime where it has what Unicode says, and beside Python where it has not."""

import os
import re
import tempfile
import unittest

import numpy
import onnx
from onnx import TensorProto, helper, numpy_helper

import fettle
from beside_onnxruntime import BOOL, FLOAT, INT, node, reference_of, value

STRING = TensorProto.STRING
TEXTS = ["", "a", "Äpfel & Öl", "straße", "😀👍🏽", "日本語 テキスト", "a b  c ", "x\ty", "a,b,,c", "e\u0301", "zero\0byte", "a" * 300]


def texts(*shape, seed=1):
    chosen = numpy.random.default_rng(seed).integers(0, len(TEXTS), shape)
    return numpy.array(TEXTS, dtype=object)[chosen]


def model_of(folder, nodes, inputs, outputs, constants=(), opset=20, domains=()):
    graph = helper.make_graph(nodes, "g", inputs, outputs, list(constants))
    imports = [helper.make_opsetid("", opset)] + [helper.make_opsetid(*domain) for domain in domains]
    path = os.path.join(folder, "model.onnx")
    onnx.save(helper.make_model(graph, opset_imports=imports, ir_version=9), path)
    return path


def strings(name, list_of_texts):
    return helper.make_tensor(name, STRING, [len(list_of_texts)], [text.encode() for text in list_of_texts])


class Strings(unittest.TestCase):
    def compiled(self, *arguments, **options):
        with tempfile.TemporaryDirectory() as folder:
            return fettle.compile(model_of(folder, *arguments, **options))

    def check(self, feeds, *arguments, **options):
        """Each feed's results are those of ONNX Runtime."""
        with tempfile.TemporaryDirectory() as folder:
            path = model_of(folder, *arguments, **options)
            compiled, reference = fettle.compile(path), reference_of(path)
            for given in feeds:
                made = compiled.run(**given)
                for output, wanted in zip(reference.get_outputs(), reference.run(None, given)):
                    got = made[output.name]
                    self.assertEqual(got.shape, wanted.shape, output.name)
                    self.assertEqual(got.dtype, wanted.dtype, output.name)
                    self.assertEqual(got.ravel().tolist(), wanted.ravel().tolist(), output.name)

    def test_moving(self):
        nodes = [node("Transpose", ["x"], ["t"], perm=[1, 0]), node("Concat", ["t", "t"], ["both"], axis=1),
                 node("Gather", ["both", "i"], ["columns"], axis=1), node("Equal", ["x", "k"], ["same"]),
                 node("Where", ["same", "x", "k"], ["where"]), node("Slice", ["x", "begin", "end"], ["part"]),
                 node("Reshape", ["x", "flat"], ["list"]), node("Expand", ["k", "shape"], ["wide"])]
        constants = [numpy_helper.from_array(numpy.array([2, 0]), "i"), strings("k", ["a", "", "straße"]),
                     numpy_helper.from_array(numpy.array([1]), "begin"), numpy_helper.from_array(numpy.array([9]), "end"),
                     numpy_helper.from_array(numpy.array([-1]), "flat"), numpy_helper.from_array(numpy.array([2, 3]), "shape")]
        outputs = [value(name, STRING, None) for name in ("both", "columns", "where", "part", "list", "wide")]
        self.check([{"x": texts(4, 3)}, {"x": texts(9, 3)}], nodes, [value("x", STRING, ["n", 3])],
                   outputs + [value("same", BOOL, None)], constants)

    def test_rows(self):
        """Of which ONNX Runtime 1.31 gathers the first string alone."""
        model = self.compiled([node("Gather", ["x", "i"], ["y"], axis=0)], [value("x", STRING, ["n", "m"]), value("i", INT, ["k"])],
                              [value("y", STRING, None)])
        x = texts(5, 3)
        self.assertEqual(model.run(x=x, i=[4, 0, -1])["y"].tolist(), x[[4, 0, -1]].tolist())

    def test_concatenation_broadcasts(self):
        for shapes in (([3], [3]), ([2, 3], [3]), ([4, 1], [1, 3]), ([1], [2, 2])):
            self.check([{"a": texts(*shapes[0]), "b": texts(*shapes[1], seed=2)}], [node("StringConcat", ["a", "b"], ["y"])],
                       [value("a", STRING, shapes[0]), value("b", STRING, shapes[1])], [value("y", STRING, None)])

    def test_splitting(self):
        for attributes in ({"delimiter": ","}, {"delimiter": "ß"}, {"delimiter": ",", "maxsplit": 1}, {"maxsplit": 1}):
            x = numpy.array([text for text in TEXTS if text and "\t" not in text and not text.endswith(" ")], dtype=object)
            self.check([{"x": x}, {"x": x[:3]}, {"x": x[:0]}], [node("StringSplit", ["x"], ["y", "n"], **attributes)],
                       [value("x", STRING, ["n"])], [value("y", STRING, None), value("n", INT, None)])

    def test_patterns(self):
        for pattern in ("", ".*", "[a-zä-ü]+", r"\w+ .*", "(?i)ÄPFEL.*", "a{300}", ".", r"\S+\s\S+", "(a|,|b|c)*", "(?s).*o.*"):
            self.check([{"x": texts(5, 6)}], [node("RegexFullMatch", ["x"], ["y"], pattern=pattern)],
                       [value("x", STRING, ["n", 6])], [value("y", BOOL, None)])

    def test_numbers(self):
        given = numpy.array(["1.5", "-2", "1e10", "NaN", "inf", "-1e-7", "0.1", "123456789", " 7 "], dtype=object)
        for to in (TensorProto.FLOAT, TensorProto.DOUBLE, TensorProto.FLOAT16):
            with tempfile.TemporaryDirectory() as folder:
                path = model_of(folder, [node("Cast", ["x"], ["y"], to=to)], [value("x", STRING, ["n"])], [value("y", to, None)])
                numpy.testing.assert_array_equal(fettle.compile(path).run(x=given)["y"],
                                                 reference_of(path).run(None, {"x": given})[0])
        whole = numpy.array(["1", "-2", "127", "300", "+5", "007", "3.9"], dtype=object)
        for to in (TensorProto.INT8, TensorProto.INT16, TensorProto.INT32, TensorProto.INT64, TensorProto.UINT8, TensorProto.BOOL):
            self.check([{"x": whole}], [node("Cast", ["x"], ["y"], to=to)], [value("x", STRING, ["n"])], [value("y", to, None)])
        random = numpy.random.default_rng(3)
        numbers = numpy.concatenate([random.standard_normal(500) * 10.0 ** random.integers(-30, 30, 500),
                                     [0, -0.0, 1, numpy.nan, numpy.inf, -numpy.inf, 1e8, 12345678]])
        for dtype, kind in ((numpy.float32, FLOAT), (numpy.float64, TensorProto.DOUBLE), (numpy.int64, INT)):
            x = numbers.astype(dtype) if kind != INT else random.integers(-2**62, 2**62, 500)
            self.check([{"x": x}], [node("Cast", ["x"], ["y"], to=STRING)], [value("x", kind, ["n"])], [value("y", STRING, None)])

    def test_text_that_is_no_number_fails(self):
        model = self.compiled([node("Cast", ["x"], ["y"], to=FLOAT)], [value("x", STRING, ["n"])], [value("y", FLOAT, None)])
        for text in ("", "abc", "1.5x", "0x10", "ü"):
            with self.assertRaises(fettle.Error) as raised:
                model.run(x=["1", text])
            self.assertIn(f"the string '{text}' is no number of type f32", str(raised.exception))

    def test_unique(self):
        for attributes in ({}, {"sorted": 0}):
            self.check([{"x": texts(40)}, {"x": texts(1)}], [node("Unique", ["x"], ["y", "i", "j", "k"], **attributes)],
                       [value("x", STRING, ["n"])], [value("y", STRING, None)] + [value(n, INT, None) for n in "ijk"])

    def test_vocabulary(self):
        x = numpy.array([["a", "ü", "a", "b"], ["b", "ü", "ü", "a"]], dtype=object)
        self.check([{"x": x}], [node("TfIdfVectorizer", ["x"], ["y"], mode="TF", min_gram_length=1, max_gram_length=2, max_skip_count=1,
                                     ngram_counts=[0, 2], ngram_indexes=[1, 0, 2], pool_strings=["a", "ü", "a", "ü"])],
                   [value("x", STRING, ["n", 4])], [value("y", FLOAT, None)])

    def test_labels(self):
        ml = {"domains": [("ai.onnx.ml", 4)]}

        def encoder(**attributes):
            return [node("LabelEncoder", ["x"], ["y"], domain="ai.onnx.ml", **attributes)]

        given, keys = [{"x": texts(7, 2)}, {"x": texts(3, 2)}], ["straße", "a", "😀👍🏽", "a"]
        self.check(given, encoder(keys_strings=keys, values_int64s=[5, -7, 9, 3]), [value("x", STRING, ["n", 2])], [value("y", INT, None)], **ml)
        self.check(given, encoder(keys_strings=keys, values_strings=["", "ü", "€", "x"], default_string="?"), [value("x", STRING, ["n", 2])],
                   [value("y", STRING, None)], **ml)
        self.check(given, encoder(keys_strings=keys, values_floats=[.5, 1.5, 2.5, 0.], default_float=-1.), [value("x", STRING, ["n", 2])],
                   [value("y", FLOAT, None)], **ml)
        numbers = numpy.array([1, 5, -3, 7, 1])
        self.check([{"x": numbers}], encoder(keys_int64s=[7, 1, -3], values_strings=["ä", "b", ""]), [value("x", INT, ["n"])],
                   [value("y", STRING, None)], **ml)
        floats = numpy.array([1.5, numpy.nan, 2, 0], dtype=numpy.float32)
        self.check([{"x": floats}], encoder(keys_floats=[numpy.nan, 1.5, 0.], values_strings=["nan", "b", ""]), [value("x", FLOAT, ["n"])],
                   [value("y", STRING, None)], **ml)

    def test_structures(self):
        """Sequences, optionals and maps of strings."""
        sequence = helper.make_tensor_sequence_value_info("words", STRING, [None])
        model = self.compiled([node("SequenceAt", ["words", "place"], ["word"]), node("ConcatFromSequence", ["words"], ["all"], axis=0)],
                              [sequence, value("place", INT, [])], [value("word", STRING, None), value("all", STRING, None)])
        made = model.run(words=[["ä", "b"], [""], ["c"]], place=numpy.array(0))
        self.assertEqual((made["word"].tolist(), made["all"].tolist()), (["ä", "b"], ["ä", "b", "", "c"]))
        maps = helper.make_sequence_type_proto(helper.make_map_type_proto(STRING, helper.make_tensor_type_proto(FLOAT, [])))
        model = self.compiled([node("ZipMap", ["x"], ["y"], domain="ai.onnx.ml", classlabels_strings=["Öl", "b"])],
                              [value("x", FLOAT, ["n", 2])], [helper.make_value_info("y", maps)], domains=[("ai.onnx.ml", 1)])
        self.assertEqual(model.run(x=numpy.array([[1, 2]], dtype=numpy.float32))["y"], [{"Öl": 1.0, "b": 2.0}])

    def test_case(self):
        """ONNX Runtime asks for a locale; Python knows Unicode."""
        words = ["Äpfel", "STRASSE", "ΣΟΦΟΣ", "Москва", "ǅ", "😀", "ÿ", "ﬁ"]
        for action, function in (("LOWER", str.lower), ("UPPER", str.upper)):
            model = self.compiled([node("StringNormalizer", ["x"], ["y"], case_change_action=action)], [value("x", STRING, ["n"])],
                                  [value("y", STRING, None)])
            wanted = [function(w) if len(function(w)) == len(w) else w for w in words]
            wanted = [w.replace("ς", "σ") for w in wanted]  # the end of a word is no character's own matter
            self.assertEqual(model.run(x=words)["y"].tolist(), wanted)

    def test_many(self):
        """A hundred thousand strings of one's own; memory of a context is that of its largest call."""
        nodes = [node("StringConcat", ["x", "mark"], ["y"]), node("RegexFullMatch", ["y"], ["even"], pattern=r"word \d*[02468]!")]
        model = self.compiled(nodes, [value("x", STRING, ["n"])], [value("y", STRING, None), value("even", BOOL, None)],
                              [helper.make_tensor("mark", STRING, [], [b"!"])])
        context = model.context()
        for begin in (0, 50_000):
            x = [f"word {i}" for i in range(begin, begin + 100_000)]
            made = context.run(x=x)
            self.assertEqual(made["y"].tolist(), [text + "!" for text in x])
            self.assertEqual(made["even"].tolist(), [bool(re.fullmatch(r"word \d*[02468]!", text + "!")) for text in x])

    def test_what_goes_in_and_out(self):
        model = self.compiled([node("Identity", ["x"], ["y"])], [value("x", STRING, ["n", "m"])], [value("y", STRING, None)])
        self.assertEqual(model.inputs, [("x", "string", ("n", "m"))])
        for given in (numpy.array([["ü", "b"]]), numpy.array([["ü".encode(), b"b"]]), numpy.array([["ü", b"b"]], dtype=object), [["ü", "b"]]):
            made = model.run(x=given)["y"]
            self.assertEqual((made.dtype, made.shape, made.tolist()), (object, (1, 2), [["ü", "b"]]))
        torn = numpy.array([[b"\xff\xfea"]], dtype=object)
        self.assertEqual(os.fsencode(model.run(x=torn)["y"][0, 0]), b"\xff\xfea")
        wide = texts(6, 4)
        self.assertEqual(model.run(x=wide[::2, ::-1])["y"].tolist(), wide[::2, ::-1].tolist())
        with self.assertRaisesRegex(fettle.Error, "input x has an element of type float, which is no string"):
            model.run(x=numpy.array([["a", 1.5]], dtype=object))
        with self.assertRaisesRegex(fettle.Error, "is i64.* expected string"):
            model.run(x=numpy.array([[1]]))


if __name__ == "__main__":
    unittest.main()
