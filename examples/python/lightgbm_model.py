"""A classifier of LightGBM, through onnxmltools."""

import lightgbm
import numpy
from onnxmltools.convert import convert_lightgbm
from onnxmltools.convert.common.data_types import FloatTensorType

import fettle

random = numpy.random.default_rng(0)
x = random.normal(size=(2000, 6)).astype("float32")
kind = (x[:, 0] > 0).astype("int64") + (x[:, 1] > 0.5)
trees = lightgbm.LGBMClassifier(n_estimators=30, num_leaves=15, n_jobs=1, verbose=-1).fit(x, kind)

converted = convert_lightgbm(trees, initial_types=[("x", FloatTensorType([None, 6]))], zipmap=False, target_opset=15)
model = fettle.compile(converted)
labels, probabilities = model(x)
numpy.testing.assert_array_equal(labels, trees.booster_.predict(x).argmax(axis=1))
numpy.testing.assert_allclose(probabilities, trees.booster_.predict(x), atol=1e-5)
print("as LightGBM:", (labels == kind).mean().round(3), "of the rows are right")
