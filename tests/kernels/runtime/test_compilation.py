"""Compiled kernels on disk: when they are compiled again, several processes, damaged files."""

from __future__ import annotations

import errno
import importlib
import io
import sys

import numpy as np
import pytest
from numba.core import caching, config

from gpuens.kernels.runtime import disk, first_use, native
from gpuens.kernels.runtime.source_stamps import _text, stamp_of_sources


def classes():
    """Numba's files, and numba-cuda's where it is installed."""
    found = [caching.IndexDataCacheFile]
    try:
        from numba.cuda.core.caching import IndexDataCacheFile
    except ImportError:  # no numba-cuda
        return found
    return [*found, IndexDataCacheFile]


@pytest.fixture(params=classes(), ids=lambda cls: cls.__module__.partition(".")[2])
def process(request, tmp_path):
    """Makes the cache of a function in another process; ``stamp`` is that of its sources."""

    def made(stamp="stamp"):
        return disk.made_safe(request.param(str(tmp_path), "function", "file"), stamp)

    return made


@pytest.mark.parametrize("moment", ["_load_index", "_save_index", "_save_data"])
@pytest.mark.parametrize("before", [True, False])
def test_nobody_finds_the_kernel_of_another(process, monkeypatch, moment, before):
    """A second process compiles another kernel while the first one writes its own."""
    first, second = process(), process()
    step = getattr(first, moment)

    def interrupted(*args):
        if before:
            second.save("wide", "the wide kernel")
        result = step(*args)
        if not before:
            second.save("wide", "the wide kernel")
        return result

    monkeypatch.setattr(first, moment, interrupted)
    first.save("narrow", "the narrow kernel")
    found = [process().load(key) for key in ("narrow", "wide")]
    assert found[0] in ("the narrow kernel", None)
    assert found[1] in ("the wide kernel", None)
    assert found != [None, None]


def test_what_is_written_is_read(process):
    for key in ("narrow", "wide", "narrow"):
        process().save(key, f"the {key} kernel")
    assert [process().load(key) for key in ("narrow", "wide")] == [
        "the narrow kernel", "the wide kernel"
    ]  # fmt: skip


def test_other_sources_have_other_files(process, tmp_path, monkeypatch):
    """The index of new sources never leads to what old ones left, not even for a moment."""
    process("old").save("narrow", "the old kernel")
    new = process("new")
    assert new.load("narrow") is None
    seen = []
    monkeypatch.setattr(new, "_save_data", lambda *args: seen.append(process("new").load("narrow")))
    new.save("narrow", "the new kernel")
    assert seen == [None] and process("new").load("narrow") is None


