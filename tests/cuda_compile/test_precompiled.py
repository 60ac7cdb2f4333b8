"""Precompiled kernels: which file is used, and which is not.

Loading itself needs a driver; everything up to it runs here.
"""

from __future__ import annotations

import ctypes
import lzma
import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import pytest
from numba import config

if config.ENABLE_CUDASIM:
    pytest.skip("compiling needs a process without the simulator", allow_module_level=True)
pytest.importorskip("numba_cuda")
pytest.importorskip("cuda.bindings.nvjitlink")

import gpuens
from building import cubins
from gpuens.kernels import catalogue
from gpuens.kernels.runtime import kernel_origins, source_stamps
from gpuens.kernels.runtime.cuda import compiling, launching, precompiled
from gpuens.kernels.runtime.cuda.compiling import kinds_of, types_of
from gpuens.kernels.statistics.cuda.gradients import gradients_kernel
from gpuens.losses import CustomLoss
from tests.ptx import machine

ENTRIES = {entry.name: entry for entry in catalogue.entries()}
ENTRY = ENTRIES["add_leaf_values_wide"]
NAMES = ["add_leaf_values_wide", "newton_steps"]
KINDS = kinds_of(ENTRY.arguments)


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """Two kernels for three architectures, and their PTX."""
    folder = tmp_path_factory.mktemp("prebuilt")
    cubins.build(folder, ((75, 80), (120,)), NAMES)
    return folder


@pytest.fixture
def folder(built, tmp_path, monkeypatch):
    """A copy of the files for a device with compute capability 8.6 and a driver for CUDA 99."""
    for path in built.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    monkeypatch.setattr(precompiled, "FOLDER", tmp_path)
    monkeypatch.setattr(precompiled, "capability_of", lambda device: (8, 6))
    monkeypatch.setattr(precompiled, "driver_version", lambda: (99, 0))
    monkeypatch.setattr(precompiled, "loaded", lambda kernel, is_ptx: (kernel.code, is_ptx))
    monkeypatch.setattr(precompiled, "_refused", set())
    monkeypatch.setattr(
        kernel_origins, "_names", {name: set() for name in kernel_origins.of_cuda()}
    )
    precompiled.archive_for.cache_clear()
    yield tmp_path
    precompiled.archive_for.cache_clear()


def test_every_kernel_has_a_name_of_its_own():
    """Which follows from what the launcher knows, as well as from the catalogue."""
    keys = {}
    for entry in ENTRIES.values():
        kinds = kinds_of(entry.arguments)
        assert types_of(kinds) == entry.arguments, entry.name
        key = precompiled.key_of(entry.kernel, kinds)
        assert key is not None
        assert keys.setdefault(key, (id(entry.kernel), kinds)) == (id(entry.kernel), kinds)
    assert launching.kind_of(np.float64(1)) == launching.kind_of(1.0) == KINDS[3]


def test_a_kernel_is_found(folder):
    """The cubin of its generation."""
    code, is_ptx = precompiled.find(ENTRY.kernel, 0, KINDS)
    assert not is_ptx
    assert list(map(len, kernel_origins.of_cuda().values())) == [1, 0, 0]
    kernels = precompiled.read(folder / "cuda-sm_75-80.xz", 80).kernels
    assert code == kernels[precompiled.key_of(ENTRY.kernel, KINDS)].code
    assert code.startswith(b"\x7fELF") and b"\0.text.gpuens_add_leaf_values_wide\0" in code


def test_code_is_what_was_linked(built):
    """Each architecture's, whatever lies beside it in the file."""
    texts = precompiled.read(built / "cuda-ptx_75.xz", 75)
    symbols = [text.symbol for text in texts.kernels.values()]
    assert sorted(symbols) == [f"gpuens_{name}" for name in NAMES]
    key = precompiled.key_of(ENTRY.kernel, KINDS)
    text = texts.kernels[key]
    assert text == cubins.ptx_of(ENTRY)[0]
    for name, architecture in (("75-80", 75), ("75-80", 80), ("120", 120)):
        found = precompiled.read(built / f"cuda-sm_{name}.xz", architecture).kernels[key]
        assert found == cubins.cubin_of(text, architecture)


@pytest.mark.parametrize("capability, expected", [
    ((8, 0), 80), ((8, 6), 80), ((8, 7), 80), ((8, 9), 80), ((10, 3), 100), ((12, 1), 120),
])  # fmt: skip
def test_later_devices_of_a_generation_run_the_code_of_its_first(tmp_path, capability, expected):
    for path, _ in cubins._files(tmp_path, cubins.FILES):
        path.touch()
    best, *_ = precompiled.candidates(capability, tmp_path)
    assert best[1] == expected and best[0].name.startswith("cuda-sm_")


def test_other_types_functions_and_losses_are_not(folder):
    assert precompiled.find(ENTRY.kernel, 0, KINDS[:3]) is None
    assert precompiled.find(ENTRIES["count_draws"].kernel, 0, KINDS) is None
    loss = CustomLoss(*(lambda y, score: score - y,) * 3)
    kernel = gradients_kernel(type(loss.formula(0)))
    assert precompiled.key_of(kernel, KINDS) is None and precompiled.find(kernel, 0, KINDS) is None


