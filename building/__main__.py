"""``python -m building library`` compiles the CPU's kernels into the checkout, ``cubins`` those of
GPUs; ``wheels`` compiles both and builds wheels, and ``--try`` fits models with one of them;
``next_compiler`` tries the successor of numba-cuda on the kernels of GPUs."""

from __future__ import annotations

import argparse
from pathlib import Path

from gpuens.kernels.runtime import native

from . import library


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="python -m building", description=__doc__)
    known = ["library", "cubins", "wheels", "next_compiler"]
    parser.add_argument("what", choices=known)
    parser.add_argument("--output", type=Path, default=Path("dist"), help="folder of the wheels")
    parser.add_argument(
        "--if-needed", action="store_true", help="keep what was built from these sources"
    )
    parser.add_argument(
        "--levels", nargs="+", choices=native.levels(), default=list(native.levels()),
        help="the processors to compile for (default: all of this architecture)",
    )  # fmt: skip
    parser.add_argument(
        "--architectures", nargs="+", type=int, metavar="N",
        help="the GPUs that `cubins` compiles for, as in 90 (default: all)",
    )  # fmt: skip
    parser.add_argument(
        "--try", dest="tried", action="store_true", help="fit models in an environment of its own"
    )
    parser.add_argument(
        "--cpu-only", action="store_true",
        help="compile no kernels of GPUs: the wheel has those that were compiled before",
    )  # fmt: skip
    chosen = parser.parse_args()
    # Each imports what it needs of the packages: those for GPUs are not on every system.
    if chosen.what == "next_compiler":
        from . import next_compiler

        next_compiler.run()
        return
    if chosen.what == "cubins":
        from . import cubins

        cubins.build(groups=[chosen.architectures] if chosen.architectures else cubins.FILES)
        return
    if not (chosen.if_needed and library.is_current(chosen.levels)):
        library.build(chosen.levels)
    if chosen.what == "wheels":
        from . import trial, wheels  # which need what `make wheels` installs

        if not chosen.cpu_only:
            from . import cubins

            if not (chosen.if_needed and cubins.is_current()):
                cubins.build()
        wheel = wheels.build(chosen.output)
        if chosen.tried:
            trial.run(wheel)


if __name__ == "__main__":
    main()
