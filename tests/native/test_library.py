"""The native library of compiled kernels: what it runs, and what it refuses."""

from __future__ import annotations

import json
import multiprocessing
import os
import re
import shutil
import threading
import warnings
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import pytest

import gpuens
from building import library as building
from gpuens.kernels.runtime import kernel_origins, native
from gpuens.kernels.runtime.compilation import CpuKernel, kernel

pytestmark = pytest.mark.skipif(building.problem() is not None, reason=str(building.problem()))

LEVEL = list(native.levels() or native.LEVELS["x86-64"])[-1]
"""The lowest level of this architecture."""
RECORD = np.dtype([("count", np.int64), ("score", np.float32), ("codes", np.uint32, (2,))])


class Uncached(CpuKernel):
    """A kernel that is compiled in every process: what the cache on disk holds cannot be linked."""

    def _make(self, numba: Any) -> Any:
        return self._make_callable(numba)


def uncached(function: Any) -> CpuKernel:
    """Decorate a kernel."""
    return Uncached(function, kernel(function).options)


class Inner(NamedTuple):
    values: np.ndarray
    factor: float


class Table(NamedTuple):
    inner: Inner
    records: np.ndarray


@uncached
def add_up(table, x, flag, out):
    """Use an array, a record, numbers and scratch."""
    scratch = np.empty(table.inner.values.size, np.float64)
    total = 0.0
    for i in range(scratch.size):
        scratch[i] = table.inner.factor * table.inner.values.flat[i]
    for i in range(scratch.size):
        total += scratch[i]
    for record in table.records:
        record.count += 1
        total += record.score + record.codes[1]
    out[0] = total + x if flag else -total
    return np.int64(table.records.size)


@uncached
def store(x, out):
    out[0] = x


@uncached
def half(x):
    return 0.5 * x


@uncached
def is_above(x, y):
    return x > y


@uncached
def huge(n):
    return np.empty(n).size


def arguments(x: Any = 1, order: Any = "C", writeable: bool = True) -> tuple[Any, ...]:
    values = np.asarray(np.arange(12.0).reshape(3, 4), order=order)
    values.flags.writeable = writeable
    records = np.zeros(3, RECORD)
    records["score"], records["codes"] = 0.5, 7
    return Table(Inner(values, 2.0), records), x, True, np.zeros(1)


def storing(x: Any) -> tuple[Any, np.ndarray]:
    """A number, and an array of its type for it."""
    return x, np.zeros(1, np.asarray(x).dtype)


@uncached
def reversed_by_a_list(out):
    values = [0 for _ in range(0)]
    for i in range(1000):
        values.append(i)
    for i in range(1000):
        out[i] = values.pop()
    return len(values)


NUMBERS = [1, 1.5, True, np.float32(1.5), np.uint64(1), np.int32(-1), np.uint8(1)]
COMPILED = [
    (add_up, arguments()),
    (add_up, arguments(order="F", writeable=False)),
    *((store, storing(x)) for x in NUMBERS),
    (half, (3.0,)),
    (is_above, (2, 1.5)),
    (is_above, (1, 1.5)),
    (huge, (1,)),
    (reversed_by_a_list, (np.zeros(1000),)),
]


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """A folder with a library of the kernels above."""
    from building import level

    made, folder = (tmp_path_factory.mktemp(name) for name in ("made", "built"))
    recorder = level.Recorder(LEVEL, made)
    for function, values in COMPILED:
        recorder.bind(function)(*values)
    recorder.link()
    building.install(building.joined(made), made, folder)
    return folder


@pytest.fixture
def library(built):
    return native.open_library(built)


@pytest.fixture
def copied(built, tmp_path):
    return Path(shutil.copytree(built, tmp_path / "copy"))


def edit(folder: Path, **changes: Any) -> None:
    path = folder / native.TABLE
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


@pytest.mark.parametrize(("function", "values"), COMPILED)
def test_results_are_those_of_numba(library, function, values):
    run = library.bind(function)
    for _ in range(2):
        ours, theirs = run(*values), function.made(*values)
        assert ours == theirs and type(ours) is type(theirs)
    assert library.used == {native.name_of(function)}
    assert not library.missed


def test_what_is_written_is_seen(library):
    table, x, flag, out = arguments(x=5)
    assert library.bind(add_up)(table, x, flag, out) == 3
    assert out[0] == 2 * 66 + 3 * 7.5 + 5
    assert table.records["count"].tolist() == [1, 1, 1]


