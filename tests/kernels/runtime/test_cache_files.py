"""Compiled kernels on disk that several processes write at the same time."""

from __future__ import annotations

import pytest
from numba.core import caching

from gpuens.kernels.runtime.cache_files import name_data_by_key


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
