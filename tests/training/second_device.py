"""A device that torch takes for an accelerator, and that the CPU computes: shows what CUDA would refuse.

Tensors on it say that they are on ``second:0``. Operations on them run on the CPU after the checks that an
accelerator makes: all tensors of an operation on one device (numbers and indices may come from the host), a
generator of that device, no pointer handed to numpy. What makes the host wait for a GPU is written down with
its place in the code: numbers read back, shapes that depend on values, tensors copied from pageable memory.
"""

import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from unittest import mock
from weakref import WeakValueDictionary

import torch
from torch import library
from torch.utils._python_dispatch import TorchDispatchMode, return_and_correct_aliasing
from torch.utils.backend_registration import _DummyBackendModule, _setup_privateuseone_for_python_backend

DEVICE = torch.device("privateuseone", 0)  # torch's name for devices of others; "second" from `_set_up` on
_AUTOCAST = torch._C.DispatchKeySet(torch._C.DispatchKey.AutocastPrivateUse1)
_COPIES = ("aten::_to_copy", "aten::copy_")
_INDEXING = ("aten::index", "aten::index_put", "aten::index_put_")
_READ_BACK = (
    "aten::_local_scalar_dense",
    "aten::equal",
    "aten::masked_select",
    "aten::nonzero",
    "aten::_unique2",
    "aten::unique_consecutive",
    "aten::unique_dim",
)
_HOST_GENERATOR = torch.Generator

# What torch.autocast does on CUDA (torch documentation, "CUDA Op-Specific Behavior"), as far as it is needed.
_IN_BFLOAT16 = ("addmm", "baddbmm", "bmm", "linear", "matmul", "mm", "scaled_dot_product_attention")
_IN_FLOAT32 = (
    "cumsum",
    "exp",
    "expm1",
    "layer_norm",
    "log",
    "log1p",
    "log_softmax.int",
    "logsumexp",
    "pow.Scalar",
    "pow.Tensor_Scalar",
    "pow.Tensor_Tensor",
    "prod",
    "prod.dim_int",
    "reciprocal",
    "rsqrt",
    "softmax.int",
    "softplus",
    "sum",
    "sum.dim_IntList",
)


class _Backend(_DummyBackendModule):
    """What torch asks of a device's module; no generator but those of `_Generator` is used there."""

    def get_rng_state(self, device: int) -> torch.Tensor:
        return torch.empty(0)

    def set_rng_state(self, state: torch.Tensor, device: int) -> None:
        pass

    def get_amp_supported_dtype(self) -> list[torch.dtype]:
        return [torch.bfloat16]


def _map(change: Callable, value):
    """Nested arguments with every leaf changed; torch's own of the kind takes four times as long."""
    if isinstance(value, (list, tuple)):
        parts = [_map(change, part) for part in value]
        return type(value)(*parts) if hasattr(value, "_fields") else type(value)(parts)
    if isinstance(value, dict):
        return {key: _map(change, part) for key, part in value.items()}
    return change(value)


def _leaves(value) -> list:
    found: list = []
    _map(found.append, value)
    return found


def _autocast(kernels: library.Library, name: str, dtype: torch.dtype) -> None:
    """Let an operation cast its arguments, other than those in float64, where autocast is on."""
    operation = getattr(torch.ops.aten, name.partition(".")[0])
    operation = getattr(operation, name.partition(".")[2] or "default")

    def cast(value):
        small = isinstance(value, _Held) and value.is_floating_point() and value.dtype != torch.float64
        return value.to(dtype) if small else value

    def run(*args, **kwargs):
        with torch._C._ExcludeDispatchKeyGuard(_AUTOCAST):
            args, kwargs = _map(cast, (args, kwargs))
            return operation(*args, **kwargs)

    kernels.impl(name, run)


@cache
def _set_up() -> list[library.Library]:
    """Tell torch of the device, once a process; what is returned must live on."""
    _setup_privateuseone_for_python_backend("second", _Backend())
    rest = library.Library("_", "IMPL", "AutocastPrivateUse1")
    rest.fallback(library.fallthrough_kernel)
    casting = library.Library("aten", "IMPL", "AutocastPrivateUse1")
    for names, dtype in ((_IN_BFLOAT16, torch.bfloat16), (_IN_FLOAT32, torch.float32)):
        for name in names:
            _autocast(casting, name, dtype)
    return [rest, casting]


class _Held(torch.Tensor):
    """A tensor on the device; `inner` is what the CPU computes with."""

    @staticmethod
    def __new__(cls, inner):
        layout = inner.shape, inner.stride(), inner.storage_offset()
        with torch.inference_mode(False):  # torch takes views of others for views of this one otherwise
            return torch.Tensor._make_wrapper_subclass(cls, *layout, dtype=inner.dtype, device=DEVICE)

    def __init__(self, inner):
        self.inner = inner

    def __repr__(self):
        return f"{self.inner!r} on {DEVICE}"

    def tolist(self):
        return self.cpu().tolist()

    def untyped_storage(self):
        """By its address safetensors tells which tensors share memory."""
        return self.inner.untyped_storage()

    def data_ptr(self):
        return self.inner.data_ptr()

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        raise RuntimeError(f"{func}: a tensor of {DEVICE} is used outside `second_device`")


