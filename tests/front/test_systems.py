"""Windows and macOS lack what Linux has: one module knows, and all work goes on without it."""

from __future__ import annotations

import ast
import importlib.util
import mmap
import os
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import gpuens
from gpuens.devices import memory_plan
from gpuens.devices.gpu_problems import driver_version
from gpuens.kernels.runtime import native, system
from tests.front.test_imports import PATHS, tree_of
from tests.support.streaming import streaming

ONLY_HERE = "kernels/runtime/system.py"
ELSEWHERE = {"kernels/runtime/cpu/team.py": {"os.register_at_fork", "sys.platform"}}
"""Kernels are made of this module: what it imports would be part of their stamp."""

OF_SOME_SYSTEMS = {
    "os": """O_CLOEXEC O_DIRECT O_DIRECTORY O_SYNC WNOHANG copy_file_range fchmod fchown fdatasync
        fork forkpty geteuid getloadavg getpgid getuid killpg link lockf major memfd_create mkfifo
        mknod name nice posix_fadvise posix_fallocate posix_spawn pread preadv pwrite pwritev
        readlink register_at_fork sched_getaffinity sched_setaffinity sched_yield sendfile setsid
        splice startfile statvfs symlink sysconf uname wait wait4 waitpid""",
    "sys": "platform getwindowsversion",
    "mmap": """ACCESS_COPY MADV_DONTNEED MADV_HUGEPAGE MADV_RANDOM MADV_SEQUENTIAL MADV_WILLNEED
        MAP_ANONYMOUS MAP_POPULATE MAP_PRIVATE MAP_SHARED PROT_READ PROT_WRITE""",
    "signal": """SIGALRM SIGBUS SIGCHLD SIGHUP SIGKILL SIGPIPE SIGQUIT SIGSTOP SIGUSR1 SIGUSR2 alarm
        pthread_kill pthread_sigmask setitimer sigtimedwait sigwait""",
    "socket": "AF_UNIX SO_REUSEPORT TCP_KEEPIDLE TCP_USER_TIMEOUT socketpair",
    "ctypes": "WinDLL windll oledll",
}  # fmt: skip
NAMES = {f"{module}.{name}" for module, text in OF_SOME_SYSTEMS.items() for name in text.split()}
MODULES = set("fcntl grp msvcrt posix pty pwd resource termios winreg".split())
METHODS = {"hardlink_to", "madvise", "symlink_to"}
FOLDERS = ("/dev/", "/proc", "/run/", "/sys/", "/tmp")


def only_somewhere(tree: ast.Module) -> set[str]:
    """What a module uses that not all systems have."""
    documented = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            found |= {ast.unparse(node)} & NAMES
            found |= {node.attr} & METHODS
        elif isinstance(node, ast.ImportFrom):
            found |= {f"{node.module}.{alias.name}" for alias in node.names} & NAMES
            found |= {str(node.module).partition(".")[0]} & MODULES if node.level == 0 else set()
        elif isinstance(node, ast.Import):
            found |= {alias.name.partition(".")[0] for alias in node.names} & MODULES
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            if node.value.startswith(FOLDERS) and id(node) not in documented:
                found.add(node.value)
        elif isinstance(node, ast.Call):
            found |= _asked_for(node)
    return found


def _asked_for(call: ast.Call) -> set[str]:
    """Names that a call looks up by their text, and the library of the process."""
    name, arguments = ast.unparse(call.func), [ast.unparse(argument) for argument in call.args]
    if name in ("getattr", "hasattr") and isinstance(call.args[1], ast.Constant):
        return {f"{arguments[0]}.{call.args[1].value}"} & NAMES
    opens_process = name.endswith("DLL") and arguments[:1] == ["None"]
    return {f"{name}(None)"} if opens_process else set()


def text_files(tree: ast.Module) -> list[str]:
    """The calls that read or write text in an encoding that depends on the system."""
    wrong = []
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        name = ast.unparse(node.func).rpartition(".")[2]
        is_os = ast.unparse(node.func) == "os.open"
        if is_os or name not in ("open", "read_text", "write_text", "fdopen", "NamedTemporaryFile"):
            continue
        binary = any(isinstance(a, ast.Constant) and "b" in str(a.value) for a in node.args[1:])
        named = any(keyword.arg == "encoding" for keyword in node.keywords)
        if not (binary or named or "safe_open" in ast.unparse(node.func)):
            wrong.append(ast.unparse(node))
    return wrong


