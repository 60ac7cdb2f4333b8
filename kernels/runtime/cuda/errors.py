"""Errors of the CUDA driver and of its runtime library by their names: what can be done about them.

They come as integers, as exceptions of CuPy, cuda-core or Numba, and as texts: the name is in all.
"""

from __future__ import annotations

import re

MEMORY = ("CUDA_ERROR_OUT_OF_MEMORY", "cudaErrorMemoryAllocation")
"""The GPU has too little memory for an array, a kernel or a context."""
LOST = (
    "CUDA_ERROR_DEVICE_UNAVAILABLE", "cudaErrorDevicesUnavailable",
    "CUDA_ERROR_ECC_UNCORRECTABLE", "cudaErrorECCUncorrectable",
    "CUDA_ERROR_ILLEGAL_ADDRESS", "cudaErrorIllegalAddress",
    "CUDA_ERROR_LAUNCH_TIMEOUT", "cudaErrorLaunchTimeout",
    "CUDA_ERROR_ASSERT", "cudaErrorAssert",
    "CUDA_ERROR_HARDWARE_STACK_ERROR", "cudaErrorHardwareStackError",
    "CUDA_ERROR_ILLEGAL_INSTRUCTION", "cudaErrorIllegalInstruction",
    "CUDA_ERROR_MISALIGNED_ADDRESS", "cudaErrorMisalignedAddress",
    "CUDA_ERROR_INVALID_ADDRESS_SPACE", "cudaErrorInvalidAddressSpace",
    "CUDA_ERROR_INVALID_PC", "cudaErrorInvalidPc",
    "CUDA_ERROR_LAUNCH_FAILED", "cudaErrorLaunchFailure",
    "CUDA_ERROR_UNKNOWN", "cudaErrorUnknown",
)  # fmt: skip
"""The context is lost: every later call of the process fails too, whatever it asks for."""
REMEDIES = {
    **dict.fromkeys(
        MEMORY,
        "The GPU has too little free memory. Free what other arrays or programs hold, or use "
        "device='cpu'",
    ),
    **dict.fromkeys(
        LOST,
        "This or earlier work has stopped the GPU for this process, which must be started again: "
        "nothing that is on the GPU can be read. If it happens again, look for Xid errors in the "
        "log of the system (dmesg), and use device='cpu' meanwhile",
    ),
    "CUDA_ERROR_INVALID_VALUE": "This GPU does not have what is asked for. Please report it with "
    "the output of gpuens.show_config(), and use device='cpu' meanwhile",
    "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES": "The registers of a multiprocessor do not suffice for a "
    "block. Please report it with the output of gpuens.show_config(), and use device='cpu' "
    "meanwhile",
    "CUDA_ERROR_INVALID_CONTEXT": "Something else in this process has destroyed the context of "
    "the GPU, as cudaDeviceReset() does. Start the process again",
    "CUDA_ERROR_NOT_INITIALIZED": "A child process that was forked from one that had used a GPU "
    "cannot use it. Start processes by multiprocessing.get_context('spawn')",
}
REMEDIES["CUDA_ERROR_CONTEXT_IS_DESTROYED"] = REMEDIES["CUDA_ERROR_INVALID_CONTEXT"]
REMEDIES["cudaErrorInitializationError"] = REMEDIES["CUDA_ERROR_NOT_INITIALIZED"]
NAME = re.compile(r"\bCUDA_ERROR_[A-Z_]+|\bcudaError[A-Z]\w+")


def name_in(error: BaseException | str) -> str | None:
    """Return the name of an error of CUDA that an exception or a text names, None without one."""
    found = NAME.search(str(error))
    return found[0] if found else None


def remedy(name: str) -> str:
    """Return what can be done about an error, as the end of a message."""
    return f"{name}. {REMEDIES[name]}." if name in REMEDIES else f"{name}."


def is_of_the_device(error: BaseException | str) -> bool:
    """Return whether an error is that of the GPU as it is now, not of what it was given."""
    return name_in(error) in (*MEMORY, *LOST)
