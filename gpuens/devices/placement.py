"""Devices: where arrays are and where the work runs."""

from __future__ import annotations

import functools
import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from types import ModuleType, SimpleNamespace
from typing import Any, Literal

import numpy as np
from array_api_compat import array_namespace, is_array_api_obj, is_cupy_array, is_torch_array
from array_api_compat import numpy as numpy_namespace
from scipy.sparse import issparse

from ..kernels.runtime import dispatch
from ..kernels.runtime.dispatch import Implementation
from ..kernels.runtime.system import available_memory
from ..other_names import meant_value
from . import transfer
from .array_library import ArrayLibrary, is_foreign, library_of_all
from .gpu_problems import card_problem, explain, gpu_problem
from .lazy_tables import require_in_memory
from .library_arrays import LibraryArray
from .policy import Work
from .sparse_tables import SparseTable


@dataclass(frozen=True)
class Device:
    """A place where operations run.

    Parameters
    ----------
    kind : {"cpu", "cuda", "simulator", "array"}
        The simulator runs the CUDA kernels in Python, on NumPy arrays; "array" the reference
        operations, on the arrays of any library.
    index : int
        Number of the GPU.
    reason : object
        Why it was chosen, in words once it is printed.
    library : ArrayLibrary or None
        Of the arrays of kind "array"; None: NumPy.
    """

    kind: Literal["cpu", "cuda", "simulator", "array"]
    index: int = 0
    reason: Any = field(default="", compare=False, repr=False)
    library: ArrayLibrary | None = None
    is_gpu: bool = field(init=False, compare=False, repr=False)
    """Whether this is a GPU, which the simulator is not."""
    has_numpy: bool = field(init=False, compare=False, repr=False)
    """Whether the arrays here are NumPy's."""
    runs_ahead: bool = field(init=False, compare=False, repr=False)
    """Whether operations return before their work is done."""

    def __post_init__(self) -> None:
        is_gpu = self.kind == "cuda"
        object.__setattr__(self, "is_gpu", is_gpu)
        object.__setattr__(self, "has_numpy", not is_gpu and self.library is None)
        object.__setattr__(self, "runs_ahead", is_gpu or self.kind == "simulator")

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self.__post_init__()  # pickles of earlier builds lack what follows from the others

    def __str__(self) -> str:
        if self.library is not None:
            return f"the arrays of {self.library.name} on {self.library.place}"
        return f"cuda:{self.index}" if self.kind == "cuda" else self.kind

    @property
    def implementation(self) -> Implementation:
        """The implementation of the operations that runs here."""
        return _IMPLEMENTATIONS.get(self.kind, Implementation.CUDA)

    @property
    def xp(self) -> ModuleType:
        """The namespace of the arrays on this device, with the names of the Array API standard;
        ``array_functions`` has what that lacks."""
        if self.library is not None:
            return self.library  # type: ignore[return-value]
        if self.kind != "cuda":
            return numpy_namespace
        from array_api_compat import cupy

        return cupy

    @property
    def cupy(self) -> ModuleType:
        """CuPy itself, whose streams and memory no standard knows."""
        import cupy

        return cupy

    def asarray(self, array: Any, dtype: Any = None, order: Literal["C"] | None = None) -> Any:
        """Return any library's array on this device, without a copy if it is there already.

        ``dtype`` and ``order`` ("C" for contiguous) as in NumPy.
        """
        if self.library is not None:
            return self.library.asarray(array if is_array_api_obj(array) else on_host(array), dtype)
        if self.kind != "cuda":
            return np.asarray(to_numpy(array), dtype=dtype, order=order)
        cupy = self.cupy
        with cupy.cuda.Device(self.index):
            if is_torch_array(array):
                array = _standard_tensor(array)
                array = cupy.from_dlpack(array) if array.is_cuda else array.numpy()
            if _is_large(array):
                array = transfer.copied(np.asarray(array), cupy, order)
            return cupy.asarray(array, dtype=dtype, order=order)

    def holds(self, array: Any) -> bool:
        """Return whether an array is read on this device, and not in host memory: on a GPU if it
        is in the memory of one, and by a library if it is one of its arrays."""
        if self.library is not None:
            return is_foreign(array)
        return self.kind == "cuda" and gpu_of(array) is not None

    def settled(self, made: Any) -> Any:
        """Return the arrays unchanged, once CuPy's current stream has made it.

        Arrays that are kept from call to call pass through here: a later call may be made on
        another stream, which does not wait for the one that they were made on.
        """
        if self.kind == "cuda":
            with self.cupy.cuda.Device(self.index):
                self.cupy.cuda.get_current_stream().synchronize()
        return made

    def memory(self) -> tuple[int | None, int | None]:
        """Return the free bytes and, for a GPU, its capacity; None if unknown.

        What CuPy's pool holds back for further arrays is free, up to the limit that the pool has.
        Free memory is unknown with custom allocators.
        """
        if self.kind != "cuda":
            return available_memory(), None
        cupy = self.cupy
        with cupy.cuda.Device(self.index):
            free, capacity = cupy.cuda.runtime.memGetInfo()
            pool: Any = getattr(cupy.cuda.get_allocator(), "__self__", None)
            if not hasattr(pool, "free_bytes"):
                return None, capacity
            free += pool.free_bytes()
            limit = pool.get_limit()
            return (min(free, limit - pool.used_bytes()) if limit else free), capacity

    def active(self) -> AbstractContextManager[None]:
        """Run the operations inside the block on this device.

        Raises
        ------
        MemoryError
            The GPU has not enough memory; the message has the free bytes.
        """
        if self.kind == "simulator":
            return dispatch.using_cuda()
        if self.kind == "array":
            return dispatch.using(self.implementation)
        return _OnGpu(self) if self.kind == "cuda" else _ON_HOST