# By address: operations see a generator without its Python class.
_GENERATORS: WeakValueDictionary[int, "_Generator"] = WeakValueDictionary()


class _Generator(_HOST_GENERATOR):
    """`torch.Generator`, those of the device drawing on the CPU."""

    def __new__(cls, device="cpu"):
        if torch.device(device).type != DEVICE.type:
            return _HOST_GENERATOR(device)
        self = super().__new__(cls)
        _GENERATORS[self._cdata] = self
        return self

    @property
    def device(self):
        return DEVICE


class _Dispatch(TorchDispatchMode):
    """Runs every operation on the CPU, after the checks; `waits` are names and places of those that wait."""

    def __init__(self):
        super().__init__()
        self.waits: list[str] = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs, name = kwargs or {}, func._schema.name
        if _is_composite(func):  # comes whole in inference mode
            with self:
                return func.decompose(*args, **kwargs)
        leaves = _leaves((args, kwargs))
        tensors = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]
        on_device = any(isinstance(t, _Held) for t in tensors)
        wanted = torch.device(kwargs["device"]).type == DEVICE.type if kwargs.get("device") else on_device
        if on_device and name not in _COPIES:
            _check_together(name, args[:1] if name in _INDEXING else tensors)
        for generator in (leaf for leaf in leaves if isinstance(leaf, _HOST_GENERATOR)):
            known = _GENERATORS.get(generator._cdata, generator)
            if (known.device == DEVICE) != wanted:
                raise RuntimeError(
                    f"{name}: expected a generator of the same device, got one of {known.device}"
                )
        if (wanted or on_device) and _waits(name, args, wanted):
            self.waits.append(f"{name} at {_place()}")
        if "device" in kwargs:
            kwargs = kwargs | {"device": torch.device("cpu")}
        inner_args, inner_kwargs = _map(_inner, (args, kwargs))
        out = func(*inner_args, **inner_kwargs)
        if name == "aten::copy_" and not isinstance(args[0], _Held):
            return args[0]
        if not wanted:
            return out
        out = _map(lambda v: _Held(v) if isinstance(v, torch.Tensor) else v, out)
        return return_and_correct_aliasing(func, args, kwargs, out) if isinstance(args[0], _Held) else out


@cache
def _is_composite(func) -> bool:
    return func.has_kernel_for_dispatch_key(torch._C.DispatchKey.CompositeImplicitAutograd)


def _inner(value):
    return value.inner if isinstance(value, _Held) else value


def _check_together(name: str, values) -> None:
    tensors = [v for v in _leaves(values) if isinstance(v, torch.Tensor)]
    if any(not isinstance(t, _Held) and t.ndim for t in tensors):
        devices = ", ".join(f"{tuple(t.shape)} on {t.device}" for t in tensors)
        raise RuntimeError(f"{name}: expected all tensors to be on the same device, got {devices}")


def _waits(name: str, args, wanted: bool) -> bool:
    """Whether the host waits: for numbers or shapes to come back, or for a copy from pageable memory."""
    if name in _COPIES:
        return isinstance(args[0], _Held) != (wanted if name == _COPIES[0] else isinstance(args[1], _Held))
    if name in _INDEXING[1:] and args[2].numel() == 1:
        return False  # fills where a mask says so
    if name in _INDEXING:
        return any(i is not None and (i.dtype == torch.bool or not isinstance(i, _Held)) for i in args[1])
    return name in _READ_BACK


def _place() -> str:
    """The innermost line of code that is neither torch's nor this file's."""
    for frame in reversed(traceback.extract_stack()):
        if "/torch/" not in frame.filename and frame.filename != __file__:
            return f"{frame.filename}:{frame.lineno}: {frame.line}"
    return "?"


@contextmanager
def second_device() -> Iterator[list[str]]:
    """Make the device usable; gives the list to which waits of the host are added."""
    _set_up()
    dispatch = _Dispatch()
    torch._C._set_only_lift_cpu_tensors(True)  # torch.tensor(..., device=...) then copies by an operation
    try:
        # torch counts devices at a process's first backward pass: one set up later has no thread of its own
        one_thread = torch.autograd.set_multithreading_enabled(False)
        with one_thread, mock.patch("torch.Generator", _Generator), dispatch:
            yield dispatch.waits
    finally:
        torch._C._set_only_lift_cpu_tensors(False)


def host(value):
    """The same with tensors of the device on the CPU, without a copy."""
    return _map(_inner, value)
