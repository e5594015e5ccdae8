"""What torch calls: an FX graph that Fettle runs, or that runs in parts."""

import ctypes
import functools
import logging
import re
import threading

import numpy
import torch
from torch.fx.passes.infra.partitioner import CapabilityBasedPartitioner
from torch.fx.passes.operator_support import OperatorSupportBase
from torch.utils._sympy.printers import PythonPrinter

import fettle

from .fx import DTYPES, PARTS, Unsupported, Walk, expression, is_number, tensor_of

log = logging.getLogger("fettle.torch")
_MOST_CONSTANT_SETS = 2  # of weights that change: then they become inputs


class Statistics:
    """Since the process began, or `reset`: how many models were compiled, and what was left to torch: reason → how often."""

    def __init__(self):
        self._lock = threading.Lock()
        self.reset()

    def reset(self):
        self.compiled = 0
        self.refused = {}

    def compiles(self):
        with self._lock:
            self.compiled += 1

    def refuses(self, reason):
        with self._lock:
            first = reason not in self.refused
            self.refused[reason] = self.refused.get(reason, 0) + 1
        if first:
            log.warning("torch runs %s", reason)


statistics = Statistics()


class _Size:
    """An integer that a call's arguments tell: source text over `a`, the arguments."""

    def __init__(self, module):
        self._sources = {}
        placeholders = module.graph.find_nodes(op="placeholder")
        for index, node in enumerate(placeholders):
            fake = node.meta.get("val")
            if isinstance(fake, torch.SymInt) and fake.node.expr.is_Symbol:
                self._sources[fake.node.expr] = f"a[{index}]"
        for index, node in enumerate(placeholders):
            fake = node.meta.get("val")
            if isinstance(fake, torch.Tensor):
                for axis, extent in enumerate(fake.shape):
                    if isinstance(extent, torch.SymInt) and extent.node.expr.is_Symbol:
                        self._sources.setdefault(extent.node.expr, f"a[{index}].shape[{axis}]")

    def source(self, value):
        if isinstance(value, int):
            return str(value)
        expr = expression(value)
        missing = expr.free_symbols - self._sources.keys()
        if missing:
            raise Unsupported(f"a result of size {expr}, which no argument tells")
        text = PythonPrinter().doprint(expr)
        for symbol in sorted(expr.free_symbols, key=lambda s: -len(str(s))):
            text = _replaced(text, str(symbol), self._sources[symbol])
        return text


    def tells(self, fakes):
        """Whether arguments tell all extents of these tensors."""
        symbols = {symbol for fake in fakes for extent in fake.shape if isinstance(extent, torch.SymInt)
                   for symbol in expression(extent).free_symbols}  # fmt: skip
        return symbols <= self._sources.keys()


def _replaced(text, name, source):
    return re.sub(rf"\b{re.escape(name)}\b", lambda _: f"({source})", text)


def _are_as_before(seen, args):
    for index, tensor, place, version in seen:
        given = args[index]
        if given is not tensor or given._version != version or given.data_ptr() != place:
            return False
    return True


class Compiled:
    """Compiles at the first call, when the weights are at hand; a call takes a list of arguments, and gives a list.

    frozen: which arguments are weights, which become constants. They are looked at in each call: another tensor, other
    memory or a changed version is compiled for anew, and at last as inputs."""

    def __init__(self, module, frozen, options, boxed):
        self._module, self._options, self._boxed_call = module, options, boxed
        self._frozen = list(frozen)
        self._sets = 0
        self._lock = threading.Lock()
        self._state = None  # the weights as they were, and what was compiled for them

    def __call__(self, *args):
        if self._boxed_call:  # torch's name for it
            boxed = args[0]
            args = list(boxed)
            boxed.clear()
        state = self._state
        if state is None or not _are_as_before(state[0], args):
            state = self._prepared(args)
        return state[1](args)

    def _prepared(self, args):
        with self._lock:
            if self._state is not None and _are_as_before(self._state[0], args):
                return self._state  # another thread was first
            frozen = [i for i in self._frozen if not args[i].is_inference()]
            if frozen and self._sets == _MOST_CONSTANT_SETS:
                frozen = []
                log.warning("weights changed %d times: they are inputs from now on, which is slower", self._sets)
            seen = [(i, args[i], args[i].data_ptr(), args[i]._version) for i in frozen]
            self._sets += 1
            self._state = (seen, self._compiled(args, frozen))
            return self._state

    def _compiled(self, args, frozen):
        try:
            return _Call(Walk(self._module, {i: args[i] for i in frozen}), self._module, self._options)
        except (Unsupported, fettle.Error) as error:
            if self._options.strict:
                raise
            statistics.refuses(_reason(error))
            module = self._module
            return lambda given: _as_list(module(*given))