@pytest.mark.parametrize(
    "x", [2**63 - 1, -(2**63), -1, np.uint64(2**64 - 1), -0.0, np.inf, False, np.float32(-2)]
)
def test_numbers_at_the_ends_of_their_ranges(library, x):
    value, out = storing(x)
    library.bind(store)(value, out)
    assert out[0] == x and np.signbit(out[0]) == np.signbit(x)
    assert not library.missed


@pytest.mark.parametrize("function, values", [
    (half, (2**63,)), (half, (np.complex64(1.5),)), (half, (1,)),
    (store, (0.5, np.zeros(1, np.complex64))), (add_up, arguments(x=1.5)),
    (add_up, arguments(writeable=False)),
])  # fmt: skip
def test_other_types_are_compiled_and_counted(library, function, values):
    run = library.bind(function)
    for _ in range(2):
        assert run(*values) == function.made(*values)
    assert sum(library.missed.values()) == 2
    assert {name for name, _ in library.missed} == {native.name_of(function)}


def test_keys_tell_apart_what_numba_tells_apart():
    a = np.zeros((2, 2))
    frozen = a.view()
    frozen.flags.writeable = False
    values = [
        1, 1.5, True, np.uint64(1), np.float32(1), a, a[0], a.astype(np.float32), a[:, ::2],
        np.asfortranarray(np.zeros((2, 3))), frozen, (a, a), Inner(a, 1.0), np.zeros(2, RECORD),
        a.astype(">f8"),
    ]  # fmt: skip
    keys = [native.key_of([value]) for value in values]
    assert len(set(keys)) == len(values)
    assert native.key_of([1, 1.5, True]) == native.key_of([np.int64(1), np.float64(2), np.True_])


def test_out_of_memory_is_an_error(library):
    with pytest.raises(MemoryError, match="huge could not allocate"):
        library.bind(huge)(2**60)


def test_threads_start_together(library):
    """All of them come with types that the kernel has not seen yet."""
    run, results = library.bind(add_up), []
    start = threading.Barrier(8)

    def work():
        table, x, flag, out = arguments()
        start.wait()
        run(table, x, flag, out)
        results.append(out[0])

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [2 * 66 + 3 * 7.5 + 1] * 8


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no forks")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_forked_process_goes_on(library):
    run = library.bind(half)
    assert run(1.5) == 0.75

    def child(results):
        results.put((run(3.0), library.bind(is_above)(2, 1.5)))

    context = multiprocessing.get_context("fork")
    results = context.Queue()
    process = context.Process(target=child, args=(results,))
    process.start()
    assert results.get(timeout=300) == (1.5, True)
    process.join()


def test_two_versions_side_by_side(library, copied):
    """Each runs what it has itself."""
    table = json.loads((copied / native.TABLE).read_text())
    edit(copied, kernels={k: v for k, v in table["kernels"].items() if k != native.name_of(half)})
    other = native.open_library(copied)
    assert other.bind(half)(3.0) == library.bind(half)(3.0) == 1.5
    assert other.bind(is_above)(2, 1.5) and library.bind(is_above)(2, 1.5)
    assert library.used == {native.name_of(half), native.name_of(is_above)}
    assert other.used == {native.name_of(is_above)}
    assert sum(other.missed.values()) == 1 and not library.missed


def test_no_library(tmp_path):
    with pytest.raises(native.Unusable, match="comes without a library"):
        native.open_library(tmp_path)


def cut(folder):
    path = folder / building.file_of(LEVEL)
    path.write_bytes(path.read_bytes()[:5000])


DAMAGE = {
    "cut": cut,
    "no library": lambda folder: (folder / building.file_of(LEVEL)).unlink(),
    "no table": lambda folder: (folder / native.TABLE).write_text('{"format": 1, "libr'),
    "not a table": lambda folder: (folder / native.TABLE).write_text("[]"),
    "nothing in it": lambda folder: edit(folder, libraries={LEVEL: []}),
}