def test_one_module_knows_the_system():
    found = {path: only_somewhere(tree_of(path)) for path in PATHS if path != ONLY_HERE}
    assert {path: names for path, names in found.items() if names} == ELSEWHERE
    assert only_somewhere(tree_of(ONLY_HERE)) >= {"os.pwrite", "ctypes.CDLL(None)", "resource"}


def test_text_files_name_their_encoding():
    wrong = {path: text_files(tree_of(path)) for path in PATHS}
    assert {path: calls for path, calls in wrong.items() if calls} == {}


@pytest.mark.parametrize("source, found", [
    ("os.pwrite(1, b'', 0)", {"os.pwrite"}), ("from os import fork", {"os.fork"}),
    ("getattr(os, 'O_DIRECT', 0)", {"os.O_DIRECT"}),
    ("hasattr(mmap, 'MADV_WILLNEED')", {"mmap.MADV_WILLNEED"}), ("mapping.madvise(3)", {"madvise"}),
    ("import resource", {"resource"}), ("from fcntl import flock", {"fcntl"}),
    ("ctypes.CDLL(None)", {"ctypes.CDLL(None)"}),
    ("Path('/proc/self/statm')", {"/proc/self/statm"}),
    ("if sys.platform == 'linux': pass", {"sys.platform"}), ("os.name == 'nt'", {"os.name"}),
    ("signal.SIGKILL", {"signal.SIGKILL"}), ('def f():\n    """/proc has it."""', set()),
    ("os.replace(a, b)\nsignal.SIGINT\nctypes.CDLL('libx.so')", set()),
])  # fmt: skip
def test_what_counts(source, found):
    assert only_somewhere(ast.parse(source)) == found


@pytest.mark.parametrize(
    ("source", "right"),
    [("open(p)", False), ("open(p, 'w')", False), ("open(p, 'rb')", True), ("p.read_text()", False),
     ("open(p, encoding='utf-8')", True), ("p.write_text(t, encoding='utf-8')", True)],
)  # fmt: skip
def test_what_an_encoding_is(source, right):
    assert (text_files(ast.parse(source)) == []) == right


FREE = 3 * 2**30 + 4096
ONLY_LINUX = "O_DIRECT", "posix_fadvise"
NOT_ON_WINDOWS = "O_CLOEXEC", "pread", "preadv", "pwrite", "register_at_fork", "sysconf"


class System:
    """Takes away what Windows or macOS does not have."""

    def __init__(self, name: str, monkeypatch: Any) -> None:
        self.patch = monkeypatch
        for attribute in (*ONLY_LINUX, *(NOT_ON_WINDOWS if name == "win32" else ())):
            monkeypatch.delattr(os, attribute, raising=False)
        for attribute in ("MADV_WILLNEED", "MADV_SEQUENTIAL"):
            if name == "win32":
                monkeypatch.delattr(mmap, attribute, raising=False)
        monkeypatch.setattr(system, "sys", SimpleNamespace(platform=name))
        monkeypatch.setattr(system, "ctypes", SimpleNamespace(CDLL=self._library(name)))
        monkeypatch.setattr(system, "Path", lambda path: Path("/nowhere") / str(path).lstrip("/"))
        monkeypatch.setattr(system, "_CGROUP", Path("/nowhere"))
        monkeypatch.setattr(system, "_OWN_GROUPS", Path("/nowhere"))
        monkeypatch.setattr(system, "open", self._opening(open), raising=False)
        if name == "win32":
            monkeypatch.setitem(sys.modules, "resource", None)  # importing it fails
        psutil = SimpleNamespace(virtual_memory=lambda: SimpleNamespace(available=FREE))
        monkeypatch.setitem(sys.modules, "psutil", psutil)

    @staticmethod
    def _library(name: str) -> Any:
        def opened(path: Any, *args: Any, **kwargs: Any) -> Any:
            if path is None and name == "win32":
                raise TypeError("bad argument type for built-in operation")
            if path is None:
                return SimpleNamespace()  # without malloc_trim
            raise OSError(f"{path} not found")

        return opened

    @staticmethod
    def _opening(usual: Any) -> Any:
        def opened(file: Any, *args: Any, **kwargs: Any) -> Any:
            if str(file).startswith(("/proc", "/sys")):
                raise FileNotFoundError(file)
            return usual(file, *args, **kwargs)

        return opened


@pytest.fixture(params=["win32", "darwin"])
def elsewhere(request, monkeypatch):
    return System(request.param, monkeypatch)


def test_free_memory(elsewhere):
    assert system.available_memory() == FREE
    assert gpuens.devices.placement.available_memory() == FREE


