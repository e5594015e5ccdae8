#!/usr/bin/env python3
"""The peak of resident memory that running a model takes: loading it and three runs, in a process of its own.

    peak_memory.py fettle OUT.so THREADS INPUT.npy... output=BYTES...     a compiled model, through its C interface
    peak_memory.py onnxruntime MODEL.onnx THREADS INPUT.npy...

Inputs, and the sizes of outputs, in the order of the model's.

Prints one JSON object: {"peak_bytes": P, "baseline_bytes": B}. The baseline is the same for both: the interpreter, numpy
and the inputs, before the engine or the library is loaded. Pages of mapped files count, as the kernel counts them.
"""

import ctypes
import json
import sys

import numpy as np

RUNS = 3


def status_bytes(field):
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) * 1024 for line in file if line.startswith(field + ":"))


def addresses(arrays):
    return (ctypes.c_void_p * len(arrays))(*(array.ctypes.data for array in arrays))


def run_fettle(path, threads, inputs, output_bytes):
    library = ctypes.CDLL(path)
    library.fettle_model_create.restype = ctypes.c_void_p
    library.fettle_model_run.argtypes = [ctypes.c_void_p] * 3
    model = library.fettle_model_create(ctypes.c_int32(threads))
    if not model:
        sys.exit(f"{path}: no model can be made")
    outputs = [np.empty(n, np.uint8) for n in output_bytes]
    for _ in range(RUNS):
        if library.fettle_model_run(model, addresses(inputs), addresses(outputs)) != 0:
            sys.exit(f"{path}: the run failed")


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
    sizes = [int(a.removeprefix("output=")) for a in sys.argv[4:] if a.startswith("output=")]
    inputs = [np.load(a) for a in sys.argv[4:] if not a.startswith("output=")]
    baseline = status_bytes("VmRSS")
    if engine == "fettle":
        run_fettle(path, threads, inputs, sizes)
    else:
        run_onnxruntime(path, threads, inputs)
    print(json.dumps({"peak_bytes": status_bytes("VmHWM"), "baseline_bytes": baseline}))


if __name__ == "__main__":
    main()