class _OnGpu:
    """A block whose operations run on a GPU. A prediction enters two, so it is a class and not a
    generator."""

    __slots__ = ("_before", "_device")

    def __init__(self, device: Device) -> None:
        self._device = device

    def __enter__(self) -> None:
        self._before = self._device.cupy.cuda.Device(self._device.index)
        self._before.__enter__()

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        try:
            if isinstance(error, Exception):
                explain(str(self._device), error)
        finally:
            # A GPU that is lost refuses this too: what is raised already says more.
            with suppress(Exception) if error is not None else nullcontext():
                self._before.__exit__(kind, error, trace)


_IMPLEMENTATIONS = {"cpu": Implementation.CPU, "array": Implementation.REFERENCE}
_ON_HOST = nullcontext()
CPU = Device("cpu")
CPU_BY_WORD = Device("cpu", reason="device='cpu'")
SIMULATOR = Device("simulator")
ANY_GPU = Device("cuda", -1)
_PLACES = {"auto": None, "array": None, "cpu": CPU, "cuda": ANY_GPU}
"""The device of each value of ``device``; None where the arrays decide."""


def to_numpy(array: Any) -> np.ndarray:
    """Return a NumPy, CuPy or torch array (or anything that NumPy reads) as a NumPy array."""
    if type(array) is np.ndarray:
        return array
    if isinstance(array, LibraryArray):
        return array.to_numpy()
    if is_cupy_array(array):
        return array.get()
    if is_torch_array(array):
        return _standard_tensor(array).cpu().numpy()
    if is_gpu_frame(array):
        return np.asarray(array.to_pandas())
    if is_of_the_standard(array):
        with suppress(AttributeError, BufferError, RuntimeError, TypeError):
            return np.from_dlpack(array)
    return np.asarray(array)


def on_host(array: Any) -> Any:
    """Tensors, arrays on a GPU and those of further array libraries as NumPy arrays, frames and
    columns of cuDF as pandas', CuPy's sparse matrices as SciPy's; anything else untouched."""
    if isinstance(array, np.ndarray):
        return array
    if is_gpu_frame(array):
        return array.to_pandas()
    if is_gpu_sparse(array):
        return array.get()
    foreign = is_torch_array(array) or is_cupy_array(array) or is_of_the_standard(array)
    return to_numpy(array) if foreign else array


def is_of_the_standard(array: Any) -> bool:
    """Return whether an array follows the Array API standard, in a library that is not known by
    name."""
    known = isinstance(array, (np.ndarray, np.generic)) or is_cupy_array(array)
    return not known and hasattr(array, "__array_namespace__")


def module_of(array: Any) -> ModuleType:
    """Return the namespace of an array, as ``Device.xp`` is one; NumPy's for anything that
    is not an array."""
    if isinstance(array, np.ndarray) or not is_array_api_obj(array):
        return numpy_namespace
    return array_namespace(array)


def home_of(X: Any, device: Device) -> Device:
    """Return where a table stays until it is binned: in host memory if it is there, from where
    it comes to a GPU in pieces, else on ``device``."""
    return CPU if device.is_gpu and gpu_of(X) is None else device


def is_streamed(X: Any, device: Device) -> bool:
    """Return whether a table comes to a device in pieces: from the host to a GPU, and as dense
    blocks of a sparse one."""
    return isinstance(X, SparseTable) or (device.is_gpu and isinstance(X, np.ndarray))


