"""Runs jobs in processes of their own, several at once: what ends or hangs one of them, or takes all memory, ends none of
the others."""

import os
import resource
import select
import signal
import time

SLICE_S = 1.0
MOST_BYTES = 8 << 30  # of memory, for one job


class _Child:
    def __init__(self, job, function):
        self.job, self.began = job, time.monotonic()
        self.read, write = os.pipe()
        self.pid = os.fork()
        self.told = b""
        if self.pid == 0:
            os.close(self.read)
            resource.setrlimit(resource.RLIMIT_AS, (MOST_BYTES, MOST_BYTES))
            status = 0
            try:
                verdict = function(job, lambda line: os.write(write, f"\0{line}\n".encode()))
            except BaseException as error:  # noqa: BLE001
                verdict, status = f"{type(error).__name__}: {error}", 1
            data = verdict.encode(errors="replace")
            while data:
                data = data[os.write(write, data) :]
            os._exit(status)
        os.close(write)

    def drain(self):
        """Whether it has ended."""
        data = os.read(self.read, 1 << 16)
        self.told += data
        return not data

    def finish(self, killed=False):
        if killed:
            os.kill(self.pid, signal.SIGKILL)
        os.close(self.read)
        _, status = os.waitpid(self.pid, 0)
        text = self.told.decode(errors="replace")
        lines = []
        while text.startswith("\0"):
            line, _, text = text[1:].partition("\n")
            lines.append(line)
        how = "hung" if killed else f"signal {os.WTERMSIG(status)}" if os.WIFSIGNALED(status) else ""
        return self.job, text, lines, how or ("raised" if os.waitstatus_to_exitcode(status) else "")


def run_apart(jobs, function, processes=1, limit_s=600):
    """Yields (job, verdict, told, how) as they end. `function(job, tell)` returns the verdict, a text; `told` are the lines
    that it told before. how: empty, or how it ended otherwise: "raised", "signal 11", "hung" after limit_s."""
    waiting, children = iter(jobs), []
    while True:
        while len(children) < processes:
            job = next(waiting, None)
            if job is None:
                break
            children.append(_Child(job, function))
        if not children:
            return
        ready, _, _ = select.select([c.read for c in children], [], [], SLICE_S)
        for child in list(children):
            ended = child.read in ready and child.drain()
            late = not ended and time.monotonic() - child.began > limit_s
            if ended or late:
                children.remove(child)
                yield child.finish(killed=late)