@pytest.mark.parametrize("fault", [ImportError("psutil"), PermissionError("sandbox")])
def test_free_memory_that_is_unknown(elsewhere, fault):
    def fail() -> None:
        raise fault

    elsewhere.patch.setitem(sys.modules, "psutil", SimpleNamespace(virtual_memory=fail))
    assert system.available_memory() is None


def test_small_calls(elsewhere):
    called = []
    memory_plan.return_freed_memory()
    system.after_fork_in_child(lambda: called.append(1))
    assert called == []
    assert driver_version() is None


V2 = dict.fromkeys(["SSE3", "SSSE3", "SSE41", "SSE42", "POPCNT"], True)
V3 = V2 | dict.fromkeys(["AVX", "AVX2", "F16C", "FMA3"], True)
LATE = dict.fromkeys(["BMI", "BMI2", "LZCNT", "MOVBE"], True)
"""Features of a processor that NumPy requires from 2.4 on."""


@pytest.mark.parametrize("machine, features, level", [
    ("AMD64", V3 | LATE, "x86-64-v3"), ("x86_64", V3, "x86-64-v3"),
    ("AMD64", V3 | LATE | {"MOVBE": False}, "x86-64-v2"),
    ("AMD64", V2 | {"AVX2": False}, "x86-64-v2"), ("AMD64", V2 | {"SSE42": False}, None),
    ("AMD64", {}, None), ("arm64", {"NEON": True}, "armv8-a"),
])  # fmt: skip
def test_level_of_the_processor(elsewhere, machine, features, level):
    """NumPy knows its features where there is no /proc/cpuinfo."""
    elsewhere.patch.setattr(np._core._multiarray_umath, "__cpu_features__", features)
    elsewhere.patch.setattr(native, "platform", SimpleNamespace(
        machine=lambda: machine,
        system=lambda: {"win32": "Windows", "darwin": "Darwin"}[system.sys.platform],
    ))  # fmt: skip
    built = native.levels()
    if machine == "arm64" and system.sys.platform == "win32":
        level = None
    if level:
        assert native._level(built) == level
    else:
        with pytest.raises(native.Unusable):
            native._level(built)


def test_features_are_those_of_linux(elsewhere):
    """NumPy's names lead to Linux's: on this machine both see a processor of the same level."""
    found = system.processor_features()
    elsewhere.patch.undo()
    assert found <= system.processor_features() | {"pni"}
    assert bool(found) == (native.architecture() == "x86-64")


def test_a_module_loads_again(elsewhere):
    usual = importlib.import_module("gpuens.kernels.runtime.system")
    module = importlib.util.module_from_spec(usual.__spec__)
    usual.__spec__.loader.exec_module(module)
    assert vars(module).keys() >= vars(usual).keys() - {"open"}


def test_writing_at_places(elsewhere, tmp_path):
    with open(tmp_path / "file", "w+b", buffering=0) as file:
        for place in (6, 0, 3):
            system.write_at(file.fileno(), np.full(3, place, np.uint8), place)
        file.seek(0)
        assert file.read() == bytes([0, 0, 0, 3, 3, 3, 6, 6, 6])


X = np.random.default_rng(0).normal(size=(3000, 4)).astype(np.float32)
Y = X[:, 0] + X[:, 1] ** 2
FEW = {"n_estimators": 3, "max_leaf_nodes": 8, "device": "cpu"}


def batches() -> Any:
    return ((X[i : i + 700], Y[i : i + 700]) for i in range(0, len(X), 700))


def on_disk(path: Path) -> str:
    """The fingerprint of a model from a table on disk that is read pass by pass."""
    table = gpuens.BinnedTable.from_batches(batches, path=path)
    with streaming() as decision:
        model = gpuens.GradientBoostingRegressor(**FEW).fit(table)
    assert decision.called
    return model.forest_.fingerprint()


def in_memory() -> str:
    """The fingerprint of a model from so many rows that memory is returned to the system."""
    rows, y = np.tile(X, (80, 1)), np.tile(Y, 80)
    return gpuens.GradientBoostingRegressor(**FEW).fit(rows, y).forest_.fingerprint()


def test_models_are_the_same(elsewhere, tmp_path):
    found = on_disk(tmp_path / "there"), in_memory()
    model = gpuens.GradientBoostingRegressor(**FEW).fit(X, Y)
    model.save(tmp_path / "model")
    assert gpuens.load(tmp_path / "model").predict(X).tolist() == model.predict(X).tolist()
    elsewhere.patch.undo()
    assert found == (on_disk(tmp_path / "here"), in_memory())
    assert (tmp_path / "there").read_bytes() == (tmp_path / "here").read_bytes()