ROOM_FOR_TABLE = 0.25
"""The share of the free memory that a table may take which is read many times."""


def near(table: Any, device: Device) -> Any:
    """Return a table that is read many times: a copy on a GPU that has much more free memory than
    it takes, otherwise the table itself, which comes there in pieces each time."""
    if not is_streamed(table, device) or isinstance(table, SparseTable):
        return table
    free, _ = device.memory()
    has_room = free is not None and table.nbytes <= ROOM_FOR_TABLE * free
    return device.asarray(table) if has_room else table


def _is_large(array: Any) -> bool:
    """Return whether an array comes to a GPU in several pieces."""
    if not isinstance(array, np.ndarray) or array.nbytes <= transfer.PIECE_BYTES:
        return False
    return array.dtype.kind in "biuf" and array.dtype.isnative


def _standard_tensor(tensor: Any) -> Any:
    """Return a tensor without gradient, of a type that NumPy and CuPy have."""
    tensor = tensor.detach()
    return tensor.float() if str(tensor.dtype) == "torch.bfloat16" else tensor


def is_gpu_frame(values: Any) -> bool:
    """Return whether something is a data frame or a column of cuDF."""
    return type(values).__module__.partition(".")[0] == "cudf" and hasattr(values, "to_cupy")


def is_gpu_sparse(values: Any) -> bool:
    """Return whether something is a sparse matrix of CuPy."""
    return type(values).__module__.startswith("cupyx.scipy.sparse")


def is_sparse(values: Any) -> bool:
    """Return whether something is a sparse matrix of SciPy or CuPy."""
    return issparse(values) or is_gpu_sparse(values)


def gpu_of(array: Any) -> int | None:
    """Return the number of the GPU that holds an array, a data frame or a sparse matrix, None for
    anything in host memory.

    cuDF works on the current GPU.
    """
    if isinstance(array, np.ndarray):
        return None
    if is_cupy_array(array):
        return int(array.device.id)
    if is_gpu_frame(array):
        return _current_gpu()
    if is_gpu_sparse(array):
        return int(array.data.device.id)
    if is_torch_array(array) and array.is_cuda:
        return int(array.device.index)
    return None


def resolve_device(
    device: str, X: Any = None, *, work: Work | Callable[[], Work] | None = None, **others: Any
) -> Device:
    """Choose where to work.

    Parameters
    ----------
    device : str
        "auto" follows the arrays: the GPU that holds any of them, else a usable GPU if the
        machine has one and the work is worth it, else the CPU. "cuda" is a GPU ("cuda:1" a
        certain one), and the simulator under ``NUMBA_ENABLE_CUDASIM=1``. "cpu" is the CPU, also
        for arrays on a GPU: they are copied to the host. "array" is where the library of the arrays
        has them; NumPy's reference for everything that is of no library.
    X : array or data frame
    work : Work, callable or None
        What is to be done, or a function that estimates it, by which "auto" decides about data in
        host memory; None: anything is worth a GPU. No GPU is looked for where it would not be
        used.
    **others : array or None
        What comes along, by argument name. Arrays in host memory are copied to the chosen
        GPU, whichever of the arguments they are.

    Raises
    ------
    TypeError
        An array is a plan to compute one (see ``lazy_tables``).
    ValueError
        ``device`` is none of these words, or arrays are on different GPUs.
    RuntimeError
        A GPU is required, by word or by an array, and cannot be used; the message has the reason.
    """
    named = isinstance(device, str) and device in _PLACES
    wanted, arrays = _PLACES[device] if named else _numbered_gpu(device), {"X": X, **others}
    for name, array in arrays.items():
        if array is not None and not isinstance(array, np.ndarray):
            require_in_memory(array, name)
    if device == "array":
        library, reason = library_of_all(arrays)
        return Device("array", reason=reason, library=library)
    if wanted == CPU:
        return CPU_BY_WORD
    homes = {name: gpu for name, array in arrays.items() if (gpu := gpu_of(array)) is not None}
    if simulated():
        return _resolve_simulated(device, homes)
    if device == "auto" and not homes:
        work = work() if callable(work) else work
        if work is not None and not work.pays_on_gpu:
            return Device("cpu", reason=work)
        problem = gpu_problem() or card_problem(_current_gpu())
        if problem is not None:
            return Device("cpu", reason=problem)
    _require_gpu(device, homes)
    if wanted is not None and wanted.index >= 0:
        homes = {"device": wanted.index, **homes}
    if len(set(homes.values())) > 1:
        places = ", ".join(f"{name} on cuda:{gpu}" for name, gpu in homes.items())
        raise ValueError(f"All arrays must be on one GPU, got {places}. Copy them to the same one.")
    index = next(iter(homes.values())) if homes else _current_gpu()
    if (problem := card_problem(index)) is not None:
        raise RuntimeError(f"{_asking(device, homes)}, but {problem}.")
    if not homes and wanted is None:
        return Device("cuda", index, work)
    return _gpu_for(device, index, *(next(iter(homes.items())) if homes else ("", index)))