@pytest.mark.parametrize("name", DAMAGE)
def test_damage_is_reported_once(copied, name, monkeypatch):
    DAMAGE[name](copied)
    plain = native.open_library
    monkeypatch.setattr(native, "open_library", lambda: plain(copied))
    monkeypatch.setattr(native, "_opened", None)
    with pytest.warns(RuntimeWarning, match="Install gpuens again") as caught:
        assert isinstance(native.source(), str)
    assert len(caught) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        native.source()
        report = gpuens.show_config()["kernels"]
    assert report["source"].startswith("compiled by Numba: ")
    assert native.bound(gpuens.kernels.growth.grow._emit) is gpuens.kernels.growth.grow._emit.made


def test_a_file_that_is_no_library(copied):
    name = building.file_of(LEVEL)
    (copied / name).write_text("text")
    edit(copied, libraries={LEVEL: [name, native.digest_of(copied / name)]})
    with pytest.raises(native.Damaged, match=re.escape(name)):
        native.open_library(copied)


def test_kernels_have_no_tables_to_unwind_the_stack_by(tmp_path):
    from building import level

    recorder = level.Recorder(LEVEL, tmp_path)
    recorder.bind(reversed_by_a_list)(np.zeros(1000))
    (path,) = tmp_path.glob("*.o")
    assert b".eh_frame" not in path.read_bytes()


def test_a_library_of_something_else(copied):
    file = copied / building.file_of(LEVEL)
    shutil.copy(np._core._multiarray_umath.__file__, file)
    edit(copied, libraries={LEVEL: [file.name, native.digest_of(file)]})
    with pytest.raises(native.Damaged, match="gpuens_know"):
        native.open_library(copied)


def test_a_table_with_a_kernel_that_is_not_there(copied):
    kernels = json.loads((copied / native.TABLE).read_text())["kernels"]
    name = native.name_of(half)
    edit(copied, kernels={name: {key: ["kernel_none", "d"] for key in kernels[name]}})
    library = native.open_library(copied)
    assert library.bind(half)(3.0) == 1.5
    assert sum(library.missed.values()) == 1


def test_edited_sources_are_not_run(copied, tmp_path):
    source = tmp_path / "source.py"
    source.write_text("one")
    name = str(source)
    edit(copied, sources=[name], stamp=native.stamp_of([name]))
    native.open_library(copied)
    source.write_text("two")
    with pytest.raises(native.Unusable, match="compiled from other sources"):
        native.open_library(copied)
    source.unlink()
    with pytest.raises(native.Unusable, match="compiled from other sources"):
        native.open_library(copied)


def test_the_stamp_covers_the_file_of_a_kernel(built):
    sources = json.loads((built / native.TABLE).read_text())["sources"]
    assert Path(os.path.relpath(__file__, native.PACKAGE)).as_posix() in sources


def test_another_version(copied):
    edit(copied, format=native.FORMAT + 1)
    with pytest.raises(native.Unusable, match="another version"):
        native.open_library(copied)


def test_another_machine(built, monkeypatch):
    other = "x86_64" if native.architecture() == "arm64" else "aarch64"
    monkeypatch.setattr(native.platform, "machine", lambda: other)
    with pytest.raises(native.Unusable, match=f"for {LEVEL}, not for {other}|Windows on {other}"):
        native.open_library(built)
    monkeypatch.setattr(native.platform, "machine", lambda: "riscv64")
    with pytest.raises(native.Unusable, match=r"there is none for \w+ on riscv64"):
        native.open_library(built)


@pytest.mark.parametrize("gil", [0, 1])
def test_another_python(built, monkeypatch, gil):
    """Objects begin in another way in free-threaded Python and in PyPy: a call of the library would
    end the process."""
    values = {"Py_GIL_DISABLED": 1 - gil}
    monkeypatch.setattr(native.sysconfig, "get_config_var", values.get)
    if gil:
        monkeypatch.setattr(native.sys, "implementation", SimpleNamespace(name="pypy"))
    with pytest.raises(native.Unusable, match="none for PyPy and free-threaded Python"):
        native.open_library(built)


def test_a_python_without_a_function(built, monkeypatch):
    monkeypatch.setattr(native.ctypes, "pythonapi", SimpleNamespace())
    with pytest.raises(native.Unusable, match="this Python lacks a function"):
        native.open_library(built)


