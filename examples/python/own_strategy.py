"""A search strategy of one's own: successive mutation of the best with a falling number of changed decisions."""

import random

import fettle
from fettle import te


class Narrowing(fettle.SearchStrategy):
    def __init__(self, bench, seed):
        super().__init__(bench, seed)
        self.random = random.Random(seed)
        self.best, self.best_s = None, float("inf")
        self.key = 0
        self.observed = 0

    def make(self, decisions):
        self.key += 1
        return self.bench.make(decisions, self.seed + self.key)

    def propose(self, n):
        if self.best is None:
            made = [self.make({}) for _ in range(8 * n)]
        else:
            made = []
            for _ in range(8 * n):
                addresses = list(self.best.decisions)
                forgotten = self.random.sample(addresses, max(1, len(addresses) * 4 // (4 + self.observed)))
                made.append(self.make({a: d for a, d in self.best.decisions.items() if a not in forgotten}))
        made = [c for c in made if c is not None]
        ranked = sorted(zip(self.bench.predict(made), range(len(made))))
        return [made[i] for _, i in ranked]  # more than n: the first that are new are taken

    def observe(self, results):
        for candidate, seconds in results:
            self.observed += 1
            if seconds < self.best_s:
                self.best, self.best_s = candidate, seconds


A, B = te.placeholder((64, 64), name="A"), te.placeholder((64, 64), name="B")
k = te.reduce_axis(64, "k")
C = te.compute((64, 64), lambda i, j: te.sum(A[i, k] * B[k, j], axis=k), name="C")
program = te.create_func("matmul", [A, B], [C])

report = fettle.tune(program, space="template", strategy=Narrowing, trials=16)
print(report, report.decisions)
assert report.trials >= 8 and report.best_s <= report.default_s
