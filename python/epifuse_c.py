"""Epifuse's C interface (jit/epifuse.h) for Python, by ctypes alone: for scripts that time kernels beside a framework's.

    engine = Engine()
    kernel = engine.load("specs/grouped_gemm.epi", dims={"E": 8, "K": 7168, "N": 4096})
    call = kernel.bind({"x": x, "w": w, "M.ends": ends, "y": y})     # torch tensors, or Tensor(pointer, shape, ...)
    call.launch(torch.cuda.current_stream().cuda_stream)

The library is found by EPIFUSE_LIBRARY, beside this file, in the checkout's build/release, or by the loader. Nothing else
is imported at import time.
"""

import ctypes
import json
import os
from ctypes import POINTER, Structure, byref, c_char_p, c_double, c_int32, c_int64, c_size_t, c_void_p, sizeof

DEVICE_NONE = -1
DEVICE_CURRENT = -2


class EpifuseError(RuntimeError):
    """status is the command's exit code: 1 user, 2 usage, 3 machine, 4 bug, 5 wrong."""

    def __init__(self, status, message):
        super().__init__(message)
        self.status = status


class _EngineOptions(Structure):
    _fields_ = [("size", c_size_t), ("cache_directory", c_char_p), ("log", c_void_p), ("log_data", c_void_p)]


class _Dim(Structure):
    _fields_ = [("name", c_char_p), ("value", c_int64)]


class _KernelOptions(Structure):
    _fields_ = [
        ("size", c_size_t), ("spec_path", c_char_p), ("spec_text", c_char_p), ("kernel", c_char_p),
        ("dims", POINTER(_Dim)), ("dim_count", c_size_t), ("left_out", POINTER(c_char_p)), ("left_out_count", c_size_t),
        ("schedule", c_char_p), ("target", c_char_p), ("device", c_int32), ("unfused", c_int32),
    ]


class _BufferInfo(Structure):
    _fields_ = [
        ("size", c_size_t), ("name", c_char_p), ("storage", c_char_p), ("role", c_char_p), ("rank", c_int32),
        ("alignment", c_int32), ("extents", POINTER(c_char_p)), ("strided", c_int32), ("pointer_axes", c_int32),
    ]


class _Tensor(Structure):
    _fields_ = [
        ("size", c_size_t), ("name", c_char_p), ("pointer", c_void_p), ("storage", c_char_p), ("rank", c_int32),
        ("extents", POINTER(c_int64)), ("strides", POINTER(c_int64)),
    ]


class _Param(Structure):
    _fields_ = [("name", c_char_p), ("value", c_double)]


class _Arguments(Structure):
    _fields_ = [
        ("size", c_size_t), ("tensors", POINTER(_Tensor)), ("tensor_count", c_size_t), ("params", POINTER(_Param)),
        ("param_count", c_size_t), ("workspace", c_void_p), ("workspace_bytes", c_int64),
    ]


class _LaunchOptions(Structure):
    _fields_ = [("size", c_size_t), ("sm_margin", c_int32), ("overlap_previous", c_int32)]


def _open_library():
    here = os.path.dirname(os.path.abspath(__file__))
    places = [os.path.join(here, "libepifuse.so.0"), os.path.join(here, "../build/release/jit/libepifuse.so.0")]
    found = [path for path in places if os.path.exists(path)]
    library = ctypes.CDLL(os.environ.get("EPIFUSE_LIBRARY") or (found + ["libepifuse.so.0"])[0])
    signatures = {
        "version": (c_char_p, []),
        "last_error": (c_char_p, []),
        "engine_create": (c_int32, [POINTER(_EngineOptions), POINTER(c_void_p)]),
        "engine_destroy": (None, [c_void_p]),
        "engine_toolchain_calls": (c_int64, [c_void_p]),
        "kernel_load": (c_int32, [c_void_p, POINTER(_KernelOptions), POINTER(c_void_p)]),
        "kernel_destroy": (None, [c_void_p]),
        "kernel_info": (c_char_p, [c_void_p]),
        "kernel_buffer_count": (c_size_t, [c_void_p]),
        "kernel_buffer": (c_int32, [c_void_p, c_size_t, POINTER(_BufferInfo)]),
        "workspace_bytes": (c_int32, [c_void_p, POINTER(_Arguments), POINTER(c_int64)]),
        "bind": (c_int32, [c_void_p, POINTER(_Arguments), POINTER(c_void_p)]),
        "call_destroy": (None, [c_void_p]),
        "rebind": (c_int32, [c_void_p, POINTER(c_void_p), c_size_t, c_void_p]),
        "launch": (c_int32, [c_void_p, c_void_p, c_int32]),
        "launch_with": (c_int32, [c_void_p, c_void_p, POINTER(_LaunchOptions)]),
        "synchronize": (c_int32, [c_void_p, c_void_p]),
        "check_group_sizes": (c_int32, [c_void_p, c_void_p]),
    }
    for name, (result, arguments) in signatures.items():
        function = getattr(library, "epifuse_" + name)
        function.restype, function.argtypes = result, arguments
    return library


