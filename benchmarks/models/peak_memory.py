#!/usr/bin/env python3
"""The peak of resident memory that running a model takes: loading it and three runs, in a process of its own.

    peak_memory.py fettle OUT.so THREADS INPUT.npy... outputs=N           a compiled model, through its C interface
    peak_memory.py onnxruntime MODEL.onnx THREADS INPUT.npy...

Inputs in the order of the model's; outputs lie in memory of the model's own.

Prints one JSON object: {"peak_bytes": P, "baseline_bytes": B}. The baseline is the same for both: the interpreter, numpy
and the inputs, before the engine or the library is loaded. Pages of mapped files count, as the kernel counts them.
"""

import ctypes
import json
import pathlib
import sys

import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

from model_structs import ABI_VERSION, Options, Tensor  # noqa: E402

RUNS = 3


def status_bytes(field):
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) * 1024 for line in file if line.startswith(field + ":"))


DTYPES = {"bool": 1, "int8": 2, "uint8": 3, "int16": 4, "uint16": 5, "int32": 6, "uint32": 7, "int64": 8, "uint64": 9,
          "float16": 10, "float32": 12, "float64": 13}  # FettleDtype


def run_fettle(path, threads, inputs, n_outputs):
    library = ctypes.CDLL(path)
    for name, arguments, result in [("open", [ctypes.c_uint32, ctypes.c_void_p], ctypes.c_void_p),
                                    ("create_context", [ctypes.c_void_p], ctypes.c_void_p),
                                    ("run", [ctypes.c_void_p] * 3, ctypes.c_int32),
                                    ("error", [ctypes.c_void_p], ctypes.c_char_p)]:
        function = getattr(library, f"fettle_model_{name}")
        function.argtypes, function.restype = arguments, result
    options = Options(struct_bytes=ctypes.sizeof(Options), threads=threads)
    context = library.fettle_model_create_context(library.fettle_model_open(ABI_VERSION, ctypes.byref(options)))
    shapes = [(ctypes.c_int64 * max(array.ndim, 1))(*array.shape) for array in inputs]
    given = (Tensor * len(inputs))(*(Tensor(struct_bytes=ctypes.sizeof(Tensor), dtype=DTYPES[array.dtype.name],
                                            rank=array.ndim, data=array.ctypes.data, shape=shape)
                                     for array, shape in zip(inputs, shapes)))
    outputs = (Tensor * n_outputs)(*(Tensor(struct_bytes=ctypes.sizeof(Tensor)) for _ in range(n_outputs)))
    for _ in range(RUNS if context else 1):
        if not context or library.fettle_model_run(context, given, outputs) != 0:
            sys.exit(f"{path}: {library.fettle_model_error(context).decode()}")


def run_onnxruntime(path, threads, inputs):
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    feeds = {node.name: value for node, value in zip(session.get_inputs(), inputs)}
    for _ in range(RUNS):
        session.run(None, feeds)


def main():
    engine, path, threads = sys.argv[1], sys.argv[2], int(sys.argv[3])
    n_outputs = sum(int(a.removeprefix("outputs=")) for a in sys.argv[4:] if a.startswith("outputs="))
    inputs = [np.load(a) for a in sys.argv[4:] if not a.startswith("outputs=")]
    baseline = status_bytes("VmRSS")
    if engine == "fettle":
        run_fettle(path, threads, inputs, n_outputs)
    else:
        run_onnxruntime(path, threads, inputs)
    print(json.dumps({"peak_bytes": status_bytes("VmHWM"), "baseline_bytes": baseline}))


if __name__ == "__main__":
    main()
