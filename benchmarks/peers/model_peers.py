#!/usr/bin/env python3
"""Runs an ONNX model in another engine, timed on request, so that a driver can interleave it with its own runs.

    model_peers.py onnxruntime|openvino

One process serves one engine. It speaks JSON, one object a line: it greets on standard output, then answers each line of
standard input with one line, and ends with its standard input. What the engines print goes to standard error.

greeting  {"ok": true, "protocol": 1, "peer": "openvino", "version": "2026.4.1"}

{"op": "load", "model": FILE, "threads": N, "shapes": {NAME: [D, ...]}, "inputs": {NAME: FILE.npy}, "seed": S, "open": false}
    Reads the model, fixes its shapes, and runs it once. Inputs without a file get random values (seeded: normal for floats, 0 or 1
    for integers). "shapes", "inputs" and "seed" may be left out; the shape of a file counts as that of its input. With "open" true,
    sizes that the model leaves open are not fixed.
  → {"ok": true, "load_s": 0.4, "first_run_s": 0.01, "how": "...", "inputs": [{"name", "shape", "dtype"}], "outputs": [...]}

{"op": "inputs", "shapes": ..., "inputs": ..., "seed": ...}
    Other inputs in place of those of "load", and runs once. Their sizes may differ where "open" was true.
  → {"ok": true, "inputs": [...], "outputs": [...]}

{"op": "time", "runs": K, "warm": W, "limit_s": T}
    W runs untimed (default 1), then K runs, each timed alone; none begins after T seconds (default 60). Before it answers, it waits
    until the engine's threads sleep, so that they do not disturb what the driver times next.
  → {"ok": true, "times_ns": [...], "idle": true, "idle_after_ms": 34.1}

{"op": "outputs", "dir": FOLDER}
    Writes the outputs of one run as FOLDER/PEER.I.npy; inputs likewise with "inputs": true, as FOLDER/PEER.input.I.npy.
  → {"ok": true, "outputs": [{"name", "shape", "dtype", "file"}], "inputs": [...]}

{"op": "memory"}
  → {"ok": true, "peak_rss_bytes": B, "before_load_bytes": B0}      peak resident memory now, and before "load"

A failure: {"ok": false, "kind": K, "error": "one sentence"}, K one of missing_package, bad_request, failed.

What is fair to the engines: fp32 arithmetic (OpenVINO would pick bf16 where the processor has it), one stream for latency, inputs
and outputs bound once, all graph optimisations. Their threads keep spinning between runs, which makes them faster; they are waited for.
"""

import json
import os
import sys
import threading
import time

PROTOCOL = 1


class Refused(Exception):
    """A failure to report: kind and one sentence."""

    def __init__(self, kind, message):
        super().__init__(message)
        self.kind = kind


