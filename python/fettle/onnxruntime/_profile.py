"""What a session's profile holds: events as Chrome's tracing pages read them."""

import json
import os
import threading
import time


class Profile:
    """Events from its making to `write`."""

    def __init__(self, prefix):
        self.start_ns = time.monotonic_ns()
        now = time.time()
        self._path = f"{prefix}_{time.strftime('%Y-%m-%d_%H-%M-%S', time.localtime(now))}_{int(now * 1000) % 1000:03}.json"
        self._events = []
        self._lock = threading.Lock()

    def add(self, category, name, begin_ns, end_ns, **args):
        event = {
            "cat": category, "pid": os.getpid(), "tid": threading.get_native_id(), "dur": (end_ns - begin_ns) // 1000,
            "ts": (begin_ns - self.start_ns) // 1000, "ph": "X", "name": name, "args": args,
        }  # fmt: skip
        with self._lock:
            if self._events is not None:
                self._events.append(event)

    def begin(self, context):
        """The kernels of the context's calls are recorded from now on."""
        context._base._record_kernels()

    def end(self, context):
        """Each kernel that ran is an event."""
        kernels = context._base._kernels
        for kernel, begin_ns, end_ns in context._base._take_kernel_times():
            name, origins = kernels[kernel]
            nodes = [origin for origin in origins.split("\n") if origin]
            self.add("Node", f"{name}_kernel_time", begin_ns, end_ns, nodes=nodes, provider="FettleExecutionProvider",
                     op_name="+".join(node.split(" ")[0] for node in nodes))  # fmt: skip

    def write(self):
        """The file's name; "" where it was written before."""
        with self._lock:
            events, self._events = self._events, None
        if events is None:
            return ""
        with open(self._path, "w") as file:
            json.dump(events, file)
        return self._path
