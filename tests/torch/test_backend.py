"""torch.compile(backend="fettle"): results, what is left to torch, and weights that change."""

import os
import unittest

import torch
from torch.nn import functional as F

from fettle_torch import close, compiled, statistics


class Small(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.norm, self.second = torch.nn.Linear(8, 16), torch.nn.LayerNorm(16), torch.nn.Linear(16, 4)

    def forward(self, x):
        return self.second(self.norm(F.gelu(self.first(x))))


class Backend(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(0)
        torch._dynamo.reset()
        statistics.reset()

    def same(self, function, *args, **options):
        with torch.no_grad():
            got, wanted = compiled(function, **options)(*args), function(*args)
        close(self, got, wanted)
        return got

    def test_torch_finds_it(self):
        self.assertIn("fettle", torch._dynamo.list_backends())

    def test_a_model_is_one_compiled_graph(self):
        self.same(Small().eval(), torch.randn(3, 8))
        self.assertEqual(statistics.compiled, 1)
        self.assertEqual(statistics.refused, {})

    def test_types_are_promoted_as_torch_does(self):
        integers, floats = torch.arange(6).reshape(2, 3), torch.randn(2, 3)
        got = self.same(lambda i, f: (i + f, i / 2, i > 1.5, i * True, f.to(torch.bfloat16) + i, torch.exp(i)), integers, floats)
        self.assertEqual([t.dtype for t in got],
                         [torch.float32, torch.float32, torch.bool, torch.int64, torch.bfloat16, torch.float32])  # fmt: skip

    def test_nan_goes_where_torch_has_it(self):
        x = torch.tensor([float("nan"), float("inf"), -float("inf"), -0.0, 2.5, -2.5])
        self.same(lambda x: (F.relu(x), x.clamp(-1, 1), torch.maximum(x, x.flip(0)), torch.round(x), torch.sign(x), x.amax(),
                             x.max(), torch.log1p(x), torch.expm1(x), torch.fmax(x, x.flip(0))), x)  # fmt: skip

    def test_a_search_in_what_a_sorter_orders(self):
        x, keys = torch.tensor([[5.0, 1.0, 3.0], [2.0, 6.0, 4.0]]), torch.tensor([[0.0, 3.0], [4.0, 9.0]])
        sorter = x.argsort()
        self.same(lambda x, keys, sorter: (torch.searchsorted(x, keys, sorter=sorter),
                                           torch.searchsorted(x, keys, sorter=sorter, right=True)), x, keys, sorter)  # fmt: skip
        self.assertEqual(statistics.refused, {})

    def test_nan_is_the_largest_when_sorted(self):
        x = torch.tensor([3.0, float("nan"), 1.0, 2.0])
        self.same(lambda x: (torch.sort(x), torch.sort(x, descending=True), torch.topk(x, 2), torch.argmax(x), x.max(0), x.median(),
                             x.kthvalue(2)), x)  # fmt: skip

    def test_quotients_and_remainders_have_torchs_signs(self):
        x, y = torch.tensor([7, -7, 7, -7, 0]), torch.tensor([3, 3, -3, -3, 5])
        self.same(lambda x, y: (x // y, x % y, torch.fmod(x, y), torch.div(x, y, rounding_mode="trunc")), x, y)
        self.same(lambda x, y: (x // y, x % y, torch.fmod(x, y), torch.div(x, y, rounding_mode="floor")), x / 2, y / 3)

    def test_results_keep_their_strides(self):
        got = self.same(lambda x: torch.relu(x).permute(2, 0, 1), torch.randn(3, 4, 5))
        self.assertEqual(got.stride(), torch.randn(3, 4, 5).permute(2, 0, 1).stride())

    def test_inputs_of_any_strides(self):
        x = torch.randn(6, 5, 4)
        self.same(lambda x: torch.exp(x) + 1, x.permute(2, 0, 1)[:, ::2])
        self.same(lambda x: torch.exp(x) + 1, x[:1, :1, 0].expand(3, 4))

    def test_results_without_elements(self):
        self.same(lambda x: (x[:0] * 2, torch.zeros(3, 0), x + 1), torch.randn(4, 2))

    def test_constants_in_the_code(self):
        self.same(lambda x: torch.where(x > 0, x, torch.tensor(2.0)) + torch.tensor([1.0, 2.0]), torch.randn(4, 2))

    def test_views_of_memory(self):
        self.same(lambda x: (x.permute(1, 0, 2).contiguous().as_strided((2, 3), (1, 4)), x.unfold(1, 2, 1) * 2), torch.randn(3, 4, 2))

    def test_masks_as_indices(self):
        def function(x, mask, values):
            x = x.clone()
            x[mask] = values
            y = x.clone()
            y[mask] = 0
            return x, y

        self.same(function, torch.randn(3, 4), torch.tensor([True, False, True]), torch.randn(2, 4))

    def test_an_input_is_changed_in_place(self):
        def function(x):
            x.mul_(2)
            return x + 1

        with torch.no_grad():
            x, y = torch.ones(4), torch.ones(4)
            close(self, compiled(function)(x), function(y))
            close(self, x, y)

    def test_what_is_not_known_is_left_to_torch(self):
        def function(x):
            return torch.relu(torch.special.zeta(torch.relu(x) + 2, 1) * 2) + 1

        self.same(function, torch.randn(5, 5))
        self.assertEqual(statistics.compiled, 2)  # before and after
        (reason,) = [reason for reason in statistics.refused if "zeta" in reason]
        self.assertEqual(reason, "prims.zeta.default: not known to Fettle")

    def test_strict_names_what_is_not_known(self):
        with self.assertRaisesRegex(Exception, "prims.zeta.default: not known to Fettle"):
            compiled(lambda x: torch.special.zeta(x + 2, 1) + 1, options={"strict": True})(torch.randn(5, 5))

    def test_random_numbers_are_torchs(self):
        def function(x):
            return F.dropout(torch.relu(x) + 1, 0.5) * 2 + torch.rand(3)

        x = torch.randn(4, 3)
        with torch.no_grad():
            call = compiled(function)
            call(x)
            torch.manual_seed(1)
            got = call(x)
            torch.manual_seed(1)
            close(self, got, function(x))

    def test_indices_outside_are_errors_as_in_eager_mode(self):
        table, good = torch.randn(10, 4), torch.tensor([1, 9])
        lookups = (
            (lambda t, i: F.embedding(i, t) + 1, [10, -1]),
            (lambda t, i: t[i] * 2, [10, -11]),
            (lambda t, i: t.index_select(0, i) + 1, [10, -1]),
            (lambda t, i: t.gather(0, i[:, None]) + 1, [10, -1]),
            (lambda t, i: t.index_add(0, i, t[:2]) + 1, [10, -1]),
            (lambda t, i: t.scatter(0, i[:, None], 1.0) + 1, [10, -1]),
        )
        for lookup, outside in lookups:
            torch._dynamo.reset()
            call = compiled(lookup)
            close(self, call(table, good), lookup(table, good))
            for place in outside:
                with self.assertRaisesRegex(IndexError, "lies outside of an axis of 10"):
                    call(table, torch.tensor([1, place]))
        self.same(lambda t, i: t[i] + 1, table, torch.tensor([-10, -1]))

    def test_no_indices_are_no_error(self):
        self.same(lambda t, i: t[i] + 1, torch.randn(10, 4), torch.zeros(0, dtype=torch.int64))

    def test_views_of_inputs_and_of_results_are_views(self):
        def function(x):
            y = x + 1
            return x[x.shape[0] // 2 :], x.T, y, y[1:, ::2], x.chunk(2)[1]

        for dynamic in (False, True):
            for rows in (6, 8):
                x = torch.randn(rows, 4)
                got = self.same(function, x, dynamic=dynamic)
                self.assertEqual([t.storage_offset() for t in got], [t.storage_offset() for t in function(x)])
                self.assertEqual(got[0].data_ptr(), x[rows // 2 :].data_ptr())
                self.assertEqual([t.stride() for t in got], [t.stride() for t in function(x)])

    def test_sizes_that_data_tell(self):
        def function(x, n):
            return torch.nonzero(x), x[0].narrow(0, n, 2) * 2, torch.cummax(x, 1), torch.nonzero_static(x > 0, size=9)

        x = torch.tensor([[1.0, 0, -2, 3], [0, 0, 5, 5]])
        with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True, capture_scalar_outputs=True):
            for start in (0, 2):
                self.same(function, x, torch.tensor(start), fullgraph=True)

    def test_whole_numbers_are_not_divided_by_zero(self):
        call = compiled(lambda x, y: (x // y, x % y))
        close(self, call(torch.tensor([5, -7]), torch.tensor([2, 2])), (torch.tensor([2, -4]), torch.tensor([1, 1])))
        with self.assertRaisesRegex(RuntimeError, "ZeroDivisionError"):
            call(torch.tensor([5, -7]), torch.tensor([2, 0]))

    def test_torchs_own_threads_are_used(self):
        before = torch.get_num_threads()
        self.addCleanup(torch.set_num_threads, before)
        torch.set_num_threads(3)
        x, y = torch.randn(512, 512), torch.randn(512, 512)
        expected = torch.relu(x @ y)
        threads = len(os.listdir("/proc/self/task"))
        self.assertGreaterEqual(threads, 3)
        call = torch.compile(lambda x, y: torch.relu(x @ y), backend="fettle", dynamic=False)
        for count in (3, 1, 2):  # as many as torch has when it is called
            torch.set_num_threads(count)
            torch.testing.assert_close(call(x, y), expected, rtol=1e-4, atol=1e-4)
            self.assertLessEqual(len(os.listdir("/proc/self/task")), threads)

    def test_threads_of_its_own_where_their_number_is_given(self):
        x = torch.randn(256, 256)
        threads = len(os.listdir("/proc/self/task"))
        options = {"threads": 3, "compile": {"cache": False}}
        call = torch.compile(lambda x: torch.relu(x @ x), backend="fettle", dynamic=False, options=options)
        torch.testing.assert_close(call(x), torch.relu(x @ x), rtol=1e-4, atol=1e-4)
        self.assertEqual(len(os.listdir("/proc/self/task")), threads + 2)

    def test_an_unknown_option_is_an_error(self):
        with self.assertRaisesRegex(Exception, "thread_count"):
            compiled(torch.relu, options={"thread_count": 2})(torch.randn(3))


class Weights(unittest.TestCase):
    """Weights become constants; whatever changes them is seen."""

    def setUp(self):
        torch.manual_seed(0)
        torch._dynamo.reset()
        statistics.reset()
        self.model, self.x = Small().eval(), torch.randn(3, 8)
        self.compiled = compiled(self.model)

    def check(self):
        with torch.no_grad():
            close(self, self.compiled(self.x), self.model(self.x))

    def test_written_in_place(self):
        self.check()
        with torch.no_grad():
            self.model.first.weight.add_(1)
        self.check()
        self.assertEqual(statistics.compiled, 2)

    def test_loaded(self):
        self.check()
        self.model.load_state_dict(Small().state_dict())
        self.check()

    def test_replaced(self):
        self.check()
        self.model.first.weight = torch.nn.Parameter(torch.randn(16, 8))
        self.check()

    def test_given_other_memory(self):
        self.check()
        self.model.first.weight.data = torch.randn(16, 8)
        self.check()

    def test_that_change_all_the_time_are_inputs(self):
        for _ in range(6):
            self.check()
            with torch.no_grad():
                self.model.first.weight.add_(1)
        self.assertEqual(statistics.compiled, 3)

    def test_are_not_frozen_where_that_is_said(self):
        self.compiled = compiled(self.model, options={"freeze": False})
        self.check()
        with torch.no_grad():
            self.model.first.weight.add_(1)
        self.check()
        self.assertEqual(statistics.compiled, 1)


if __name__ == "__main__":
    unittest.main()
