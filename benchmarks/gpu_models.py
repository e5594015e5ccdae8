#!/usr/bin/env python3
"""Runs compiled models whose kernels run on a GPU: compares their outputs with given ones, and times calls.

usage: gpu_models.py MODEL.so [--size NAME=N]… [--reference REF.npz] [--save REF.npz] [--seconds S] [--profile N] [--json OUT.json]
  REF.npz: inputs under "in.NAME", outputs under "out.NAME"; without it inputs are random
  --size: what an open size is in random inputs, 1 where it is not given
Times are medians of single calls: of tensors on the host, and, where PyTorch finds the GPU, of tensors there ("in place"), which
the call uses as they are; --no-graphs times launches one by one. Prints a line a model; exit status 1 where outputs differ.
"""

import argparse
import ctypes
import json
import pathlib
import statistics
import sys
import time

import numpy as np
from model_structs import ABI_VERSION, Options, Tensor

DTYPES = {1: np.bool_, 2: np.int8, 3: np.uint8, 4: np.int16, 5: np.uint16, 6: np.int32, 7: np.uint32, 8: np.int64,
          9: np.uint64, 10: np.float16, 12: np.float32, 13: np.float64}
CPU = 1


class Info(ctypes.Structure):  # as far as it is needed
    _fields_ = [("magic", ctypes.c_uint32), ("abi_version", ctypes.c_uint32), ("struct_bytes", ctypes.c_uint32),
                ("default_threads", ctypes.c_int32), ("name", ctypes.c_char_p), ("compiler", ctypes.c_char_p),
                ("target_cpu", ctypes.c_char_p), ("target_features", ctypes.c_char_p),
                ("inputs", ctypes.POINTER(Tensor)), ("outputs", ctypes.POINTER(Tensor)), ("states", ctypes.c_void_p),
                ("kernel_names", ctypes.POINTER(ctypes.c_char_p)), ("kernel_origins", ctypes.c_void_p),
                ("constants", ctypes.c_void_p), ("size_errors", ctypes.c_void_p), ("n_inputs", ctypes.c_int32),
                ("n_outputs", ctypes.c_int32), ("n_states", ctypes.c_int32), ("n_kernels", ctypes.c_int32)]


HOOK = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int32, ctypes.c_int64, ctypes.c_int64)


class Model:
    def __init__(self, path, no_graphs=False):
        self.library = ctypes.CDLL(str(pathlib.Path(path).resolve()))
        get = lambda name, result, *args: self._function("fettle_model_" + name, result, args)
        self.info = get("info", ctypes.POINTER(Info))().contents
        options = Options(struct_bytes=ctypes.sizeof(Options), no_graphs=int(no_graphs))
        self._run = get("run", ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)
        self._error = get("error", ctypes.c_char_p, ctypes.c_void_p)
        self._profile = get("profile", None, ctypes.c_void_p, HOOK, ctypes.c_void_p)
        self.model = get("open", ctypes.c_void_p, ctypes.c_uint32, ctypes.c_void_p)(ABI_VERSION, ctypes.byref(options))
        if not self.model:
            raise RuntimeError(self._error(None).decode())
        self.context = get("create_context", ctypes.c_void_p, ctypes.c_void_p)(self.model)
        if not self.context:
            raise RuntimeError(self._error(None).decode())
        self.inputs = [self.info.inputs[i] for i in range(self.info.n_inputs)]
        self.outputs = [self.info.outputs[i] for i in range(self.info.n_outputs)]

    def _function(self, name, result, args):
        function = getattr(self.library, name)
        function.restype, function.argtypes = result, args
        return function

    def describe(self, described, data, shape, device=CPU):
        made = Tensor.from_buffer_copy(described)
        made.device, made.data = device, data
        made.shape = (ctypes.c_int64 * len(shape))(*shape)
        return made

    def shape(self, described):
        return [described.shape[d] for d in range(described.rank)]

    def open_sizes(self):
        """Names of the dims that inputs leave open."""
        named = [x.axis_names[d].decode() for x in self.inputs if x.axis_names for d in range(x.rank)
                 if x.shape[d] < 0 and x.axis_names[d]]
        return sorted(set(named))

    def chosen_shape(self, described, sizes):
        shape = self.shape(described)
        for d, extent in enumerate(shape):
            name = described.axis_names[d] if described.axis_names else None
            if extent < 0:
                shape[d] = sizes.get(name.decode() if name else "", 1)
        return shape

    def random(self, sizes, seed=0):
        rng = np.random.default_rng(seed)
        made = {}
        for x in self.inputs:
            shape, dtype = self.chosen_shape(x, sizes), DTYPES[x.dtype]
            # Small enough to be an index of anything, as of the kinds of tokens.
            integers = np.issubdtype(dtype, np.integer)
            made[x.name.decode()] = (rng.integers(0, 2, shape) if integers else rng.standard_normal(shape)).astype(dtype)
        return made

    def call(self, inputs, outputs):
        status = self._run(self.context, inputs, outputs)
        if status != 0:
            raise RuntimeError(f"status {status}: {self._error(self.context).decode()}")

    def run(self, given):
        """Arrays of the host's, by name."""
        arrays = [np.ascontiguousarray(given[x.name.decode()]) for x in self.inputs]
        inputs = (Tensor * len(arrays))(*[self.describe(x, a.ctypes.data, a.shape) for x, a in zip(self.inputs, arrays)])
        outputs = (Tensor * len(self.outputs))(*[self.describe(y, None, self.shape(y)) for y in self.outputs])
        self.call(inputs, outputs)
        made = {}
        for y in outputs:
            shape = self.shape(y)
            count = int(np.prod(shape, dtype=np.int64))
            bytes_ = ctypes.string_at(y.data, count * np.dtype(DTYPES[y.dtype]).itemsize)
            made[y.name.decode()] = np.frombuffer(bytes_, DTYPES[y.dtype]).reshape(shape)
        return made, lambda: self.call(inputs, outputs)

    def in_place(self, given, made, torch):
        """A call on tensors on the GPU, and its outputs there, which are as large as those in `made`."""
        device = 2
        xs = [torch.from_numpy(np.ascontiguousarray(given[x.name.decode()])).cuda() for x in self.inputs]
        ys = [torch.empty(made[y.name.decode()].shape, dtype=torch.from_numpy(np.zeros(1, DTYPES[y.dtype])).dtype, device="cuda")
              for y in self.outputs]
        torch.cuda.synchronize()
        inputs = (Tensor * len(xs))(*[self.describe(d, x.data_ptr(), x.shape, device) for d, x in zip(self.inputs, xs)])
        outputs = (Tensor * len(ys))(*[self.describe(d, y.data_ptr(), y.shape, device) for d, y in zip(self.outputs, ys)])
        run = lambda: self.call(inputs, outputs)
        run.kept = (xs, ys)
        return run, {d.name.decode(): y for d, y in zip(self.outputs, ys)}

    def kernel_times(self, run, rounds):
        """Microseconds of each kernel, its launch and the wait for it, the least of some calls."""
        least = [float("inf")] * self.info.n_kernels

        def told(_, kernel, begin, end):
            least[kernel] = min(least[kernel], (end - begin) / 1e3)

        hook = HOOK(told)
        self._profile(self.context, hook, None)
        for _ in range(rounds):
            run()
        self._profile(self.context, HOOK(), None)
        return sorted(((us, self.info.kernel_names[k].decode()) for k, us in enumerate(least)), reverse=True)