@pytest.mark.parametrize("capability, driver, expected", [
    ((8, 0), (13, 5), ("cuda-sm_75-80.xz", 80)), ((8, 6), (13, 5), ("cuda-sm_75-80.xz", 80)),
    ((8, 9), (13, 0), ("cuda-sm_75-80.xz", 80)), ((12, 1), (13, 0), ("cuda-sm_120.xz", 120)),
    ((9, 0), (13, 5), ("cuda-ptx_75.xz", 75)), ((9, 0), (13, 4), None),
    ((7, 5), (14, 0), ("cuda-sm_75-80.xz", 75)), ((7, 0), (14, 0), None), ((8, 0), (12, 9), None),
    ((15, 0), (14, 0), ("cuda-ptx_75.xz", 75)),
])  # fmt: skip
def test_the_file_follows_from_the_device_and_the_driver(tmp_path, capability, driver, expected):
    for name in ("cuda-sm_75-80.xz", "cuda-sm_120.xz", "cuda-ptx_75.xz"):
        _, architectures = precompiled.contents_of(tmp_path / name)
        codes = {n: {"key": precompiled.Code("symbol", "stamp", bytes([n]))} for n in architectures}
        precompiled.write(tmp_path / name, (13, 5), codes)
    (tmp_path / "cuda-of-someone-else.xz").write_bytes(b"")
    found = precompiled.archive_for(capability, driver, tmp_path)
    if expected is None:
        assert found is None
    else:
        assert (found.path.name, found.kernels["key"].code[0]) == expected


def test_edited_sources_are_compiled(folder, monkeypatch):
    stamp = source_stamps.stamp_of_sources
    monkeypatch.setattr(source_stamps, "stamp_of_sources", lambda path: stamp(path) + "edited")
    assert precompiled.find(ENTRY.kernel, 0, KINDS) is None


def flipped(content: bytes) -> bytes:
    middle = len(content) // 2
    return content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :]


