"""The devices of workers that share the rows of a table: those that add up sums of their rows all
work on CPUs, or each on a GPU of its own; those that have all rows choose for themselves."""

from __future__ import annotations

import platform
from typing import Any, NamedTuple

from ..kernels.runtime.collective import Workers, objects_of_all
from . import placement
from .placement import ANY_GPU, Device, gpu_of, resolve_device
from .policy import Work

NO_GPU = ""


def device_among_workers(device: str, workers: Workers, X: Any, **others: Any) -> Device:
    """Choose where this worker works (see ``resolve_device``).

    "auto" follows the arrays alone. "cuda" is the k-th GPU for the k-th of the workers that see the
    same ones, for arrays in host memory.

    Raises
    ------
    ValueError
        On all workers: some would work on a GPU and others on the CPU, or two on the same GPU; or
        ``device`` is "array".
    RuntimeError
        On all workers: one of them cannot use a GPU, though it should.
    """
    wanted = "cpu" if device == "auto" and not _is_on_gpu(X, others) else device
    chosen, found = _chosen(wanted, workers, X, others)
    _require_equal([each.kind for each in found])
    _require_own([each.name for each in found])
    return chosen


def device_of_worker(device: str, workers: Workers, X: Any, work: Work, **others: Any) -> Device:
    """Choose where this worker works on rows that all workers have, whatever the others choose.

    "auto" is the choice of ``resolve_device`` for ``work``, with the k-th GPU for the k-th of the
    workers that see the same ones; where they are more than GPUs, the CPU for those that are left
    over. "cuda" is as for ``device_among_workers``.

    Raises
    ------
    ValueError
        On all workers, unless ``device`` is "auto": two would work on the same GPU.
    RuntimeError
        On all workers: one of them cannot use a GPU, though it should.
    """
    wanted, is_free = device, device == "auto" and not _is_on_gpu(X, others)
    if is_free:
        wanted = "cuda" if resolve_device(device, X, work=work, **others).is_gpu else "cpu"
    chosen, found = _chosen(wanted, workers, X, others, is_free)
    names = [each.name for each in found]
    if device != "auto":
        _require_own(names)
    elif chosen.is_gpu and names.index(names[workers.collective.rank]) < workers.collective.rank:
        return Device("cpu", reason=f"another worker has {chosen}")
    return chosen


class _Found(NamedTuple):
    """The choice of a worker: the kind of the device, the name of a GPU, and what is wrong."""

    kind: str
    name: str
    problem: str


def _is_on_gpu(X: Any, others: dict[str, Any]) -> bool:
    return any(gpu_of(array) is not None for array in (X, *others.values()))


def _chosen(
    wanted: str, workers: Workers, X: Any, others: dict[str, Any], is_free: bool = False
) -> tuple[Device, list[_Found]]:
    """Return the device that a word asks for, and what all workers have chosen; ``is_free``: the
    CPU will do where that GPU cannot be used."""
    if wanted == "array":
        raise ValueError(
            "device='array' works in one process, and the rows are shared among several: pass "
            "device='auto'."
        )
    gpus = _visible_gpus() if wanted == "cuda" and not _is_on_gpu(X, others) else ()
    before = objects_of_all(gpus, workers)[: workers.collective.rank]
    if len(gpus) > 1:
        wanted = f"cuda:{before.count(gpus) % len(gpus)}"
    chosen, problem = Device("cpu"), ""
    try:
        chosen = resolve_device(wanted, X, **others)
    except RuntimeError as error:
        chosen, problem = Device("cpu", reason=error), "" if is_free else str(error)
    found = objects_of_all(_Found(chosen.kind, name_of_gpu(chosen), problem), workers)
    for rank, each in enumerate(found):
        if each.problem:
            raise RuntimeError(
                f"Worker {rank} of {len(found)} cannot work on a GPU: {each.problem} Start a "
                "worker for each GPU, and none elsewhere, or pass device='cpu'."
            )
    return chosen, found


def _visible_gpus() -> tuple[str, ...]:
    """Return the names of the GPUs that this process may use."""
    if placement.simulated() or placement.gpu_problem() is not None:
        return ()
    n_gpus = ANY_GPU.cupy.cuda.runtime.getDeviceCount()
    return tuple(name_of_gpu(Device("cuda", index)) for index in range(n_gpus))


def name_of_gpu(device: Device) -> str:
    """Return what no other GPU is called, of any machine; an empty string where there is none."""
    if not device.is_gpu:
        return NO_GPU
    uuid = device.cupy.cuda.runtime.getDeviceProperties(device.index).get("uuid", b"")
    own = uuid.hex() if any(uuid) else device.cupy.cuda.Device(device.index).pci_bus_id
    return f"{platform.node()} {own}"


def _require_equal(kinds: list[str]) -> None:
    if len(set(kinds)) > 1:
        on_gpu = [rank for rank, kind in enumerate(kinds) if kind != "cpu"]
        on_cpu = [rank for rank, kind in enumerate(kinds) if kind == "cpu"]
        raise ValueError(
            "All workers must work on GPUs, or all on CPUs: the rows of worker "
            f"{', '.join(map(str, on_gpu))} are on a GPU, those of worker "
            f"{', '.join(map(str, on_cpu))} are not. Pass device='cuda' or device='cpu'."
        )


def _require_own(names: list[str]) -> None:
    for rank, name in enumerate(names):
        if name != NO_GPU and (first := names.index(name)) < rank:
            raise ValueError(
                f"Each worker must have a GPU of its own, but workers {first} and {rank} have the "
                f"same one ({name}). Start one worker a GPU, each with its own "
                "CUDA_VISIBLE_DEVICES, as dask-cuda's LocalCUDACluster does."
            )
