"""A cost model of one's own: linear regression on the logarithm of the features, beside the analytic prediction."""

import math

import numpy

import fettle
from fettle import te


class Linear(fettle.CostModel):
    def __init__(self, ridge=1.0):
        self.ridge = ridge
        self.rows, self.targets = [], []
        self.weights = None
        self.updates = 0

    @staticmethod
    def describe(row):
        features, predicted = row
        return numpy.append(numpy.log1p(numpy.abs(features)), [math.log(predicted), 1.0])

    def update(self, rows, seconds):
        self.updates += 1
        for row, time in zip(rows, seconds):
            if math.isfinite(time):  # what failed teaches nothing here
                self.rows.append(self.describe(row))
                self.targets.append(math.log(time) - math.log(row[1]))
        x, y = numpy.array(self.rows), numpy.array(self.targets)
        self.weights = numpy.linalg.solve(x.T @ x + self.ridge * numpy.eye(x.shape[1]), x.T @ y)

    def predict(self, rows):
        predicted = numpy.array([row[1] for row in rows])
        if self.weights is None or not rows:
            return predicted
        return predicted * numpy.exp(numpy.array([self.describe(row) for row in rows]) @ self.weights)


A, B = te.placeholder((64, 64), name="A"), te.placeholder((64, 64), name="B")
k = te.reduce_axis(64, "k")
C = te.compute((64, 64), lambda i, j: te.sum(A[i, k] * B[k, j], axis=k), name="C")
program = te.create_func("matmul", [A, B], [C])

model = Linear()
report = fettle.tune(program, space="template", cost_model=model, trials=16)
print(report, "from", len(model.rows), "measurements")
assert model.updates > 0 and model.weights is not None

# The built-in ones have the same two functions.
trees = fettle.cost_model("trees")
names = fettle.feature_names()
rows = [([float(i)] * len(names), 1e-3) for i in range(32)]
trees.update(rows, [1e-3 * (1 + i) for i in range(32)])
assert len(trees.predict(rows)) == 32
