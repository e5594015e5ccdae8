"""A pipeline of scikit-learn, through skl2onnx: scaled numbers, encoded texts, a forest."""

import numpy
from skl2onnx import to_onnx
from skl2onnx.common.data_types import FloatTensorType, StringTensorType
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import RandomForestClassifier
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

import fettle

random = numpy.random.default_rng(0)
numbers = random.normal(size=(500, 4)).astype("float32")
cities = random.choice(["Graz", "Linz", "Wien"], size=(500, 1)).astype(object)
large = (numbers[:, 0] + (cities[:, 0] == "Wien") > 0.5).astype("int64")

rows = numpy.hstack([numbers.astype(object), cities])
columns = [("numbers", StandardScaler(), [0, 1, 2, 3]), ("city", OneHotEncoder(), [4])]
pipeline = Pipeline([("columns", ColumnTransformer(columns)),
                     ("forest", RandomForestClassifier(n_estimators=20, max_depth=5, random_state=0))]).fit(rows, large)  # fmt: skip

# One input for each column, of any number of rows.
kinds = [(f"number{i}", FloatTensorType([None, 1])) for i in range(4)] + [("city", StringTensorType([None, 1]))]
converted = to_onnx(pipeline, initial_types=kinds, options={"zipmap": False})
model = fettle.compile(converted)

feed = {f"number{i}": numbers[:, i : i + 1] for i in range(4)} | {"city": cities}
outputs = model.run(**feed)
numpy.testing.assert_array_equal(outputs["label"], pipeline.predict(rows))
numpy.testing.assert_allclose(outputs["probabilities"], pipeline.predict_proba(rows), atol=1e-5)
print("as scikit-learn:", (outputs["label"] == large).mean().round(3), "of the rows are right")