_library = None


def library():
    """The shared library, opened at the first use."""
    global _library
    if _library is None:
        _library = _open_library()
    return _library


def _check(status):
    if status != 0:
        raise EpifuseError(status, library().epifuse_last_error().decode())


def _text(value):
    return None if value is None else os.fspath(value).encode()


class _Handle:
    """Owns one object of the library."""

    _destroy = None

    def __init__(self, handle):
        self._handle = handle

    def __del__(self):
        if getattr(self, "_handle", None) and _library is not None:
            getattr(_library, self._destroy)(self._handle)
            self._handle = None


class Tensor:
    """Device memory for bind(): an address with its shape. Strides are in elements; None means contiguous.

    For a buffer with pointer_axes (`w : bf16[E][N, K]`) the address is that of a device array of E 8-byte pointers, and
    the shape still (E, N, K): `Tensor.of_buffers([w0, w1, ...], array)`, where array is an int64 tensor on the GPU that
    holds what data_ptr() of each says."""

    def __init__(self, pointer, shape, strides=None, storage=None):
        self.pointer, self.shape, self.strides, self.storage = int(pointer), tuple(shape), strides, storage
        self.owners = ()  # what must live as long as the memory is used

    @classmethod
    def of_buffers(cls, buffers, array):
        """One buffer for each pointer in `array`; all have the shape and the strides of the first."""
        buffers = [cls.of(buffer) for buffer in buffers]
        shapes = {(buffer.shape, None if buffer.strides is None else tuple(buffer.strides)) for buffer in buffers}
        if len(shapes) != 1:
            raise ValueError("buffers behind one array of pointers need one shape and one set of strides")
        shape, strides = shapes.pop()
        pointers = cls.of(array)
        made = cls(pointers.pointer, (len(buffers), *shape), None if strides is None else (0, *strides))
        made.owners = (buffers, pointers)
        return made

    @classmethod
    def of(cls, value):
        """A Tensor, or anything with data_ptr(), shape and stride() (a torch tensor)."""
        if isinstance(value, cls):
            return value
        made = cls(value.data_ptr(), value.shape, value.stride())
        made.owners = (value,)
        return made

    def of_nibbles(self):
        """The same memory as 4-bit codes, two in each of its bytes along the last dimension."""
        shape = (*self.shape[:-1], 2 * self.shape[-1])
        strides = None if self.strides is None else (*(2 * stride for stride in self.strides[:-1]), self.strides[-1])
        made = Tensor(self.pointer, shape, strides, "e2m1")
        made.owners = self.owners
        return made


class Engine(_Handle):
    _destroy = "epifuse_engine_destroy"

    def __init__(self, cache_directory=None):
        options = _EngineOptions(sizeof(_EngineOptions), _text(cache_directory), None, None)
        handle = c_void_p()
        _check(library().epifuse_engine_create(byref(options), byref(handle)))
        super().__init__(handle)

    @property
    def toolchain_calls(self):
        return library().epifuse_engine_toolchain_calls(self._handle)

    def load(self, path=None, *, text=None, kernel=None, dims=None, left_out=(), schedule=None, target=None,
             device=DEVICE_CURRENT, unfused=False):
        """A Kernel from a spec file or text; unfused: each of its operations as a kernel of its own."""
        dims = dict(dims or {})
        left_out = [_text(name) for name in left_out]
        options = _KernelOptions(
            sizeof(_KernelOptions), _text(path), _text(text), _text(kernel),
            (_Dim * len(dims))(*[_Dim(_text(name), value) for name, value in dims.items()]), len(dims),
            (c_char_p * len(left_out))(*left_out), len(left_out), _text(schedule), _text(target), device, unfused)
        handle = c_void_p()
        _check(library().epifuse_kernel_load(self._handle, byref(options), byref(handle)))
        return Kernel(handle)


