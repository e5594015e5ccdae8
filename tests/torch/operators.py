#!/usr/bin/env python3
"""Torch's own samples of its operators, in f32, compiled and beside eager mode.

operators.py [--names a,b] [--samples 3] [--part 1/4] [--write FILE] prints what becomes of each operator of the list: all of op_db that
take f32, whose samples are tensors, and that draw no random numbers.

passed:         all of the sample's graph is compiled
by torch: why   torch runs an operator inside of the graph, or all of it; the results are right
refused: why    a call fails
not traced: why torch itself makes no graph of it
WRONG: how      results differ from those of eager mode, and are further than these from those of double precision"""

import argparse
import logging
import os
import sys
import warnings

import torch
from torch.testing._internal.common_methods_invocations import op_db
from torch.utils import _pytree as pytree

import fettle
import fettle.torch

logging.disable(logging.WARNING)
warnings.filterwarnings("ignore")

# What draws random numbers, or gives memory that was never written.
_RANDOM = ("bernoulli", "cauchy", "dropout", "empty", "exponential", "new_empty", "geometric", "log_normal", "multinomial", "normal",
           "rand", "rrelu", "uniform", "_batch_norm_with_update", "nn.functional.scaled_dot_product_attention.dropout")  # fmt: skip
# Whose inputs or results are no tensors, or lie elsewhere than on a CPU.
_NO_TENSORS = ("sparse", "item", "equal", "is_", "allclose", "jiterator", "to_sparse", "tolist", "__r")


def listed():
    for info in op_db:
        name = f"{info.name}.{info.variant_test_name}" if info.variant_test_name else info.name
        parts = name.replace("_like", "").split(".")
        random = any(part.rstrip("_").startswith(word) or part.endswith(word) for part in parts for word in _RANDOM)
        other = any(word in name and not name.startswith("isin") for word in _NO_TENSORS if word != "item") or name == "item"
        if random or other or torch.float32 not in info.supported_dtypes("cpu"):
            continue
        yield name, info


def _close(got, wanted):
    """None, or how they differ."""
    if isinstance(wanted, (list, tuple)):
        if len(got) != len(wanted):
            return f"{len(got)} results, not {len(wanted)}"
        return next((how for how in map(_close, got, wanted) if how), None)
    if not isinstance(wanted, torch.Tensor):
        return None if got == wanted else f"{got}, not {wanted}"
    try:
        torch.testing.assert_close(got, wanted, rtol=1e-4, atol=1e-5, equal_nan=True)
    except AssertionError as error:
        return " ".join(str(error).split())[:150]
    return None


def _reason(error):
    while error is not None:
        if isinstance(error, (fettle.torch.Unsupported, fettle.Error)):
            return " ".join(str(error).split())[:200]
        error = getattr(error, "inner_exception", None) or error.__cause__
    return None


def _said(error):
    return f"{type(error).__name__}: {' '.join(str(error).split())[:160]}"


def _torchs_own(function, sample):
    """Why torch itself makes no graph of it, if so."""
    torch._dynamo.reset()
    try:
        torch.compile(function, backend="aot_eager", fullgraph=True, dynamic=False)(sample.input, *sample.args, **sample.kwargs)
    except Exception as error:
        return f"torch makes no graph of it ({_said(error)})"
    return None


# Vectors of length 1, whose signs a LAPACK may choose: the samples themselves say how to take them away.
_UP_TO_SIGN = ("linalg.eigh", "linalg.eig")


def _differs(name, function, sample, wanted, strict):
    """How the results of the compiled function differ; None where they do not."""
    torch._dynamo.reset()
    torch.manual_seed(0)
    compiled = torch.compile(function, backend="fettle", fullgraph=True, options={"strict": strict}, dynamic=False)
    got = compiled(sample.input, *sample.args, **sample.kwargs)
    if name in _UP_TO_SIGN:
        got, wanted = map(sample.output_process_fn_grad, (got, wanted))
    how = _close(got, wanted)
    return how if how and not _is_nearer(function, sample, got, wanted) else None


def _is_nearer(function, sample, got, wanted):
    """Whether all results are as near to those of double precision as eager mode's are."""
    wide = sample.transform(lambda x: x.double() if isinstance(x, torch.Tensor) and x.dtype == torch.float32 else x)
    exact = function(wide.input, *wide.args, **wide.kwargs)
    lists = [pytree.tree_leaves(results) for results in (got, wanted, exact)]
    return len({len(leaves) for leaves in lists}) == 1 and all(
        isinstance(g, torch.Tensor) and g.dtype == w.dtype == torch.float32 and g.shape == w.shape
        and bool((g - e).abs().max() <= (w - e).abs().max()) for g, w, e in zip(*lists))  # fmt: skip


def judged(info, samples):
    found = {}  # verdict → the first reason
    count = 0
    # Torch says which samples may be asked: those that go through one graph.
    for sample in info.sample_inputs("cpu", torch.float32):
        if count == samples:
            break
        torch.manual_seed(0)

        def function(*args, **kwargs):
            return info.op(*args, **kwargs)

        with torch.no_grad():
            try:
                wanted = function(sample.input, *sample.args, **sample.kwargs)
            except Exception:
                continue  # not on this machine
            count += 1
            verdict, why = _verdict(info.name, function, sample, wanted)
            found.setdefault(verdict, why)
    for verdict in ("WRONG", "not traced", "refused", "by torch"):
        if verdict in found:
            return f"{verdict}: {found[verdict]}"
    return "passed" if count else "no samples"


def _verdict(name, function, sample, wanted):
    reason = None
    for strict in (True, False):
        try:
            how = _differs(name, function, sample, wanted, strict)
        except Exception as error:
            if strict and _reason(error):
                reason = _reason(error)
                continue
            own = _torchs_own(function, sample)
            return ("not traced", own) if own else ("refused", reason or _said(error))
        if how:
            return "WRONG", how
        return ("by torch", reason) if reason else ("passed", None)
    raise AssertionError("one of both returns")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--names", default="")
    parser.add_argument("--samples", type=int, default=3)
    parser.add_argument("--part", default="1/1")
    parser.add_argument("--write", default="")
    options = parser.parse_args()
    torch.set_num_threads(1)
    names = set(filter(None, options.names.split(",")))
    part, parts = map(int, options.part.split("/"))
    lines = []
    for index, (name, info) in enumerate(listed()):
        if index % parts != part - 1 or (names and name not in names and info.name not in names):
            continue
        lines.append(f"{name}: {judged(info, options.samples)}")
        print(lines[-1], flush=True)
    if options.write:
        with open(options.write, "w") as file:
            file.write("\n".join(lines) + "\n")
    traced = [line for line in lines if ": not traced: " not in line]
    counts = [f"{sum(f': {verdict}' in line for line in lines)} {verdict}" for verdict in ("passed", "by torch", "refused", "WRONG")]
    print(f"of {len(traced)}: {', '.join(counts)}", file=sys.stderr)


if __name__ == "__main__":
    main()
    os._exit(0)