def median_ms(run, seconds):
    for _ in range(5):
        run()
    times, end = [], time.perf_counter() + seconds
    while time.perf_counter() < end or len(times) < 10:
        begin = time.perf_counter()
        run()
        times.append(time.perf_counter() - begin)
    return statistics.median(times) * 1e3


def difference(expected, made):
    """The largest difference beside the largest value; NaN counts as infinity."""
    a, b = expected.astype(np.float64), made.astype(np.float64)
    if a.shape != b.shape or np.isnan(b).any():
        return float("inf")
    return float(np.abs(a - b).max() / max(np.abs(a).max(), 1e-30)) if a.size else 0.0


class Sizes(argparse.Action):
    def __call__(self, parser, namespace, value, option=None):
        name, _, number = value.partition("=")
        if not number.isdigit():
            parser.error(f"{option} {value}: NAME=N is wanted")
        setattr(namespace, self.dest, {**getattr(namespace, self.dest), name: int(number)})


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("model")
    parser.add_argument("--size", action=Sizes, default={}, metavar="NAME=N")
    parser.add_argument("--reference")
    parser.add_argument("--save")
    parser.add_argument("--tolerance", type=float, default=1e-3)
    parser.add_argument("--seconds", type=float, default=1)
    parser.add_argument("--profile", type=int, default=0)
    parser.add_argument("--no-graphs", action="store_true")
    parser.add_argument("--json")
    options = parser.parse_args()
    model = Model(options.model, options.no_graphs)
    if options.reference:
        data = np.load(options.reference)
        given = {k[3:]: data[k] for k in data.files if k.startswith("in.")}
        expected = {k[4:]: data[k] for k in data.files if k.startswith("out.")}
    else:
        if unknown := sorted(set(options.size) - set(model.open_sizes())):
            parser.error(f"no input leaves {', '.join(unknown)} open; open are: {', '.join(model.open_sizes()) or 'none'}")
        given, expected = model.random(options.size), {}
    made, run = model.run(given)
    if options.save:
        np.savez(options.save, **{"in." + k: v for k, v in given.items()}, **{"out." + k: v for k, v in made.items()})
    for _ in range(3):  # by a graph, too
        run()
    again, _ = model.run(given)
    worst = max([difference(expected[k], m[k]) for k in expected for m in (made, again)], default=None)
    result = {"model": model.info.name.decode(), "target": model.info.target_cpu.decode(), "difference": worst,
              "host_ms": median_ms(run, options.seconds)}
    try:
        import torch
        has_gpu = torch.cuda.is_available()
    except ImportError:
        has_gpu = False
    if has_gpu and "cuda" in result["target"]:
        placed, outputs = model.in_place(given, made, torch)
        result["in_place_ms"] = median_ms(placed, options.seconds)
        on_gpu = {k: y.cpu().numpy() for k, y in outputs.items()}
        result["in_place_difference"] = max([difference(made[k], on_gpu[k]) for k in made], default=0.0)
        worst = max(worst or 0.0, result["in_place_difference"])
        run = placed
    print(f"{result['model']:<20} {result['target']:<14} differs by {worst if worst is not None else float('nan'):.2e}"
          f"  host {result['host_ms']:.3f} ms  in place {result.get('in_place_ms', float('nan')):.3f} ms", flush=True)
    if options.profile:
        times = model.kernel_times(run, 10)
        result["kernels"] = times
        print(f"  kernels, one by one: {sum(t for t, _ in times):.0f} us in all")
        for us, name in times[:options.profile]:
            print(f"  {us:9.1f} us  {name}")
    if options.json:
        pathlib.Path(options.json).write_text(json.dumps(result, indent=1))
    return 1 if worst is not None and not worst <= options.tolerance else 0


if __name__ == "__main__":
    sys.exit(main())