class Kernel(_Handle):
    _destroy = "epifuse_kernel_destroy"

    @property
    def info(self):
        return json.loads(library().epifuse_kernel_info(self._handle))

    @property
    def buffers(self):
        """What must be bound, by name: storage, role, extents (texts over dimensions), alignment, strided, pointer_axes."""
        found = {}
        for index in range(library().epifuse_kernel_buffer_count(self._handle)):
            info = _BufferInfo(size=sizeof(_BufferInfo))
            _check(library().epifuse_kernel_buffer(self._handle, index, byref(info)))
            found[info.name.decode()] = {
                "storage": info.storage.decode(), "role": info.role.decode(),
                "extents": [info.extents[i].decode() for i in range(info.rank)],
                "alignment": info.alignment, "strided": bool(info.strided), "pointer_axes": info.pointer_axes,
            }
        return found

    def _arguments(self, tensors, params, workspace):
        packed = {name for name, info in self.buffers.items() if info["storage"] == "e2m1"}
        tensors = {name: self._tensor(value, name in packed) for name, value in tensors.items()}
        array = (_Tensor * len(tensors))()
        for entry, (name, value) in zip(array, tensors.items()):
            rank = len(value.shape)
            entry.size, entry.name, entry.pointer, entry.rank = sizeof(_Tensor), _text(name), value.pointer, rank
            entry.storage = _text(value.storage)
            entry.extents = (c_int64 * rank)(*value.shape)
            if value.strides is not None:
                entry.strides = (c_int64 * rank)(*value.strides)
        params = dict(params or {})
        workspace = Tensor.of(workspace) if workspace is not None else Tensor(0, (0,))
        size = 1
        for extent in workspace.shape:
            size *= extent
        return _Arguments(
            sizeof(_Arguments), array, len(tensors),
            (_Param * len(params))(*[_Param(_text(name), value) for name, value in params.items()]), len(params),
            workspace.pointer or None, size)

    @staticmethod
    def _tensor(value, packed):
        """Whatever has bytes stands for twice as many 4-bit codes; a Tensor is taken at its word."""
        made = Tensor.of(value)
        return made.of_nibbles() if packed and not isinstance(value, Tensor) else made

    def workspace_bytes(self, tensors, params=None):
        needed = c_int64()
        arguments = self._arguments(tensors, params, None)
        _check(library().epifuse_workspace_bytes(self._handle, byref(arguments), byref(needed)))
        return needed.value

    def bind(self, tensors, params=None, workspace=None):
        """A Call. `workspace` is device memory in bytes (uint8), where workspace_bytes() asks for some. The buffers are
        kept alive by the Call. 4-bit codes are bound as tensors of bytes, whose last dimension is half as long."""
        handle = c_void_p()
        arguments = self._arguments(tensors, params, workspace)
        _check(library().epifuse_bind(self._handle, byref(arguments), byref(handle)))
        call = Call(handle)
        call.buffers = (dict(tensors), workspace)
        call.names = list(self.buffers)
        return call


class Call(_Handle):
    _destroy = "epifuse_call_destroy"

    def rebind(self, tensors, workspace=None):
        """Other buffers of the same shapes and strides, which are not compared; every buffer is given, and a workspace as
        large as the bound one. Much cheaper than a bind. Only addresses are checked."""
        pointers = (c_void_p * len(self.names))(*[Tensor.of(tensors[name]).pointer or None for name in self.names])
        room = Tensor.of(workspace).pointer if workspace is not None else None
        _check(library().epifuse_rebind(self._handle, pointers, len(self.names), room or None))
        self.buffers = (dict(tensors), workspace)

    def launch(self, stream=0, sm_margin=0, overlap_previous=False):
        """sm_margin multiprocessors are left to others. overlap_previous: the kernel may start while what is before it
        in the stream still runs (programmatic dependent launch); it waits itself before it touches memory."""
        if overlap_previous:
            options = _LaunchOptions(sizeof(_LaunchOptions), sm_margin, 1)
            status = _library.epifuse_launch_with(self._handle, stream, byref(options))
        else:
            status = _library.epifuse_launch(self._handle, stream, sm_margin)
        if status:
            _check(status)

    def synchronize(self, stream=0):
        _check(library().epifuse_synchronize(self._handle, stream))

    def check_group_sizes(self, stream=0):
        _check(library().epifuse_check_group_sizes(self._handle, stream))