def places_beside(own_streams: bool = True) -> Callable[[], AbstractContextManager[Any]]:
    """Return ``place``: in ``with place():`` another thread works on the GPU that is CuPy's current
    one here, on a stream of its own, or on the caller's if only one thread works at a time.

    The work inside begins after what the stream of the caller holds now, and is finished when the
    block ends. A new thread otherwise begins on the first GPU and its default stream.
    """
    cupy = sys.modules.get("cupy")
    if cupy is None or simulated() or gpu_problem() is not None:
        return nullcontext
    index, stream = _current_gpu(), cupy.cuda.get_current_stream()
    ready = stream.record()
    # CuPy's pool gives freed memory to the same stream again.
    of_thread: Any = threading.local() if own_streams else SimpleNamespace(stream=stream)

    @contextmanager
    def place() -> Iterator[None]:
        with cupy.cuda.Device(index):
            if not hasattr(of_thread, "stream"):
                of_thread.stream = cupy.cuda.Stream(non_blocking=True)
                of_thread.stream.wait_event(ready)
            with of_thread.stream:
                try:
                    yield
                finally:
                    of_thread.stream.synchronize()

    return place


def simulated() -> bool:
    """Return whether Numba runs CUDA kernels in its simulator."""
    if "numba" not in sys.modules and not (
        "NUMBA_ENABLE_CUDASIM" in os.environ or os.path.exists(".numba_config.yaml")
    ):
        return False
    return bool(getattr(_settings_of_numba(), "ENABLE_CUDASIM", False))


@functools.cache
def _settings_of_numba() -> ModuleType:
    from numba.core import config

    return config


def _numbered_gpu(device: Any) -> Device:
    """Return the GPU that a word such as "cuda:1" names."""
    if isinstance(device, str) and device.startswith("cuda:") and device[5:].isdecimal():
        return Device("cuda", int(device[5:]))
    raise ValueError(
        f"device must be 'auto', 'cpu', 'cuda', 'cuda:<number>' or 'array', got {device!r}."
        f"{meant_value('device', device)}"
    )


def _resolve_simulated(device: str, homes: dict[str, int]) -> Device:
    for name, gpu in homes.items():
        raise RuntimeError(
            f"{name} is on cuda:{gpu}, which cannot be used while NUMBA_ENABLE_CUDASIM=1 asks "
            "for the simulator. Unset it, or pass device='cpu'."
        )
    return CPU if device == "auto" else SIMULATOR


def report_choice(device: Device, further: str = "") -> None:
    """Print where the work runs and why, for estimators that are verbose, and what else was
    chosen."""
    line = f"Running on {device}" + (f": {device.reason}." if device.reason else ".")
    print(f"{line} {further}".rstrip(), file=sys.stderr)


def _require_gpu(device: str, homes: dict[str, int]) -> None:
    problem = gpu_problem()
    if problem is not None:
        raise RuntimeError(f"{_asking(device, homes)}, but {problem}.")
    wanted = int(device[5:]) if device.startswith("cuda:") else 0
    if wanted and wanted >= (count := _count_gpus()):
        raise RuntimeError(f"device={device!r}, but this machine has only {count} GPU(s).")


def _asking(device: str, homes: dict[str, int]) -> str:
    """Why a GPU should be used."""
    if device != "auto" or not homes:
        return f"device={device!r} asks for a GPU"
    return _origin(device, homes)


@functools.lru_cache(maxsize=64)  # small predictions choose the same device again and again
def _gpu_for(device: str, index: int, name: str, gpu: int) -> Device:
    """Return a GPU that a word, or the first of the arrays on a GPU, asks for."""
    return Device("cuda", index, _origin(device, {name: gpu}))


def _origin(device: str, homes: dict[str, int]) -> str:
    """Return what names the device: the word, or the first of the arrays on a GPU."""
    if device != "auto":
        return f"device={device!r}"
    name, gpu = next(iter(homes.items()))
    return f"{name} is on cuda:{gpu}"


def _current_gpu() -> int:
    import cupy

    return int(cupy.cuda.runtime.getDevice())


def _count_gpus() -> int:
    import cupy

    return int(cupy.cuda.runtime.getDeviceCount())