def test_the_best_level_of_the_processor(monkeypatch):
    monkeypatch.setattr(native.platform, "machine", lambda: "AMD64")
    monkeypatch.setattr(native.platform, "system", lambda: "Linux")
    v2 = set(native.LEVELS["x86-64"]["x86-64-v2"].split())
    monkeypatch.setattr(native, "processor_features", lambda: v2)
    assert native._level(["x86-64-v2", "x86-64-v3"]) == "x86-64-v2"
    monkeypatch.setattr(native, "processor_features", lambda: v2 - {"popcnt"})
    with pytest.raises(native.Unusable, match="below x86-64-v2"):
        native._level(["x86-64-v2"])
    monkeypatch.setattr(
        native,
        "processor_features",
        lambda: set(" ".join(native.LEVELS["x86-64"].values()).split()),
    )
    assert native._level(["x86-64-v2", "x86-64-v3"]) == "x86-64-v3"
    assert native._level(["x86-64-v2"]) == "x86-64-v2"
    monkeypatch.setattr(native.platform, "machine", lambda: "arm64")
    monkeypatch.setattr(native, "processor_features", set)
    assert native._level(["armv8-a"]) == "armv8-a"


OBJECTS = {
    "Linux": {"x86-64": b"\x7fELF\2\1", "arm64": b"\x7fELF\2\1"},
    "Darwin": {"x86-64": b"\xcf\xfa\xed\xfe\7\0\0\1", "arm64": b"\xcf\xfa\xed\xfe\x0c\0\0\1"},
    "Windows": {"x86-64": b"\x64\x86"},
}  # fmt: skip
"""The first bytes of object files: their formats, and the architectures of Mach-O and COFF."""


@pytest.mark.parametrize(("system", "architecture"), building.TARGETS)
def test_object_files_of_every_system(tmp_path, monkeypatch, system, architecture):
    """Machine code for each, written on this one; each is linked and run on its own system only."""
    from building import level

    half.made(1.5), is_above.made(2, 1.5)  # Numba compiles for this system
    machine = {"x86-64": "x86_64", "arm64": "arm64"}[architecture]
    monkeypatch.setattr(native.platform, "machine", lambda: machine)
    monkeypatch.setattr(native.platform, "system", lambda: system)
    assert native.has_wheel() and building.target() == building.TARGETS[system, architecture]
    name = list(native.levels())[-1]
    recorder = level.Recorder(name, tmp_path)
    recorder.bind(half)(1.5)
    recorder.bind(is_above)(2, 1.5)
    for path in tmp_path.glob("*.o"):
        assert path.read_bytes().startswith(OBJECTS[system][architecture])
        (symbol,) = re.findall(r"kernel_\w{16}", path.name)
        exported = f"-export:{symbol}".encode() in path.read_bytes()
        assert exported == (system == "Windows")
    assert len(list(tmp_path.glob("*.o"))) == 2
    assert building.file_of(name) == f"cpu-{name}{building.TARGETS[system, architecture].suffix}"


def test_wheels_are_for_the_systems_that_libraries_are_built_on():
    known = {(system, name) for system, names in native.WHEELS.items() for name in names}
    assert known == building.TARGETS.keys()


def test_another_layout_of_objects(built, monkeypatch):
    plain = native.Library._compare_layouts

    def compare(self):
        self._library.gpuens_words = lambda arguments: None
        plain(self)

    monkeypatch.setattr(native.Library, "_compare_layouts", compare)
    with pytest.raises(native.Unusable, match="in another way"):
        native.open_library(built)


def test_the_environment_turns_it_off(built, monkeypatch):
    monkeypatch.setenv("GPUENS_KERNELS", "compiled")
    with pytest.raises(native.Unusable, match="GPUENS_KERNELS=compiled"):
        native.open_library(built)
    monkeypatch.setenv("GPUENS_KERNELS", "fast")
    with pytest.raises(ValueError, match="must be 'native' or 'compiled', got 'fast'"):
        native.open_library(built)


def test_the_report(library, monkeypatch, capsys):
    monkeypatch.setattr(native, "_opened", library)
    monkeypatch.setattr(
        kernel_origins, "_names", {name: set() for name in kernel_origins.of_cuda()}
    )
    library.bind(half)(1.5)
    library.bind(half)(1)
    report = gpuens.show_config()["kernels"]
    name = native.name_of(half)
    assert report == {
        "source": f"native library for {LEVEL}", "native": [name], "missed": {name: 1},
        "gpu": {"cubin": [], "PTX": [], "compiled": []},
    }  # fmt: skip
    printed = capsys.readouterr().out
    assert f"kernels           native library for {LEVEL}\n" in printed
    assert f"compiled kernel   {name} (1 calls)\n" in printed
