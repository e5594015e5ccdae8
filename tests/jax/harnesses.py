#!/usr/bin/env python3
"""Runs JAX's own harnesses, one or more for each primitive and type, on Fettle and on JAX's CPU client, and compares.

usage: harnesses.py [--jobs N] [--only REGEX] [--every N] [--seconds S] [--fresh] [--hold]
Results are appended to build/jax/harnesses.jsonl, so that a run that was interrupted goes on. Each harness runs in a
process of a pool, which ends with it where it crashes or takes too long.
--hold: fails where one does not pass that harnesses_open.txt does not list, or one passes that it lists.
"""

import argparse
import collections
import json
import os
import pathlib
import pickle
import re
import select
import subprocess
import sys
import tempfile
import threading
import zlib

HERE = pathlib.Path(__file__).resolve().parent
OPEN = HERE / "harnesses_open.txt"
BUILD = pathlib.Path(os.environ.get("FETTLE_JAX_RESULTS", HERE.parent.parent / "build" / "jax"))

# How far results may be apart: of the largest element, and of each; ten times as far where matrices are ill-conditioned.
TOLERANCE = {"float64": 1e-11, "complex128": 1e-11, "float32": 2e-5, "complex64": 2e-5, "float16": 4e-3, "bfloat16": 3e-2}


