"""Templates, sketches, strategies, cost models, runners and tuning, built in and written in Python."""

import math
import os
import sys
import tempfile
import types
import unittest
import unittest.mock

import numpy

import fettle
from fettle import sketch, te


def matmul(n=64):
    A, B = te.placeholder((n, n), name="A"), te.placeholder((n, n), name="B")
    k = te.reduce_axis(n, "k")
    C = te.compute((n, n), lambda y, x: te.sum(A[y, k] * B[k, x], axis=k), name="C")
    return te.create_func("matmul", [A, B], [C])


def matmul_relu(n=16):
    A, B = te.placeholder((n, n), name="A"), te.placeholder((n, n), name="B")
    k = te.reduce_axis(n, "k")
    C = te.compute((n, n), lambda i, j: te.sum(A[i, k] * B[k, j], axis=k), name="C")
    D = te.compute((n, n), lambda i, j: te.max_value(C[i, j], 0.0), name="D")
    return te.create_func("matmul_relu", [A, B], [D])


def integers(*shape):
    return numpy.random.default_rng(0).integers(-4, 5, shape).astype("float32")


@fettle.template
def tiled(t):
    s = t.schedule
    y, x, k = s.get_loops(s["C"])
    yo, yi = t.define_split("tile_y", y)
    xo, xi = t.define_split("tile_x", x, filter=lambda sizes: sizes[1] >= 2)
    s.reorder([yo, xo, k, yi, xi])
    t.define_annotate("notes", [yi, xi], policy="try_unroll_vectorize")
    t.define_knob("weight", [1, 5])
    t.constrain("small tiles", lambda v: v["tile_y"][1] * v["tile_x"][1] <= 64)


class TimedByLength(fettle.Runner):
    """Times that depend on nothing but the trace."""

    def __init__(self):
        self.measured = []

    def measure(self, traces):
        self.measured += traces
        return [1e-3 + 1e-6 * len(trace) for trace in traces]


class Refused(unittest.TestCase):
    def refused(self, code, fn, *args, **kwargs):
        with self.assertRaises(fettle.Error) as caught:
            fn(*args, **kwargs)
        self.assertEqual(caught.exception.code, code)
        return caught.exception