DAMAGE = {
    "half of it": lambda content: content[: len(content) // 2],
    "a bit": flipped,
    "nothing": lambda content: b"",
    "something else": lambda content: b"PK\x03\x04 not one of these",
    "no table": lambda content: lzma.compress(b"text"),
    "another format": lambda content: lzma.compress(
        lzma.decompress(content).replace(b'"format": %d' % precompiled.FORMAT, b'"format": 1', 1)
    ),
    "another table": lambda content: lzma.compress(
        b'{"format": %d, "toolkit": 3}\n' % precompiled.FORMAT
    ),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_file_is_named_once_and_passed_over(folder, damage):
    path = folder / "cuda-sm_75-80.xz"
    path.write_bytes(DAMAGE[damage](path.read_bytes()))
    with pytest.warns(RuntimeWarning, match=r"cuda-sm_75-80.xz is damaged .* Install gpuens again"):
        _, is_ptx = precompiled.find(ENTRY.kernel, 0, KINDS)
    assert is_ptx
    assert precompiled.find(ENTRY.kernel, 0, KINDS)[1]  # and no warning


def test_a_file_that_the_driver_refuses_is_named_once(folder, monkeypatch):
    def refuse(kernel, is_ptx):
        raise ValueError("CUDA_ERROR_NO_BINARY_FOR_GPU")

    monkeypatch.setattr(precompiled, "loaded", refuse)
    with pytest.warns(RuntimeWarning, match="is refused by the driver .*NO_BINARY_FOR_GPU"):
        assert precompiled.find(ENTRY.kernel, 0, KINDS) is None
    assert precompiled.find(ENTRY.kernel, 0, KINDS) is None


def test_what_is_current_is_not_built_again(folder, monkeypatch):
    entries = [ENTRIES[name] for name in NAMES]
    monkeypatch.setattr(cubins, "FILES", ((75, 80), (120,)))
    monkeypatch.setattr(cubins.catalogue, "entries", lambda: iter(entries))
    assert cubins.is_current(folder)
    entries.append(ENTRIES["count_draws"])
    assert not cubins.is_current(folder)
    entries.pop()
    stamp = source_stamps.stamp_of_sources
    with monkeypatch.context() as edited:
        edited.setattr(source_stamps, "stamp_of_sources", lambda path: stamp(path) + "edited")
        assert not cubins.is_current(folder)
    assert cubins.is_current(folder)
    (folder / "cuda-sm_120.xz").unlink()
    assert not cubins.is_current(folder)


def test_without_files_nothing_is_asked(monkeypatch, tmp_path):
    monkeypatch.setattr(precompiled, "FOLDER", tmp_path / "nowhere")
    monkeypatch.setattr(precompiled, "capability_of", None)
    assert precompiled.find(ENTRY.kernel, 0, KINDS) is None


def test_the_launcher_looks_for_it_before_it_compiles(monkeypatch):
    asked = []
    found = {"ahead": SimpleNamespace(handle=1), "now": SimpleNamespace(handle=2)}
    monkeypatch.setattr(
        kernel_origins, "_names", {name: set() for name in kernel_origins.of_cuda()}
    )
    monkeypatch.setattr(launching, "_kernels", {})
    monkeypatch.setattr(launching, "bindings", lambda: SimpleNamespace(CUfunction=int))
    monkeypatch.setattr(precompiled, "find", lambda *kernel: asked.append(kernel) or found["ahead"])
    monkeypatch.setattr(launching, "compiled", lambda *kernel: found["now"])
    assert launching.kernel_for(ENTRY.kernel, 3, KINDS).handle == 1
    assert launching.kernel_for(ENTRY.kernel, 3, KINDS).handle == 1
    found["ahead"] = None
    assert launching.kernel_for(ENTRY.kernel, 4, KINDS).handle == 2
    assert asked == [(ENTRY.kernel, 3, KINDS), (ENTRY.kernel, 4, KINDS)]
    assert list(map(len, kernel_origins.of_cuda().values())) == [0, 0, 1]


def test_without_numba_cuda_a_kernel_that_is_not_there_is_an_error(monkeypatch):
    monkeypatch.setattr(launching, "_kernels", {})
    monkeypatch.setattr(precompiled, "find", lambda *kernel: None)
    monkeypatch.setattr(compiling, "find_spec", lambda name: None)
    message = "The kernel add_values did not come compiled .* numba-cuda.* pip install 'gpuens"
    with pytest.raises(RuntimeError, match=message):
        launching.kernel_for(ENTRY.kernel, 3, KINDS)
    assert not launching._kernels


def test_looking_for_kernels_imports_no_compiler():
    code = (
        "import sys\n"
        "from gpuens.kernels.growth.cuda import grow\n"
        "from gpuens.kernels.runtime.cuda import precompiled\n"
        "assert precompiled.key_of(grow.open_nodes, ()) and precompiled.stamp_of(grow.open_nodes)\n"
        "print(sorted({'numba', 'llvmlite', 'numba_cuda'} & set(sys.modules)))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout == "[]\n", done.stderr


def test_cuda_core_takes_the_code(built):
    """Objects are made without a driver."""
    files = (("cuda-sm_75-80.xz", 80, False), ("cuda-ptx_75.xz", 75, True))
    for name, architecture, is_ptx in files:
        archive = precompiled.read(built / name, architecture)
        for kernel in archive.kernels.values():
            found = precompiled.object_of(kernel, is_ptx)
            assert found.code_type == ("ptx" if is_ptx else "cubin")
            assert found.name == kernel.symbol


class OnDevice(np.ndarray):
    """A host array that claims to be on a device, as CuPy's arrays look."""

    data = property(lambda array: SimpleNamespace(ptr=array.ctypes.data))


class Bindings:
    """The driver's functions; kernels run on the machine, all of their parameters are words."""

    CUfunction = CUstream = staticmethod(lambda handle: handle)

    def __init__(self) -> None:
        self.kernels: list[machine.Kernel] = []

    def loaded(self, kernel: precompiled.Code, is_ptx: bool) -> SimpleNamespace:
        self.kernels.append(machine.load(kernel.code.decode(), kernel.symbol))
        return SimpleNamespace(handle=len(self.kernels) - 1)

    def cuLaunchKernel(self, handle: int, *launch: int) -> tuple[int]:  # noqa: N802
        *sizes, _, _, pointers, _ = launch
        words = (ctypes.c_uint64 * (3 * 9 + 1 + 7)).from_address(pointers)
        block = b"".join(ctypes.string_at(address, 8) for address in words)
        self.kernels[handle].launch(tuple(sizes[:3]), tuple(sizes[3:]), block)
        return (0,)


def test_a_launch_runs_the_code_of_a_file(folder, monkeypatch, capsys):
    """The PTX, from which the cubins are linked, with the words that the launcher writes; the
    report says where it came from."""
    bindings = Bindings()
    monkeypatch.setattr(precompiled, "loaded", bindings.loaded)
    monkeypatch.setattr(precompiled, "capability_of", lambda device: (15, 0))
    monkeypatch.setattr(launching, "bindings", lambda: bindings)
    monkeypatch.setattr(launching, "enter", lambda device: None)
    monkeypatch.setattr(launching, "stream_at", lambda pointer: pointer)
    monkeypatch.setattr(launching, "_kernels", {})
    monkeypatch.setattr(launching, "_of_thread", launching._OfThread())
    raw, leaf, value = np.arange(50.0), np.arange(50, dtype=np.int32) % 3, np.array([1.0, 2, 4])
    expected = raw + 0.5 * value[leaf]
    arrays = (array[None].view(OnDevice) for array in (raw, leaf, value))
    no_factors = np.empty(0).view(OnDevice)
    launching.start(ENTRY.kernel, 1, 64, 0, 0, (*arrays, 0.5, no_factors))
    np.testing.assert_array_equal(raw, expected)
    name = "gpuens.kernels.statistics.cuda.add_leaf_values.add_values"
    assert gpuens.show_config()["kernels"]["gpu"] == {"cubin": [], "PTX": [name], "compiled": []}
    assert "CUDA kernels      0 cubin, 1 PTX, 0 compiled\n" in capsys.readouterr().out