def _reason(error):
    if isinstance(error, fettle.Error):
        return f"a graph in eager mode, which Fettle refused: {str(error).splitlines()[0]}"
    return f"a graph in eager mode: {error}"


def _as_list(results):
    return list(results) if isinstance(results, (tuple, list)) else [results]


@functools.cache
def _team():
    """Torch's threads; None where torch was built without OpenMP. Its own function says how many: each thread has its
    number, which it learns when it first asks."""
    try:
        return fettle.OpenMpTeam(ctypes.CDLL(torch._C.__file__), size="_ZN2at15get_num_threadsEv")
    except (fettle.Error, OSError):
        return None


def _taken(given):
    """What the model takes of an argument of the FX graph."""
    if given.is_number:
        return f"torch.tensor([a[{given.index}]])"
    taken = f"a[{given.index}].detach()"
    if given.fake.is_neg():
        taken += ".resolve_neg()"
    if given.fake.is_complex():
        taken = f"torch.view_as_real({taken}.resolve_conj())"
    return taken + _as_array(given.fake)


def _as_array(fake):
    """Numpy's view of the same memory: the model takes it in less time than torch's tensor."""
    return "" if fake.dtype == torch.bfloat16 else ".numpy()"


def _view(size, fake, kind, index, base, results):
    """Of an argument, or of a result. Where that begins in its memory is known when it is there."""
    tensor = f"a[{index}]" if kind == "a" else results[index]
    extents, strides = ([size.source(value) for value in values] for values in (fake.shape, fake.stride()))
    offset = size.source(fake.storage_offset() - base.storage_offset())
    return f"view_of({tensor}, [{', '.join(extents)}], [{', '.join(strides)}], {offset})"


def _view_of(tensor, extents, strides, offset):
    return tensor.as_strided(extents, strides, tensor.storage_offset() + offset)


class _Call:
    """A compiled model, and how torch's tensors go in and out."""

    def __init__(self, walk, module, options):
        if walk.refused:
            raise Unsupported("; ".join(walk.refused.values()))
        size = _Size(module)
        fakes = [walk.results[i] for i in walk.outputs]
        self._model = None
        if fakes:
            threads = options.threads or torch.get_num_threads()
            given = options.compile if options.threads else {"team": _team(), **options.compile}
            self._model = fettle.compile(walk.graph, sizes=walk.sizes or None, threads=threads, **given)
            self._check(fakes, walk.orders)
            statistics.compiles()
        # Arguments → what the model takes, memory for what it makes, and the results, as one function.
        scope = {"torch": torch, "empty": numpy.empty, "model": self._model, "tensor_of": tensor_of, "view_of": _view_of}
        taken = ", ".join(map(_taken, walk.inputs))
        lines, names = ["def call(a):"], [f"y{i}" for i in range(len(fakes))]
        scope["errors"], outs = walk.errors, names + ["check"] * bool(walk.errors)
        if fakes and (any(t.is_number for t in walk.inputs) or not size.tells(fakes)):
            # Sizes that are given as numbers, or that data tell, are known when the model runs, and so is the memory.
            lines.append(f"  {', '.join(outs)}{',' if len(outs) > 1 else ''} = model({taken})")
            lines += [f"  {name} = tensor_of({name})" for name in names]
        elif fakes:
            for i, (fake, order) in enumerate(zip(fakes, walk.orders)):
                extents = [size.source(fake.shape[axis]) for axis in order or range(fake.dim())]
                extents += ["2"] * fake.is_complex()
                scope[f"dtype{i}"] = PARTS.get(fake.dtype, fake.dtype)
                lines.append(f"  y{i} = torch.empty([{', '.join(extents)}], dtype=dtype{i})")
            lines += ["  check = empty((), 'int32')"] * bool(walk.errors)
            written = [name + _as_array(fake) for name, fake in zip(names, fakes)] + outs[len(names) :]
            lines.append(f"  model({taken}{', ' if taken else ''}out=({', '.join(written)},))")
        if fakes and walk.errors:
            lines += ["  number = check.item()", "  if number: raise errors[number - 1]()"]
        backs = [order and [order.index(axis) for axis in range(len(order))] for order in walk.orders]
        made = [f"torch.view_as_complex({name})" if fake.is_complex() else name for name, fake in zip(names, fakes)]
        made = [f"{name}.permute({back})" if back else name for name, back in zip(made, backs)]
        results = dict(zip(walk.outputs, made))
        parts = []
        for i, result in enumerate(walk.results):
            if i in walk.views:
                parts.append(_view(size, result, *walk.views[i], results))
            elif isinstance(result, torch.Tensor):
                parts.append(results[i])
            elif isinstance(result, torch.SymInt):
                parts.append(size.source(result))
            elif result is None or is_number(result) and not isinstance(result, (torch.SymFloat, torch.SymBool)):
                parts.append(repr(result))
            else:
                raise Unsupported(f"a result of type {type(result).__name__}")
        lines.append(f"  return [{', '.join(parts)}]")
        exec("\n".join(lines), scope)
        self._call = scope["call"]

    def _check(self, fakes, orders):
        """What was compiled has the types and extents that torch expects: else a translation is wrong."""
        for (name, dtype, shape), fake, order in zip(self._model.outputs, fakes, orders):
            expected = [fake.shape[axis] for axis in order] if order else list(fake.shape)
            expected += [2] * fake.is_complex()
            matches = len(shape) == len(expected) and all(
                not isinstance(e, int) or not isinstance(s, int) or e == s for e, s in zip(shape, expected))  # fmt: skip
            if str(dtype) != DTYPES[PARTS.get(fake.dtype, fake.dtype)] or not matches:
                raise Unsupported(f"result {name} came out as {dtype}{shape}, and torch expects {fake.dtype}{expected}")

    def __call__(self, args):
        return self._call(args)