def serve(platform):
    """A process of the pool: reads names of harnesses, and writes what they came to."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    os.environ["JAX_PLATFORMS"] = "cpu" if platform == "cpu" else f"{platform},cpu"
    import jax
    import numpy as np

    np.random.seed(0)  # some arguments are made by the import
    from jax._src.internal_test_util import test_harnesses

    jax.devices()
    harnesses = {harness.fullname: harness for harness in test_harnesses.all_harnesses}
    print(json.dumps({"names": sorted(harnesses)}), file=answers, flush=True)
    for line in sys.stdin:
        name, path = json.loads(line)
        harness = harnesses[name]
        answer = {}
        if not harness.filter("cpu"):
            answer["error"] = "SKIPPED"
        else:
            try:
                arguments = harness.dyn_args_maker(np.random.RandomState(zlib.crc32(name.encode())))
                results = jax.tree.leaves(jax.jit(harness.dyn_fun)(*arguments))
                results = [jax.random.key_data(r) if jax.dtypes.issubdtype(r.dtype, jax.dtypes.prng_key) else r
                           for r in results]  # fmt: skip
                with open(path, "wb") as file:
                    pickle.dump([(np.asarray(r).dtype.name, r.shape, np.asarray(r).tobytes()) for r in results], file)
            except Exception as error:  # noqa: BLE001: whatever it is, it is told
                answer["error"] = f"{type(error).__name__}: {error}"[:2000]
        print(json.dumps(answer), file=answers, flush=True)


class Server:
    """A process of the pool, started anew where it has ended."""

    def __init__(self, platform, seconds):
        self.platform, self.seconds, self.process = platform, seconds, None

    def start(self):
        with tempfile.TemporaryFile() as said:
            self.process = subprocess.Popen(
                [sys.executable, __file__, "--serve", self.platform], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                stderr=said, text=True, bufsize=1,
            )  # fmt: skip
            first = self.read(120)
            if first is None:
                self.stop()
                said.seek(0)
                lines = said.read().decode(errors="replace").splitlines() or ["it says nothing"]
                raise RuntimeError(f"no process of platform {self.platform} can be started: {lines[-1]}")
        return first["names"]

    def read(self, seconds):
        ready, _, _ = select.select([self.process.stdout], [], [], seconds)
        line = self.process.stdout.readline() if ready else ""
        return json.loads(line) if line else None

    def ask(self, name, path):
        if self.process is None:
            self.start()
        self.process.stdin.write(json.dumps([name, str(path)]) + "\n")
        answer = self.read(self.seconds)
        if answer is None:
            ended = self.process.poll()
            answer = {"error": f"CRASHED: {ended}" if ended is not None else f"SLOW: more than {self.seconds} s"}
            self.stop()
        return answer

    def stop(self):
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None


def settled(name, results):
    """The results without what is not specified: what lies above a Cholesky factor, the order of elements that are equal."""
    import ml_dtypes  # noqa: F401: numpy knows its types by it
    import numpy as np

    arrays = [np.frombuffer(data, np.dtype(dtype)).reshape(shape) for dtype, shape, data in results]
    if name.startswith("cholesky_"):
        arrays = [np.tril(array.astype(np.float32)).astype(array.dtype) if array.dtype.itemsize == 2 else np.tril(array)
                  for array in arrays]  # fmt: skip
    elif name.startswith("approx_top_k"):
        arrays = arrays[:1]
    elif "isstable_False" in name and len(arrays) > 1:
        order = np.lexsort([array.astype(np.float64) for array in reversed(arrays)])
        arrays = [array[order] for array in arrays]
    return [(array.dtype.name, array.shape, array.tobytes()) for array in arrays]


def difference(expected, actual, times):
    """Why these results are not the same; None where they are."""
    import ml_dtypes  # noqa: F401: numpy knows its types by it
    import numpy as np

    if len(expected) != len(actual):
        return f"{len(actual)} results, not {len(expected)}"
    for i, ((dtype, shape, data), (other, other_shape, other_data)) in enumerate(zip(expected, actual, strict=True)):
        if (dtype, shape) != (other, other_shape):
            return f"result {i} is {other}{other_shape}, not {dtype}{shape}"
        if data == other_data:
            continue
        tolerance = TOLERANCE.get(dtype)
        a, b = (np.frombuffer(bytes_, np.dtype(dtype)).reshape(shape) for bytes_ in (data, other_data))
        if tolerance is None:
            return f"result {i} of {dtype} has {np.sum(a != b)} other elements of {a.size}"
        wide = np.complex128 if "complex" in dtype else np.float64
        a, b = a.astype(wide), b.astype(wide)
        if wide is np.complex128:
            a, b = (np.stack([z.real, z.imag]) for z in (a, b))
        if not np.array_equal(np.isnan(a), np.isnan(b)):
            return f"result {i} has NaNs elsewhere"
        known = np.isfinite(a) & np.isfinite(b)
        if not np.array_equal(a[~known & ~np.isnan(a)], b[~known & ~np.isnan(a)]):
            return f"result {i} has infinities elsewhere"
        if not known.any():
            continue
        scale = max(np.abs(a[known]).max(), 1e-30)
        worst = (np.abs(a - b)[known] / (scale + np.abs(a[known]))).max()
        if worst > times * tolerance:
            return f"result {i} of {dtype} is off by {worst:.2g}"
    return None


def state_of(name, answer, reference, paths):
    if "error" in reference:
        return "skipped", reference["error"]
    if "error" in answer:
        error = answer["error"]
        kind = "crashed" if error.startswith(("CRASHED", "SLOW")) else "refused" if is_refusal(error) else "failed"
        return kind, error
    expected, actual = (settled(name, pickle.loads(path.read_bytes())) for path in paths)
    why = difference(expected, actual, 10 if name.startswith("cholesky_") else 1)
    return ("wrong", why) if why else ("passed", "")


def is_refusal(error):
    return any(word in error for word in ("UNIMPLEMENTED", "NotImplementedError", "E603"))


def reason(message):
    """What differs from harness to harness is left out."""
    line = message.split("\n")[0] if "E603" not in message else message.replace("\n", " ")
    return re.sub(r"\d+", "N", line)[:160]


def run(given):
    BUILD.mkdir(parents=True, exist_ok=True)
    log = BUILD / "harnesses.jsonl"
    if given.fresh:
        log.unlink(missing_ok=True)
    done = {}
    if log.exists():
        done = {row["name"]: row for row in map(json.loads, log.read_text().splitlines())}
    first = Server("fettle", given.seconds)
    names = first.start()
    wanted = [name for name in names if re.search(given.only, name)][:: given.every]
    waiting = collections.deque(name for name in wanted if name not in done)
    lock = threading.Lock()

    def work(fettle, file):
        cpu = Server("cpu", 300)
        with tempfile.TemporaryDirectory() as folder:
            paths = [pathlib.Path(folder, name) for name in ("expected", "actual")]
            while True:
                with lock:
                    if not waiting:
                        break
                    name = waiting.popleft()
                reference = cpu.ask(name, paths[0])
                answer = {} if "error" in reference else fettle.ask(name, paths[1])
                state, message = state_of(name, answer, reference, paths)
                row = {"name": name, "state": state, "message": message}
                with lock:
                    done[name] = row
                    print(json.dumps(row), file=file, flush=True)
        cpu.stop()
        fettle.stop()

    with log.open("a") as file:
        servers = [first, *(Server("fettle", given.seconds) for _ in range(given.jobs - 1))]
        threads = [threading.Thread(target=work, args=(server, file)) for server in servers]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    return [done[name] for name in wanted if name in done]


def tell(rows):
    counts = collections.Counter(row["state"] for row in rows)
    print(", ".join(f"{count} {state}" for state, count in counts.most_common()))
    reasons = collections.defaultdict(list)
    for row in rows:
        if row["state"] not in ("passed", "skipped"):
            reasons[row["state"], reason(row["message"])].append(row["name"])
    for (state, why), names in sorted(reasons.items(), key=lambda item: -len(item[1])):
        print(f"{len(names):5d} {state:8s} {why}   such as {names[0]}")


def hold(rows):
    """All pass but for those of the list."""
    listed = {line for line in OPEN.read_text().splitlines() if line and not line.startswith("#")} if OPEN.exists() else set()
    broken = [row for row in rows if row["state"] not in ("passed", "skipped") and row["name"] not in listed]
    for row in broken:
        print(f"{row['name']}: {row['state']}: {row['message'].splitlines()[0] if row['message'] else ''}")
    mended = sorted(row["name"] for row in rows if row["state"] == "passed" and row["name"] in listed)
    for name in mended:
        print(f"{name} passes: take it from {OPEN.name}")
    return not broken and not mended


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--serve")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--only", default="")
    parser.add_argument("--every", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=120)
    parser.add_argument("--fresh", action="store_true")
    parser.add_argument("--hold", action="store_true")
    parser.add_argument("--write", action="store_true", help="write the list of those that do not pass")
    given = parser.parse_args()
    if given.serve:
        return serve(given.serve)
    rows = run(given)
    tell(rows)
    if given.write:
        names = sorted(row["name"] for row in rows if row["state"] not in ("passed", "skipped"))
        OPEN.write_text("# JAX's harnesses that do not pass yet: harnesses.py --write\n" + "".join(f"{n}\n" for n in names))
    return 0 if not given.hold or hold(rows) else 1


sys.exit(main())