def sentence(error):
    """The first line of an exception that says something, shortened."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return (lines[0] if lines else type(error).__name__)[:400]


def threads_busy():
    """Whether a thread of this process other than the caller is running or ready to."""
    own = str(threading.get_native_id())
    for tid in os.listdir("/proc/self/task"):
        if tid == own:
            continue
        try:
            with open(f"/proc/self/task/{tid}/stat") as file:
                text = file.read()
        except OSError:
            continue  # it has ended
        if text[text.rindex(")") + 2] == "R":
            return True
    return False


def wait_until_idle(limit_s=2.0):
    """Waits until two looks in a row find every other thread asleep. Returns (idle, milliseconds waited)."""
    start = time.perf_counter()
    calm = 0
    while True:
        calm = 0 if threads_busy() else calm + 1
        waited = time.perf_counter() - start
        if calm >= 2 or waited > limit_s:
            return calm >= 2, waited * 1e3
        time.sleep(1e-4)


def memory_bytes(field):
    with open("/proc/self/status") as file:
        for line in file:
            if line.startswith(field + ":"):
                return int(line.split()[1]) * 1024
    return 0


def forget_peak_memory():
    """Lets the peak of resident memory begin anew from here, where the kernel allows it."""
    try:
        with open("/proc/self/clear_refs", "w") as file:
            file.write("5")
    except OSError:
        pass


def fixed_shape(name, declared, wanted, given):
    """The shape an input shall have: as asked, as in its file, or as the model declares it."""
    shape = wanted.get(name)
    if shape is None and given is not None:
        shape = list(given.shape)
    if shape is None:
        if any(not isinstance(dim, int) or dim < 0 for dim in declared):
            raise Refused("bad_request", f"input {name} has unknown dimensions {declared}: give its shape")
        shape = declared
    shape = [int(dim) for dim in shape]
    if len(shape) != len(declared) or any(
        isinstance(dim, int) and dim >= 0 and dim != asked for dim, asked in zip(declared, shape)
    ):
        raise Refused("bad_request", f"input {name}: the model declares {declared}, not {shape}")
    return shape


def make_inputs(declared, request):
    """declared: [(name, shape, numpy dtype)] → {name: contiguous array}."""
    import numpy as np

    names = [name for name, _, _ in declared]
    wanted = request.get("shapes") or {}
    files = request.get("inputs") or {}
    for name in [*wanted, *files]:
        if name not in names:
            raise Refused("bad_request", f"the model has no input {name}, only {', '.join(names)}")
    random = np.random.default_rng(request.get("seed", 0))
    inputs = {}
    for name, shape, dtype in declared:
        given = None
        if name in files:
            try:
                given = np.load(files[name], allow_pickle=False)
            except (OSError, ValueError) as error:
                raise Refused("bad_request", f"input {name}: {sentence(error)}") from error
            if given.dtype != dtype:
                raise Refused("bad_request", f"input {name} is {np.dtype(dtype).name}, the file holds {given.dtype.name}")
        shape = fixed_shape(name, shape, wanted, given)
        if given is None:
            if np.issubdtype(dtype, np.floating):
                given = random.standard_normal(shape).astype(dtype)
            else:
                given = random.integers(0, 2, shape).astype(dtype)
        elif list(given.shape) != shape:
            raise Refused("bad_request", f"input {name} shall be {shape}, the file holds {list(given.shape)}")
        inputs[name] = np.ascontiguousarray(given)
    return inputs


class OnnxRuntime:
    def __init__(self):
        import onnxruntime

        self.module = onnxruntime
        self.version = onnxruntime.__version__

    def load(self, request):
        import numpy as np

        options = self.module.SessionOptions()
        options.intra_op_num_threads = request["threads"]
        options.inter_op_num_threads = 1
        options.execution_mode = self.module.ExecutionMode.ORT_SEQUENTIAL
        options.graph_optimization_level = self.module.GraphOptimizationLevel.ORT_ENABLE_ALL
        options.log_severity_level = 3

        def session(model):
            return self.module.InferenceSession(model, options, providers=["CPUExecutionProvider"])

        file = request["model"]
        self.session = session(file)
        kinds = {"tensor(float)": np.float32, "tensor(double)": np.float64, "tensor(float16)": np.float16,
                 "tensor(int64)": np.int64, "tensor(int32)": np.int32, "tensor(int8)": np.int8,
                 "tensor(uint8)": np.uint8, "tensor(bool)": np.bool_}
        declared = []
        for node in self.session.get_inputs():
            if node.type not in kinds:
                raise Refused("bad_request", f"input {node.name} has the unsupported type {node.type}")
            declared.append((node.name, list(node.shape), kinds[node.type]))
        self.inputs = make_inputs(declared, request)
        self.declared = declared
        if not request["open"] and any(not isinstance(dim, int) for _, shape, _ in declared for dim in shape):
            # It plans and folds more where it knows the sizes beforehand: up to twice as fast.
            self.session = None
            options.add_session_config_entry("session.model_external_initializers_file_folder_path",
                                             os.path.dirname(os.path.abspath(file)))
            fixed = self.with_fixed_shapes(file)
            forget_peak_memory()
            self.session = session(fixed)
        self.names = [node.name for node in self.session.get_outputs()]
        self.give(self.inputs)
        return "bound inputs and outputs"

    def give(self, inputs):
        self.inputs = inputs
        self.binding = self.session.io_binding()
        for name, value in self.inputs.items():
            self.binding.bind_ortvalue_input(name, self.module.OrtValue.ortvalue_from_numpy(value))
        for name in self.names:
            self.binding.bind_output(name, "cpu")

    def with_fixed_shapes(self, file):
        """The model with the sizes of its inputs written in, serialised. Data in files beside it stay there."""
        try:
            import onnx
        except ImportError as error:
            raise Refused("missing_package", f"the Python package onnx, which fixes shapes, cannot be imported: {sentence(error)}") from error
        model = onnx.load(file, load_external_data=False)
        for value in model.graph.input:
            if value.name in self.inputs:
                for dim, size in zip(value.type.tensor_type.shape.dim, self.inputs[value.name].shape):
                    dim.dim_value = size
        return model.SerializeToString()

    def run(self):
        self.session.run_with_iobinding(self.binding)

    def outputs(self):
        return list(zip(self.names, self.binding.copy_outputs_to_cpu()))


class OpenVino:
    def __init__(self):
        import openvino

        self.module = openvino
        self.version = openvino.__version__.split("-")[0]

    def load(self, request):
        core = self.module.Core()
        model = core.read_model(request["model"])
        declared = []
        for port in model.inputs:
            shape = [dim.get_length() if dim.is_static else -1 for dim in port.get_partial_shape()]
            declared.append((port.get_any_name(), shape, port.get_element_type().to_dtype()))
        self.inputs = make_inputs(declared, request)
        self.declared = declared
        if not request["open"]:
            model.reshape({name: list(value.shape) for name, value in self.inputs.items()})
        settings = {"PERFORMANCE_HINT": "LATENCY", "NUM_STREAMS": 1, "INFERENCE_NUM_THREADS": request["threads"],
                    "INFERENCE_PRECISION_HINT": "f32"}
        compiled = core.compile_model(model, "CPU", settings)
        self.request = compiled.create_infer_request()
        self.compiled = compiled
        self.names = [port.get_any_name() for port in model.outputs]
        return self.give(self.inputs)

    def give(self, inputs):
        self.inputs = inputs
        for name, value in self.inputs.items():
            self.request.set_tensor(name, self.module.Tensor(value, shared_memory=True))
        return self.choose_way()

    def run_here(self):
        self.request.infer(share_inputs=True, share_outputs=True)

    def run_queued(self):
        self.request.start_async()
        self.request.wait()

    def choose_way(self):
        """It can infer on the calling thread or on its own; which is faster depends on the model. Takes the faster."""
        best = {}
        for way in [self.run_here, self.run_queued] * 2:
            way()
            spent = 0.0
            for _ in range(10):
                start = time.perf_counter()
                way()
                took = time.perf_counter() - start
                best[way] = min(took, best.get(way, took))
                spent += took
                if spent > 1:
                    break
        self.run = min(best, key=best.get)
        return "infer()" if self.run == self.run_here else "start_async() and wait()"

    def outputs(self):
        return [(name, self.request.get_output_tensor(i).data.copy()) for i, name in enumerate(self.names)]


PEERS = {"onnxruntime": OnnxRuntime, "openvino": OpenVino}


class Server:
    def __init__(self, name):
        self.name = name
        self.engine = PEERS[name]()
        self.loaded = False

    def described(self, arrays):
        return [{"name": name, "shape": list(value.shape), "dtype": value.dtype.name} for name, value in arrays]

    def load(self, request):
        if self.loaded:
            raise Refused("bad_request", "a model is loaded already: start another process for another model")
        threads = request.get("threads", 1)
        if not isinstance(threads, int) or threads < 1:
            raise Refused("bad_request", "threads must be a positive number")
        if not os.path.isfile(request.get("model") or ""):
            raise Refused("bad_request", f"no such model file: {request.get('model')}")
        self.before_load = memory_bytes("VmRSS")
        start = time.perf_counter()
        how = self.engine.load({**request, "threads": threads, "open": bool(request.get("open"))})
        loaded = time.perf_counter()
        self.engine.run()
        ended = time.perf_counter()
        self.loaded = True
        wait_until_idle()
        return {"load_s": loaded - start, "first_run_s": ended - loaded, "how": how,
                "inputs": self.described(self.engine.inputs.items()), "outputs": self.described(self.engine.outputs())}

    def give(self, request):
        self.need_model()
        self.engine.give(make_inputs(self.engine.declared, request))
        self.engine.run()
        wait_until_idle()
        return {"inputs": self.described(self.engine.inputs.items()), "outputs": self.described(self.engine.outputs())}

    def need_model(self):
        if not self.loaded:
            raise Refused("bad_request", "no model is loaded")

    def time(self, request):
        self.need_model()
        run = self.engine.run
        clock = time.perf_counter_ns
        for _ in range(request.get("warm", 1)):
            run()
        limit = clock() + int(request.get("limit_s", 60) * 1e9)
        times = []
        for _ in range(request.get("runs", 1)):
            start = clock()
            run()
            end = clock()
            times.append(end - start)
            if end > limit:
                break
        idle, waited = wait_until_idle()
        return {"times_ns": times, "idle": idle, "idle_after_ms": waited}

    def save(self, arrays, folder, infix):
        import numpy as np

        entries = self.described(arrays)
        for i, (entry, (_, value)) in enumerate(zip(entries, arrays)):
            entry["file"] = os.path.join(folder, f"{self.name}{infix}.{i}.npy")
            np.save(entry["file"], value)
        return entries

    def outputs(self, request):
        self.need_model()
        folder = request.get("dir")
        if not folder or not os.path.isdir(folder):
            raise Refused("bad_request", f"no such folder: {folder}")
        self.engine.run()
        answer = {"outputs": self.save(self.engine.outputs(), folder, "")}
        if request.get("inputs"):
            answer["inputs"] = self.save(list(self.engine.inputs.items()), folder, ".input")
        wait_until_idle()
        return answer

    def memory(self, request):
        self.need_model()
        return {"peak_rss_bytes": memory_bytes("VmHWM"), "before_load_bytes": self.before_load}

    def answer(self, line):
        try:
            request = json.loads(line)
            operation = {"load": self.load, "inputs": self.give, "time": self.time, "outputs": self.outputs, "memory": self.memory}.get(
                request.get("op") if isinstance(request, dict) else None)
            if operation is None:
                raise Refused("bad_request", "unknown operation: load, inputs, time, outputs and memory exist")
            return {"ok": True, **operation(request)}
        except Refused as error:
            return {"ok": False, "kind": error.kind, "error": str(error)}
        except json.JSONDecodeError as error:
            return {"ok": False, "kind": "bad_request", "error": f"not JSON: {sentence(error)}"}
        except Exception as error:  # whatever the engine throws: the driver reports it
            return {"ok": False, "kind": "failed", "error": f"{type(error).__name__}: {sentence(error)}"}


def main():
    if len(sys.argv) != 2 or sys.argv[1] not in PEERS:
        print(f"usage: model_peers.py {'|'.join(PEERS)}", file=sys.stderr)
        return 2
    replies = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # from here on, what an engine prints goes to standard error

    def reply(answer):
        replies.write(json.dumps(answer) + "\n")
        replies.flush()

    name = sys.argv[1]
    try:
        server = Server(name)
    except ImportError as error:
        reply({"ok": False, "kind": "missing_package",
               "error": f"the Python package {name} cannot be imported: {sentence(error)}"})
        return 1
    reply({"ok": True, "protocol": PROTOCOL, "peer": name, "version": server.engine.version})
    for line in sys.stdin:
        if line.strip():
            reply(server.answer(line))
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (BrokenPipeError, KeyboardInterrupt):
        os._exit(1)  # the driver is gone
