"""A runner of one's own: candidates are built in this process and timed by a rule of one's own.

A runner for a board would send `self.func` and the traces to it. Here each trace is replayed, compiled and called; the time of a
candidate is the least of ten calls. What does not build is a failed candidate, not the end of the search.
"""

import time

import numpy

import fettle
from fettle import te


class InThisProcess(fettle.Runner):
    def __init__(self, inputs):
        self.inputs = [fettle.aligned(array) for array in inputs]
        self.built = 0

    def time(self, trace):
        schedule = fettle.Schedule(self.func)
        schedule.replay(trace)
        kernel = fettle.build(schedule)
        self.built += 1
        kernel(*self.inputs)
        times = []
        for _ in range(10):
            start = time.perf_counter()
            kernel(*self.inputs)
            times.append(time.perf_counter() - start)
        return min(times)

    def measure(self, traces):
        results = []
        for trace in traces:
            try:
                results.append(fettle.MeasureResult(self.time(trace)))
            except fettle.Error as error:
                results.append(fettle.MeasureResult(error="E401", message=str(error)))
        return results


A, B = te.placeholder((64, 64), name="A"), te.placeholder((64, 64), name="B")
k = te.reduce_axis(64, "k")
C = te.compute((64, 64), lambda i, j: te.sum(A[i, k] * B[k, j], axis=k), name="C")
program = te.create_func("matmul", [A, B], [C])

a = numpy.random.default_rng(0).integers(-4, 5, (64, 64)).astype("float32")
b = numpy.random.default_rng(1).integers(-4, 5, (64, 64)).astype("float32")
runner = InThisProcess([a, b])
report = fettle.tune(program, runner=runner, trials=8)
print(report, "after", runner.built, "builds")
assert runner.built >= 8
numpy.testing.assert_array_equal(fettle.build(report.schedule())(a, b), a @ b)
