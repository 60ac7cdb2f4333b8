"""Compiled kernels on disk: when they are compiled again, and several processes that write them."""

from __future__ import annotations

import importlib
import sys

import numpy as np
import pytest
from numba.core import caching

from gpuens.kernels.runtime.compilation import _stamp_of_sources, _text, name_data_by_key


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
        cache_file = request.param(str(tmp_path), "function", stamp)
        name_data_by_key(cache_file)
        return cache_file

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
    for cached in (_stamp_of_sources, _text):
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
