"""Boosted trees of XGBoost, through onnxmltools."""

import numpy
import xgboost
from onnxmltools.convert import convert_xgboost
from onnxmltools.convert.common.data_types import FloatTensorType

import fettle

random = numpy.random.default_rng(0)
x = random.normal(size=(2000, 8)).astype("float32")
y = (x[:, 0] * x[:, 1] + x[:, 2]).astype("float32")
trees = xgboost.XGBRegressor(n_estimators=50, max_depth=5, n_jobs=1, base_score=0.0).fit(x, y)

model = fettle.compile(convert_xgboost(trees, initial_types=[("x", FloatTensorType([None, 8]))], target_opset=15))
predicted = model(x)  # of any number of rows
numpy.testing.assert_allclose(predicted[:, 0], trees.predict(x), rtol=1e-4, atol=1e-4)
print("as XGBoost:", predicted.shape, "off by", abs(predicted[:, 0] - y).mean().round(2), "on average")