class _IsTranslated(OperatorSupportBase):
    def __init__(self, refused):
        self._refused = refused

    def is_node_supported(self, submodules, node):
        return node.op == "call_function" and node not in self._refused and not is_number(node.meta.get("val"))


def compiled(module, frozen, options):
    """A callable that takes a list of arguments, which it empties, for the FX graph of `module`."""
    try:
        refused = Walk(module, {}).refused
    except Unsupported as reason:
        if options.strict:
            raise
        refused = None
        statistics.refuses(f"a graph in eager mode: {reason}")
    if refused == {}:
        return Compiled(module, frozen, options, boxed=True)
    if options.strict:
        raise Unsupported("; ".join(refused.values()))
    if refused is None:
        return _boxed(module)
    for reason in refused.values():
        statistics.refuses(reason)
    return _in_parts(module, refused, frozen, options)


def _boxed(module):
    def call(args):
        given = list(args)
        args.clear()
        return _as_list(module(*given))

    call._boxed_call = True
    return call


def _in_parts(module, refused, frozen, options):
    """What is translated becomes submodules, which are compiled; torch runs the rest."""
    placeholders = module.graph.find_nodes(op="placeholder")
    weights = {placeholders[i].name for i in frozen}
    partitioner = CapabilityBasedPartitioner(module, _IsTranslated(refused), allows_single_node_partition=False)
    parted = partitioner.partition_and_fuse()
    for node in list(parted.graph.nodes):
        if node.op != "call_module":
            continue
        part = getattr(parted, node.target)
        constants = [i for i, arg in enumerate(node.args) if arg.op == "placeholder" and arg.name in weights]
        _complete(part, node)
        call = Compiled(part, constants, options, boxed=False)
        delattr(parted, node.target)
        single = not isinstance(part.graph.output_node().args[0], (list, tuple))
        setattr(parted, node.target, _Part(call, single))
    parted.recompile()
    return _boxed(parted)


def _complete(part, node):
    """The placeholders of a part say what torch says of the values that come in."""
    for placeholder, given in zip(part.graph.find_nodes(op="placeholder"), node.args):
        placeholder.meta.setdefault("val", given.meta.get("val"))


class _Part(torch.nn.Module):
    def __init__(self, call, single):
        super().__init__()
        self._call, self._single = call, single

    def forward(self, *args):
        results = self._call(*args)
        return results[0] if self._single else results