DAMAGE = {
    "empty": lambda content: b"",
    "halved": lambda content: content[: len(content) // 2],
    "garbage": lambda content: bytes(255 - byte for byte in content),
    "one byte": lambda content: content[:-20] + bytes([content[-20] ^ 1]) + content[-19:],
}


@pytest.mark.parametrize("damage", DAMAGE)
@pytest.mark.parametrize("ending", ["nbi", "nbc"])
def test_a_damaged_file_counts_as_missing_and_is_written_again(process, tmp_path, ending, damage):
    process().save("narrow", "the narrow kernel")
    (file,) = tmp_path.glob(f"*.{ending}")
    file.write_bytes(DAMAGE[damage](file.read_bytes()))
    assert process().load("narrow") is None
    process().save("narrow", "the narrow kernel")
    assert process().load("narrow") == "the narrow kernel"


@pytest.fixture
def unwarned(monkeypatch):
    """As in a process in which no warning was given yet."""
    monkeypatch.setattr(disk, "_warned", set())


def test_a_full_disk_is_one_warning(process, monkeypatch, unwarned):
    full = process()

    def no_space(*args):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(full, "_save_data", no_space)
    with pytest.warns(RuntimeWarning, match=r"No space left.*NUMBA_CACHE_DIR"):
        full.save("narrow", "the narrow kernel")
    full.save("wide", "the wide kernel")
    assert process().load("narrow") is None


MODULES = {
    "a_kernel.py": """
from gpuens.kernels.runtime.compilation import kernel
from .inside.formula import (
    twice,
)

@kernel
def fill(out):
    out[0] = twice(21)
""",
    "inside/formula.py": """
from gpuens.kernels.runtime.compilation import inner

@inner
def twice(x):
    return 2 * x
""",
}


@pytest.fixture
def package(tmp_path, monkeypatch):
    """A kernel and, in a folder without ``__init__.py``, the function that it calls."""
    folder = tmp_path / "a_package"
    for name, source in MODULES.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(source)
    monkeypatch.syspath_prepend(tmp_path)
    return folder


def filled(package):
    """Import the package as a new process would; the kernel's result, and its cache misses."""
    for name in [name for name in sys.modules if name.partition(".")[0] == package.name]:
        del sys.modules[name]
    for cached in (stamp_of_sources, _text):
        cached.cache_clear()
    importlib.invalidate_caches()
    kernel = importlib.import_module(f"{package.name}.a_kernel").fill
    out = np.zeros(1)
    kernel(out)
    return out[0], sum(kernel.stats.cache_misses.values())


def test_an_edit_of_an_inner_file_compiles_the_kernel_again(package):
    assert filled(package) == (42.0, 1)
    assert filled(package) == (42.0, 0)
    inner_file = package / "inside" / "formula.py"
    inner_file.write_text(inner_file.read_text().replace("2 * x", "3 * x"))
    assert filled(package) == (63.0, 1)
    assert filled(package) == (63.0, 0)


def test_without_a_folder_kernels_are_compiled_in_every_process(package, monkeypatch, unwarned):
    """A read-only installation, and a home that cannot be written to."""
    monkeypatch.setattr(config, "CACHE_LOCATOR_CLASSES", "UserProvidedCacheLocator")
    monkeypatch.setattr(config, "CACHE_DIR", "/dev/null/nowhere")
    with pytest.warns(RuntimeWarning, match=r"no folder to keep .* NUMBA_CACHE_DIR"):
        assert filled(package)[0] == 42.0
    assert filled(package)[0] == 42.0


def test_without_a_compiler_there_is_one_sentence(package, monkeypatch):
    monkeypatch.setattr(config, "DISABLE_JIT", 1)
    with pytest.raises(RuntimeError, match="Unset it"):
        filled(package)


@pytest.mark.parametrize(
    ("system", "machine", "has_folder", "expected"),
    [
        ("Linux", "x86_64", False, True), ("Linux", "x86_64", True, False),
        ("Linux", "aarch64", False, True), ("Darwin", "arm64", False, True),
        ("Linux", "riscv64", False, False), ("FreeBSD", "x86_64", False, False),
    ],
)  # fmt: skip
def test_what_is_installed_from_sources(
    monkeypatch, tmp_path, system, machine, has_folder, expected
):
    """Where there is a wheel with more."""
    monkeypatch.setattr(native.platform, "system", lambda: system)
    monkeypatch.setattr(native.platform, "machine", lambda: machine)
    folder = tmp_path if has_folder else tmp_path / "prebuilt"
    assert native.is_from_sources(folder) == expected


class Terminal(io.StringIO):
    """A file that a person reads."""

    def isatty(self):
        return True


@pytest.mark.parametrize("from_sources", [False, True])
@pytest.mark.parametrize("stderr", [Terminal, io.StringIO])
def test_the_first_compiled_kernel_is_announced(
    process, monkeypatch, tmp_path, stderr, from_sources
):
    """And, where no wheel was installed, what would spare that; a person gets the time, too."""
    monkeypatch.setattr(native, "is_from_sources", lambda: from_sources)
    monkeypatch.setattr(disk, "watch", watch := first_use.CompilationWatch())
    monkeypatch.setattr("sys.stderr", shown := stderr())
    assert not watch.is_due
    for key in ("narrow", "wide"):
        assert process().load(key) is None
        process().save(key, f"the {key} kernel")
        assert process().load(key) is not None
    assert watch.is_due
    watch.sum_up()
    assert not watch.is_due
    lines = shown.getvalue().splitlines()
    assert "compiles kernels at their first use" in lines[0] and str(tmp_path) in lines[0]
    assert ("from sources: the wheel that `make wheels` writes" in lines[0]) == from_sources
    summed_up = [f"gpuens compiled 2 kernels in {watch._seconds:.1f} s."]
    assert lines[1:] == (summed_up if stderr is Terminal else [])
