"""What instructions of PTX cost on hardware: issue slots by pipe, and latencies.

The slots are those of the machine code (SASS) that an instruction becomes on sm_80 and newer: words
of 64 bits are worked on in halves, a quotient is a routine. They are rules of thumb. ``linked``
counts what the linker makes of a whole kernel, so that the sum can be corrected kernel by kernel.
"""

from __future__ import annotations

import functools
import re
import subprocess
import tempfile
from pathlib import Path
from typing import NamedTuple

from .parse import parse

PIPES = ("integer", "float64", "convert", "special", "memory", "control")
INTEGER, FLOAT64, CONVERT, SPECIAL, MEMORY, CONTROL = range(len(PIPES))
Slots = tuple[float, ...]
NOTHING = (0.0,) * len(PIPES)

QUOTIENT_64, QUOTIENT_32 = 70.0, 18.0
"""Slots of the routines that divide integers."""


def on(pipe: int, slots: float = 1.0) -> Slots:
    """Return slots on one pipe."""
    return tuple(slots if k == pipe else 0.0 for k in range(len(PIPES)))


OF_FLOAT64 = {
    "div": (8.0, 8.0, 0.0, 1.0, 0.0, 0.0), "rcp": (6.0, 6.0, 0.0, 1.0, 0.0, 0.0),
    "sqrt": (8.0, 8.0, 0.0, 1.0, 0.0, 0.0), "min": (3.0, 1.0, 0.0, 0.0, 0.0, 0.0),
    "max": (3.0, 1.0, 0.0, 0.0, 0.0, 0.0), "selp": on(INTEGER, 2.0), "neg": NOTHING,
    "abs": NOTHING,
}  # fmt: skip
"""Operations on float64 that are not one instruction of the pipe for float64."""
FREE = ("mov", "cvta")
"""Copies that the assembler does without."""
ON_SPECIAL = ("popc", "clz", "brev", "ex2", "lg2", "rsqrt", "rcp", "sqrt", "sin", "cos")
WIDE = {"mul": 4.0, "mad": 4.0, "min": 4.0, "max": 4.0, "div": QUOTIENT_64, "rem": QUOTIENT_64}
"""Slots of operations on integers of 64 bits; those of others are 2."""


@functools.cache
def slots_of(opcode: str) -> Slots:
    """Return the issue slots of a PTX instruction by pipe, in the order of ``PIPES``."""
    name, *parts = opcode.split(".")
    kind = parts[-1] if parts else ""
    if name in ("ld", "st", "atom", "red", "membar", "fence"):
        return NOTHING if "param" in parts else on(MEMORY)
    if name in ("bra", "bar", "barrier", "ret", "exit"):
        return on(CONTROL)
    if name in FREE:
        return NOTHING
    if name == "cvt":
        return _conversion(parts[-2], kind)
    if kind == "f64":
        return OF_FLOAT64.get(name, on(FLOAT64))
    if name in ON_SPECIAL:
        return on(SPECIAL)
    if kind == "pred":
        return on(INTEGER, 0.5)
    if kind.endswith("64") and "wide" not in parts:
        return on(INTEGER, WIDE.get(name, 2.0))
    return on(INTEGER, QUOTIENT_32 if name in ("div", "rem") else 1.0)


def _conversion(to: str, source: str) -> Slots:
    """Return the slots of a change of type."""
    if "f" in to + source:
        return on(CONVERT)
    if source.endswith("64"):
        return NOTHING  # the low half is a register
    return on(INTEGER, 1.0 if source[0] == "s" and to.endswith("64") else 0.5)


class Latency(NamedTuple):
    """Cycles until the result of an instruction can be used.

    Parameters
    ----------
    integer, float64, convert, special : float
        Of an instruction of the pipe.
    shared : float
        Of a load from shared memory; each further pass for a bank conflict takes 2 more.
    atomic : float
        Of an atomic operation in shared memory whose result is used.
    near, far : float
        Of a load that finds its sectors in the first-level cache of its multiprocessor, and of one
        that goes on to the second level, as atomic operations in global memory do.
    barrier : float
    """

    integer: float
    float64: float
    convert: float
    special: float
    shared: float
    atomic: float
    near: float
    far: float
    barrier: float

    def of(self, opcode: str) -> float:
        """Return the cycles of an instruction that does not touch memory."""
        integer, float64, convert, special, _, _ = slots_of(opcode)
        steps = min(integer, 2.0) + max(0.0, integer - 2.0) / 2  # halves do not wait for each other
        cycles = steps * self.integer * (0.75 if integer == 2.0 else 1.0)
        return cycles + float64 * self.float64 + convert * self.convert + special * self.special


class Linked(NamedTuple):
    """A kernel as the linker reports it.

    Parameters
    ----------
    registers : int
        Of a thread.
    instructions : int
        Of machine code, written once each.
    integer_share : float
        The share of them that the integer pipe takes.
    scale : float
        Instructions of machine code for each slot by the rules of this module.
    """

    registers: int
    instructions: int
    integer_share: float
    scale: float


ON_INTEGER_PIPE = re.compile(
    r"(IADD|LOP|ISETP|SHF|LEA|SEL|PRMT|IMNMX|VIMNMX|VIADD|PLOP|FSETP|FSEL|P2R|R2P|SGXT|BMSK|FMNMX)"
)
SASS = re.compile(r"/\*[0-9a-f]{4,}\*/\s+(?:@!?U?P\w+ )?([A-Z]\w*)")


@functools.cache
def linked(ptx: str, architecture: str) -> Linked:
    """Link PTX for an architecture such as "sm_90", as it is for a wheel, and read the machine
    code.

    Raises
    ------
    ImportError
        ``cuda.bindings`` or nvdisasm is not installed.
    """
    from cuda.bindings import nvjitlink
    from cuda.pathfinder import find_nvidia_binary_utility

    from building.cubins import as_shipped

    nvdisasm = find_nvidia_binary_utility("nvdisasm")
    if nvdisasm is None:
        raise ImportError("nvdisasm is not installed: pip install nvidia-cuda-nvdisasm")
    handle = nvjitlink.create(2, [f"-arch={architecture}", "-verbose"])
    text = as_shipped(ptx).encode() + b"\0"
    nvjitlink.add_data(handle, nvjitlink.InputType.PTX, text, len(text), "kernel")
    nvjitlink.complete(handle)
    log = bytearray(nvjitlink.get_info_log_size(handle))
    nvjitlink.get_info_log(handle, log)
    cubin = bytearray(nvjitlink.get_linked_cubin_size(handle))
    nvjitlink.get_linked_cubin(handle, cubin)
    nvjitlink.destroy(handle)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "kernel.cubin"
        path.write_bytes(cubin)
        command = [str(nvdisasm), "-c", str(path)]
        sass = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    names = [name for name in SASS.findall(sass) if name != "NOP"]
    (registers,) = re.findall(r"Used (\d+) registers", log.decode())
    integer = sum(ON_INTEGER_PIPE.match(name) is not None for name in names)
    expected = sum(sum(slots_of(each.opcode)) for each in parse(ptx).instructions)
    return Linked(int(registers), len(names), integer / len(names), len(names) / expected)