class Templates(Refused):
    def test_space(self):
        program = matmul()
        space = tiled.space(program)
        self.assertEqual({name: len(choices) for name, choices in space.knobs.items()},
                         {"tile_y": 7, "tile_x": 6, "notes": 6, "weight": 2})
        self.assertEqual(len(space), 7 * 6 * 6 * 2)
        # 2^a * 2^b <= 2^6 with a in 0 … 6 and b in 1 … 6
        self.assertEqual(space.count(), 21 * 6 * 2)
        self.assertEqual(len(space.allowed()), space.count())
        config = space[37]
        self.assertEqual(space.index_of(config.values), 37)
        allowed = space.allowed()[-1]
        self.assertEqual(space.find(space.decisions(allowed)).index, allowed)
        self.refused("E238", lambda: space[len(space)])
        self.refused("E238", lambda: space[-1])
        self.refused("E238", space.index_of, {"tile_y": [5, 5]})
        large = space.index_of({"tile_y": [1, 64], "tile_x": [1, 64], "notes": [0, 0], "weight": 1})
        self.assertIn("small tiles", str(self.refused("E238", space.apply, large)))
        self.assertEqual(space.fallback({"tile_y": [8, 8], "tile_x": [8, 8]})["tile_y"], [8, 8])
        a, b = integers(64, 64), integers(64, 64)
        for index in space.allowed()[::97]:
            numpy.testing.assert_array_equal(fettle.build(space.apply(index))(a, b), a @ b)

    def test_misuse(self):
        program = matmul()
        kept = []
        leaky = fettle.Template("leaky", lambda t: kept.append(t))
        leaky.space(program)
        self.refused("E709", kept[0].define_knob, "late", [1])
        self.refused("E709", lambda: kept[0].schedule.trace)
        twice = fettle.Template("twice", lambda t: (t.define_knob("a", [1]), t.define_knob("a", [2])))
        self.refused("E239", twice.space, program)
        self.refused("E237", fettle.Template("none", lambda t: t.define_knob("a", [])).space, program)
        self.assertRaises(ZeroDivisionError, fettle.Template("wrong", lambda t: 1 // 0).space, program)
        self.assertRaises(TypeError, fettle.Template, "no function", 3)
        self.refused("E241", fettle.Template("p", lambda t: t.define_split("a", t.schedule.get_loops(t.schedule["C"])[0],
                                                                         policy="magic")).space, program)

    def test_built_in(self):
        self.assertEqual(fettle.templates_for(matmul()), ["matmul", "master"])
        space = fettle.builtin_template("matmul").space(matmul())
        a, b = integers(64, 64), integers(64, 64)
        numpy.testing.assert_array_equal(fettle.build(space.apply(space.fallback()))(a, b), a @ b)
        self.refused("E709", fettle.builtin_template, "magic")


class Sketches(Refused):
    def test_derivation(self):
        program = matmul_relu()
        sketches = sketch.derive(program, cores=16)
        self.assertIn(["skip", "multi_level_tiling_with_fusion", "skip", "skip"], [s.derivation for s in sketches])
        a, b = integers(16, 16), integers(16, 16)
        for s in sketches[:3]:
            numpy.testing.assert_array_equal(fettle.build(s.instantiate(seed=1))(a, b), numpy.maximum(a @ b, 0))

    def test_own_rule(self):
        class Parallel(fettle.SketchRule):
            name = "parallel_outside"

            def applies(self, state):
                return not state.is_input and state.has_data_reuse()

            def apply(self, state):
                s = state.schedule()
                s.parallel(s.get_loops(s[state.node])[0])
                return [state.next(s)]

        found = sketch.derive(matmul_relu(), rules=[Parallel(), "skip"])
        self.assertIn("parallel_outside", [rule for s in found for rule in s.derivation])
        self.assertIn("parallel", found[0].instantiate().trace)

    def test_misuse(self):
        program = matmul_relu()
        kept = []

        class Keeps(fettle.SketchRule):
            name = "keeps"

            def apply(self, state):
                kept.append(state)
                return [state.next()]

        sketch.derive(program, rules=[Keeps()])
        self.refused("E709", kept[0].has_data_reuse)

        class Fails(Keeps):
            def apply(self, state):
                raise KeyError("oh")

        self.assertRaises(KeyError, sketch.derive, program, rules=[Fails()])

        class Refuses(Keeps):
            def apply(self, state):
                s = state.schedule()
                s.get_block("no such block")

        self.assertEqual(sketch.derive(program, rules=[Refuses()]), [])
        self.assertTrue(sketch.refusals(program, rules=[Refuses()]))

        class Stands(Keeps):
            def apply(self, state):
                return [state.next(working=state.working)]

        self.refused("E236", sketch.derive, program, rules=[Stands()], max_states=50)
        self.refused("E709", sketch.derive, program, rules=["magic"])


class Tuning(Refused):
    def test_on_this_machine(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "records.db")
            program = matmul()
            calls = []
            report = fettle.tune(program, trials=6, time=30, database=path, cost_model="prediction",
                                 progress=lambda *about: calls.append(about))
            self.assertGreaterEqual(report.trials, 6)
            self.assertGreater(report.best_s, 0)
            self.assertTrue(calls)
            a, b = integers(64, 64), integers(64, 64)
            numpy.testing.assert_array_equal(fettle.build(report.schedule())(a, b), a @ b)
            database = fettle.Database(path)
            self.assertGreaterEqual(len(database.records(program)), 6)
            best = database.best(program)
            numpy.testing.assert_array_equal(fettle.build(best)(a, b), a @ b)
            self.assertIsNone(database.best(matmul(32)))

    def test_every_pairing(self):
        program = matmul(16)
        self.assertEqual(fettle.spaces, ("rules", "ansor", "autotvm", "metaschedule", "polyhedral"))
        for space in (*fettle.spaces, "template", tiled):
            for strategy in fettle.strategies:
                if space in ("ansor", "metaschedule") and strategy in ("ansor", "metaschedule"):
                    continue  # generations, below: thousands of programs a batch
                report = fettle.tune(program, space=space, strategy=strategy, cost_model="prediction",
                                     runner=TimedByLength(), trials=8, batch=4)
                self.assertGreaterEqual(report.trials, 1, (space, strategy))
                self.assertTrue(report.best_trace is not None)

    def test_generations(self):
        self.assertEqual(fettle.generations, ("ansor", "autotvm", "metaschedule", "tensor_comprehensions"))
        program = matmul(16)
        for generation in fettle.generations:
            report = fettle.tune(program, generation=generation, runner=TimedByLength(), trials=4)
            self.assertGreaterEqual(report.trials, 1, generation)
        self.refused("E709", fettle.tune, program, generation="halide")
        self.refused("E709", fettle.tune, program, generation="ansor", strategy="random")
        self.refused("E709", fettle.tune, program, generation="ansor", space=tiled)
        self.refused("E709", fettle.tune, program, space="magic")
        self.refused("E709", fettle.tune, program, batch=0)

    def test_sketches_of_own_rules(self):
        met = []

        class Looks(fettle.SketchRule):
            name = "looks"

            def applies(self, state):
                met.append(state.node)
                return False

        space = fettle.Sketches(rules=[Looks(), *sketch.rules()])
        report = fettle.tune(matmul(16), space=space, strategy="random", cost_model="prediction", runner=TimedByLength(),
                             trials=4)
        self.assertGreaterEqual(report.trials, 4)
        self.assertIn("C", met)
        # The same rules, the same space: Ansor's.
        own = fettle.Sketches(rules=sketch.rules()).generate(matmul(16), seed=3)
        self.assertEqual(own.trace, fettle.space("ansor").generate(matmul(16), seed=3).trace)
        self.refused("E709", fettle.Sketches, rules=["magic"])

    def test_callbacks(self):
        program, records, copy = matmul(16), [], fettle.Database()
        model = fettle.cost_model("trees_alone")
        report = fettle.tune(program, runner=TimedByLength(), cost_model="prediction", trials=6,
                             callbacks=[records.append, fettle.add_to_database(copy),
                                        fettle.update_cost_model(model, batch=2)])
        self.assertGreaterEqual(len(records), report.trials)
        self.assertEqual([r["trace"] for r in records], [r["trace"] for r in copy.records(program)])

        def refuses(record):
            raise fettle.Error("E505", "no more")

        self.refused("E505", fettle.tune, program, runner=TimedByLength(), trials=2, callbacks=[refuses])
        with tempfile.TemporaryDirectory() as folder:
            for name in ("a", "b"):
                open(os.path.join(folder, name), "w").close()
            fettle.tune(program, runner=TimedByLength(), trials=1, callbacks=[fettle.remove_build_artefact(folder, most=1)])
            self.assertEqual(len(os.listdir(folder)), 1)

    def test_workload_equality(self):
        def scaled(factor):
            A = te.placeholder((8, 8), name="A")
            B = te.compute((8, 8), lambda i, j: A[i, j] * factor, name="B")
            return te.create_func("scaled", [A], [B])

        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "records.db")
            fettle.tune(scaled(2.0), database=path, trials=3, time="30s")
            self.assertIsNone(fettle.Database(path).best(scaled(3.0)))
            self.assertIsNotNone(fettle.Database(path, workload_equality="ignore-constants").best(scaled(3.0)))
            self.refused("E709", fettle.Database, path, workload_equality="magic")

    def test_layouts(self):
        # Two operators that are fastest in different layouts, and a conversion that costs more than it saves.
        nodes, edges = [[1.0, 3.0], [4.0, 1.0]], [(0, 1, [[0.0, 5.0], [5.0, 0.0]])]
        for method in ("pbqp", "dynamic_programming"):
            choices, cost, optimal = fettle.choose_layouts(nodes, edges, method)
            self.assertEqual((choices, cost, optimal), ([1, 1], 4.0, True))
        self.refused("E709", fettle.choose_layouts, nodes, edges, "magic")
        self.refused("E709", fettle.choose_layouts, nodes, [(0, 7, [[0.0]])])

    def test_algorithms_within_an_error_bound(self):
        X, W = te.placeholder((10, 10, 16), name="X"), te.placeholder((3, 3, 16, 16), name="W")
        r, q, c = te.reduce_axis((0, 3), "r"), te.reduce_axis((0, 3), "q"), te.reduce_axis((0, 16), "c")
        Y = te.compute((8, 8, 16), lambda h, w, o: te.sum(X[h + r, w + q, c] * W[r, q, c, o], axis=[r, q, c]), name="Y")
        program = te.create_func("conv", [X, W], [Y], constants=[W])

        def uses_winograd(max_error):
            database = fettle.Database()
            fettle.tune(program, runner=TimedByLength(), cost_model="prediction", trials=24, database=database,
                        max_error=max_error)
            return any('kind="winograd"' in record["trace"] for record in database.records(program))

        self.assertTrue(uses_winograd(math.inf))
        self.assertFalse(uses_winograd(100))

    def test_own_parts(self):
        class Spy(fettle.CostModel):
            rows = 0

            def update(self, rows, seconds):
                Spy.rows += len(rows)
                assert all(len(features) == len(fettle.feature_names()) for features, _ in rows)

            def predict(self, rows):
                return [-predicted for _, predicted in rows]

        class Twice(fettle.SearchStrategy):
            seen = []

            def propose(self, n):
                made = [self.bench.make({}, self.seed + i) for i in range(4 * n + len(self.bench))]
                made = [c for c in made if c]
                self.bench.predict(made)
                return made + made  # those that were proposed before are left out

            def observe(self, results):
                Twice.seen += [candidate.number for candidate, _ in results]

        runner = TimedByLength()
        report = fettle.tune(matmul(16), cost_model=Spy(), strategy=Twice, runner=runner, trials=12, batch=4)
        self.assertGreater(Spy.rows, 0)
        self.assertGreaterEqual(report.trials, 4)
        self.assertGreaterEqual(len(Twice.seen), 4)
        self.assertEqual(len(Twice.seen), len(set(Twice.seen)))

    def test_cost_models_by_name(self):
        program = matmul(32)
        space = fettle.builtin_template("matmul").space(program, "x86-64-avx512")
        numbers = space.allowed()[:40]
        for name in ("trees", "trees_rank", "mlp", "statements", "autotvm_knob", "autotvm_itervar_rank", "autotvm_curve"):
            rows = [fettle.features(space.apply(number), name) for number in numbers]
            self.assertEqual(len({workload for _, _, workload in rows}), 1)
            if "knob" not in name:
                self.assertEqual(len(rows[0][0]) % len(fettle.feature_names(name)), 0)
            model = fettle.cost_model(name, seed=1)
            seconds = [1e-3 * (1 + i % 7) for i in range(len(rows))]
            model.update(rows, seconds)
            self.assertEqual(len(model.predict(rows)), len(rows))
            with tempfile.TemporaryDirectory() as folder:
                model.save(folder + "/model")
                again = fettle.cost_model(name, seed=1)
                again.load(folder + "/model")
                self.assertEqual(again.predict(rows), model.predict(rows), name)
            if name.startswith("autotvm"):
                report = fettle.tune(program, space="template", strategy="annealing", cost_model=name,
                                     runner=TimedByLength(), trials=24, batch=8)
                self.assertGreater(report.trials, 8)

    def test_what_cost_models_refuse(self):
        self.assertRaises(fettle.Error, fettle.cost_model, "autotvm")
        self.assertRaises(fettle.Error, fettle.feature_names, "autotvm_knob")
        self.assertRaises(fettle.Error, fettle.features, fettle.Schedule(matmul(16)), "nothing")
        self.assertRaises(fettle.Error, fettle.features, fettle.Schedule(matmul(16)), threads=0)
        curves = fettle.cost_model("autotvm_curve")
        self.assertRaises(fettle.Error, curves.update, [([1.0, 2.0], 1e-3)], [1e-3])
        self.assertRaises(fettle.Error, fettle.cost_model("statements").predict, [([1.0, 2.0], 1e-3)])
        # Knobs of another template.
        knobs = fettle.cost_model("autotvm_knob")
        knobs.update([([1.0, float(i)], 1e-3, 1) for i in range(10)], [1e-3 + 1e-5 * i for i in range(10)])
        with tempfile.TemporaryDirectory() as folder:
            knobs.save(folder + "/knobs")
            knobs.load(folder + "/knobs")
        with self.assertRaises(fettle.Error) as refused:
            knobs.update([([1.0, 2.0, float(i)], 1e-3, 2) for i in range(8)], [1e-3] * 8)
        self.assertEqual(refused.exception.code, "E709")

    def test_same_seed_same_candidates(self):
        def run():
            runner = TimedByLength()
            fettle.tune(matmul(32), runner=runner, cost_model="prediction", trials=12, seed=5)
            return runner.measured

        self.assertEqual(run(), run())

    def test_exceptions_reach_the_caller(self):
        def raising(what, **parts):
            self.assertRaises(what, fettle.tune, matmul(16), trials=4, runner=parts.pop("runner", TimedByLength()), **parts)

        class Broken(fettle.CostModel):
            def predict(self, rows):
                raise KeyError("model")

        class Short(fettle.CostModel):
            def predict(self, rows):
                return []

        class Lost(fettle.Runner):
            def measure(self, traces):
                raise OSError("board is gone")

        class Miscounts(fettle.Runner):
            def measure(self, traces):
                return [1.0] * (len(traces) + 1)

        class Nothing(fettle.SearchStrategy):
            def propose(self, n):
                return [3]

        raising(KeyError, cost_model=Broken())
        raising(fettle.Error, cost_model=Short())
        raising(OSError, runner=Lost())
        raising(fettle.Error, runner=Miscounts())
        raising(TypeError, strategy=Nothing)
        raising(TypeError, strategy=3)
        raising(fettle.Error, strategy="magic")
        raising(fettle.Error, space="magic")
        raising(TypeError, space=3)
        raising(TypeError, runner=3)
        raising(fettle.Error, threads=0)

    def test_failed_candidates(self):
        class Half(fettle.Runner):
            """Every other program crashes, however often it is asked for."""
            known = {}

            def measure(self, traces):
                crashes = [Half.known.setdefault(str(trace), len(Half.known) % 2 == 0) for trace in traces]
                return [fettle.MeasureResult(error="E403", message="crashed") if crash else 1e-3 for crash in crashes]

        report = fettle.tune(matmul(16), runner=Half(), trials=8)
        self.assertGreater(report.failed, 0)
        self.refused("E709", fettle.MeasureResult, math.inf)
        self.refused("E709", fettle.MeasureResult, error="E201")

    def test_runner_by_itself(self):
        runner = fettle.LocalRunner()
        program = matmul(32)
        runner.set_workload(program)
        good, = runner.measure([fettle.default_schedule(program).trace], check=True)
        self.assertTrue(good.ok and good.checked, good)
        beside, = runner.measure([fettle.default_schedule(program).trace], beside=fettle.default_schedule(program).trace,
                                 beside_s=100.0)
        self.assertTrue(beside.ok and beside.beside, beside)
        self.assertGreater(beside.median_s, 10)
        self.assertLess(beside.pace, 0.1)
        self.refused("E709", runner.measure, [], beside="no time")
        bad, = runner.measure(["no trace"])
        self.assertEqual(bad.error, "E401")
        self.assertEqual(runner.failures(), {"E401": 1})


class Models(Refused):
    def test_onnx(self):
        import onnx
        from onnx import TensorProto, helper
        node = helper.make_node("Relu", ["x"], ["y"])
        graph = helper.make_graph([node], "relu", [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 3])],
                                  [helper.make_tensor_value_info("y", TensorProto.FLOAT, [2, 3])])
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "relu.onnx")
            onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), path)
            model = fettle.compile(path)
            x = integers(2, 3)
            numpy.testing.assert_array_equal(model.run(x=x)["y"], numpy.maximum(x, 0))
            self.refused("E704", model.run)
            self.refused("E705", model.run, x=x.astype("float64"))
        self.refused("E601", fettle.compile, "no such file.onnx")

    def test_sums_of_halves_are_rounded_once(self):
        import onnx
        from onnx import TensorProto, helper
        half = TensorProto.FLOAT16
        # Halves have eleven digits: a sum of ones in halves ends at 2048.
        nodes = {"ReduceSum": ([[1, 5000]], {"keepdims": 1}), "MatMul": ([[1, 5000], [5000, 1]], {}),
                 "Gemm": ([[1, 5000], [5000, 1]], {}), "Conv": ([[1, 1250, 2, 2], [1, 1250, 2, 2]], {})}
        with tempfile.TemporaryDirectory() as folder:
            for op, (shapes, attributes) in nodes.items():
                names = [f"x{i}" for i in range(len(shapes))]
                graph = helper.make_graph([helper.make_node(op, names, ["y"], **attributes)], op,
                                          [helper.make_tensor_value_info(n, half, s) for n, s in zip(names, shapes)],
                                          [helper.make_tensor_value_info("y", half, None)])
                path = os.path.join(folder, op + ".onnx")
                onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), path)
                ones = {n: numpy.ones(s, numpy.float16) for n, s in zip(names, shapes)}
                self.assertEqual(fettle.compile(path).run(**ones)["y"].ravel(), [5000], op)

    def test_indices_outside_of_the_data(self):
        import onnx
        from onnx import TensorProto, helper, numpy_helper
        rows = integers(10, 40)
        graph = helper.make_graph([helper.make_node("Gather", ["w", "x"], ["y"])], "rows",
                                  [helper.make_tensor_value_info("x", TensorProto.INT64, [5])],
                                  [helper.make_tensor_value_info("y", TensorProto.FLOAT, [5, 40])],
                                  [numpy_helper.from_array(rows, "w")])
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "rows.onnx")
            onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), path)
            x = numpy.array([3, -1, 9, 10**12, -10**12])
            numpy.testing.assert_array_equal(fettle.compile(path).run(x=x)["y"], rows[[3, 9, 9, 9, 0]])


class Kernel:
    """What a notebook's display has been told."""

    def __init__(self):
        self.shown = []

    def display(self, data, raw, display_id):
        assert raw and display_id
        self.shown.append(data)
        return self

    def update(self, data, raw):
        assert raw
        self.shown.append(data)


class TunedModels(unittest.TestCase):
    def graph(self):
        g = fettle.Graph("product")
        x = g.input("x", "float32", [32, 64])
        g.output("y", g.Relu(x @ numpy.ones((64, 48), "float32")))
        return g

    def test_a_model_is_tuned(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "records.db")
            tuning = fettle.tune(self.graph(), trials=6, threads=1, database=path)
            events = list(tuning)
            self.assertTrue(events)
            self.assertEqual(events[-1].trials, max(event.trials for event in events))
            self.assertGreater(events[-1].best_s, 0)
            self.assertEqual([e.elapsed_s for e in events], sorted(e.elapsed_s for e in events))
            report = tuning.result()
            self.assertFalse(report.interrupted)
            self.assertGreaterEqual(report.trials, 6)
            self.assertEqual(len(report.tasks), 1)
            self.assertGreater(report.tuned_ms, 0)
            self.assertIn("MatMul", report._repr_html_())
            self.assertTrue(os.path.exists(path))
            x = numpy.ones((32, 64), "float32")
            for database in path, "":
                made = fettle.compile(self.graph(), threads=1, database=database)(x)
                numpy.testing.assert_array_equal(made, numpy.full((32, 48), 64))

    @unittest.skipIf(fettle.Target().threads < 2, "one thread cannot be shared")
    def test_a_model_is_tuned_for_calls_at_once(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "records.db")
            report = fettle.tune(self.graph(), trials=4, streams=2, threads=1, database=path).result(progress=False)
            self.assertEqual(report.streams, 2)
            self.assertAlmostEqual(report.runs_per_second, 2000 / report.tuned_ms)
            self.assertIn("2 streams", repr(report))
            made = fettle.compile(self.graph(), streams=2, threads=1, database=path, cache=False)
            x = numpy.ones((32, 64), "float32")
            numpy.testing.assert_array_equal(made(x), numpy.full((32, 48), 64))
            of_one = fettle.tune(self.graph(), trials=1, threads=1, database=path).result(progress=False)
            self.assertEqual(of_one.measured, 1, "records of two calls at once are none of one's")

    @unittest.skipIf(fettle.Target().threads < 2, "one thread cannot be shared")
    def test_a_program_is_tuned_for_calls_at_once(self):
        target = fettle.Target(threads=1, streams=2)
        self.assertEqual((target.threads, target.streams), (1, 2))
        report = fettle.tune(matmul(16), target, trials=3)
        self.assertEqual(report.failed, 0)

    def test_a_notebook_shows_how_far_it_is(self):
        kernel, shell = Kernel(), types.ModuleType("IPython")
        shell.get_ipython = lambda: types.SimpleNamespace(kernel=kernel)
        shell.display = types.ModuleType("IPython.display")
        shell.display.display = kernel.display
        modules = {"IPython": shell, "IPython.display": shell.display}
        with tempfile.TemporaryDirectory() as folder, unittest.mock.patch.dict(sys.modules, modules):
            path = os.path.join(folder, "records.db")
            fettle.tune(self.graph(), trials=2, threads=1, database=path).result()
            self.assertEqual(kernel.shown[0], {"text/plain": ""})
            self.assertRegex(kernel.shown[-1]["text/plain"], r"^\d+ s.*: \d+ trials, 0 failed; .* us, untuned .* us; ")
            shown = len(kernel.shown)
            fettle.tune(self.graph(), trials=2, threads=1, database=path).result(progress=False)
            self.assertEqual(len(kernel.shown), shown)

    def test_it_is_stopped_and_keeps_what_there_is(self):
        with tempfile.TemporaryDirectory() as folder:
            tuning = fettle.tune(self.graph(), time="1h", threads=1, database=os.path.join(folder, "records.db"))
            for event in tuning:
                if event.trials >= 2:
                    tuning.stop()
            report = tuning.result()
            self.assertTrue(report.interrupted)
            self.assertRegex(repr(report), r"<ModelReport \d+ trials, interrupted>")
            self.assertGreaterEqual(report.trials, 2)
            again = fettle.tune(self.graph(), trials=2, threads=1, database=os.path.join(folder, "records.db")).result()
            self.assertEqual(again.measured, 0)  # known

    def test_it_says_where_nothing_was_gained(self):
        with tempfile.TemporaryDirectory() as folder:  # the first trial of a task is its default
            report = fettle.tune(self.graph(), trials=1, threads=1, database=os.path.join(folder, "records.db")).result()
            self.assertEqual((report.other_schedules, report.tuned_ms), (0, report.untuned_ms))
            self.assertIn("nothing is faster than the defaults", repr(report))
            self.assertIn("nothing is faster than the defaults", report._repr_html_())

    def test_functions_of_python_do_not_end_the_process(self):
        @fettle.operator("com.example.Unfit", pointwise=True)
        def unfit(x):
            if x.shape == (7,):
                raise ValueError("seven is too many")
            return te.compute(x.shape, lambda i: x[i] + 1.0, name="unfit")

        for extent in 7, 6:
            g = fettle.Graph()
            g.output("y", g.node("Unfit", [g.input("x", "float32", [extent])], domain="com.example"))
            with tempfile.TemporaryDirectory() as folder:
                tuning = fettle.tune(g, trials=2, threads=1, database=os.path.join(folder, "records.db"))
                if extent == 7:
                    self.assertRaisesRegex(fettle.Error, "seven is too many", tuning.result)
                else:
                    self.assertEqual(len(tuning.result().tasks), 1)

    def test_what_is_wrong_is_said(self):
        refused = lambda code, text, **options: self.assertRaisesRegex(fettle.Error, f"{code}.*{text}", fettle.tune, self.graph(), **options)
        refused("E709", "database is missing")
        refused("E709", "no duration", database="x.db", time="5 parsecs")
        refused("E709", "space is for programs", database="x.db", space="rules")
        refused("E709", "streams are 1", database="x.db", streams=-1)
        refused("E709", "need 2000", database="x.db", streams=2, threads=1000)
        self.assertRaisesRegex(fettle.Error, "E709.*streams are 1", fettle.compile, self.graph(), streams=-1)
        self.assertRaisesRegex(fettle.Error, "E709.*are for models", fettle.tune, matmul(8), streams=2)
        self.assertRaisesRegex(fettle.Error, "E709.*one stream at least", fettle.Target, "host", 1, 0)
        with tempfile.TemporaryDirectory() as folder:
            tuning = fettle.tune("no such.onnx", database=os.path.join(folder, "x.db"))
            self.assertRaisesRegex(fettle.Error, "E601", tuning.result)


if __name__ == "__main__":
    unittest.main()
