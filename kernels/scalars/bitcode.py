"""Compilation of functions that only compiled functions call, into code for their callers.

Numba optimises a function, generates its machine code, and then links its optimised intermediate
code into its callers, whose machine code is the one that runs. Here a function's own machine code
is left out, and so are the passes that make its code longer: vectorisation and unrolling come when
it is part of a kernel, as in link-time optimisation. A first boosting fit compiles in 23 CPU
seconds so, and in 35 to 40 where Numba's own compiler does it.
"""

from __future__ import annotations

from typing import Any

import llvmlite.binding as llvm
from numba import _dynfunc
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler
from numba.core.compiler_machinery import register_pass
from numba.core.typed_passes import NativeLowering


class LinkedLibrary(JITCodeLibrary):
    """The code of a function, simplified and without machine code."""

    def _optimize_functions(self, ll_module: Any) -> None:
        ll_module.data_layout = self._codegen._data_layout

    def _optimize_final_module(self) -> None:
        options = llvm.create_pipeline_tuning_options(speed_level=3)
        options.loop_vectorization = options.slp_vectorization = False
        options.loop_interleaving = options.loop_unrolling = False
        builder = llvm.create_pass_builder(self._codegen._tm, options)
        builder.getModulePassManager().run(self._final_module, builder)

    def _finalize_final_module(self) -> None:
        self._finalize_dynamic_globals()
        self._verify_declare_only_symbols()
        self._finalized = True


@register_pass(mutates_CFG=True, analysis_only=False)
class LinkedLowering(NativeLowering):
    """Writes the code of a function and makes it known to compiled callers. There is nothing that
    Python could call."""

    _name = "gpuens_linked_lowering"

    def run_pass(self, state: Any) -> bool:
        codegen = state.targetctx.codegen()
        state.library = LinkedLibrary(codegen, state.func_id.func_qualname)
        state.flags.no_compile = True
        super().run_pass(state)
        made, name = state.cr.fndesc, state.func_id.func_name
        entry = _dynfunc.make_function(made.lookup_module(), name, "", 0, state.cr.env, ())
        state.targetctx.insert_user_function(entry, made, [state.library])
        state.cr = state.cr._replace(cfunc=entry)
        return True


class LinkedCompiler(Compiler):
    """Numba's compiler with that pass in place of its own."""

    def define_pipelines(self) -> list[Any]:
        managers = super().define_pipelines()
        for manager in managers:
            manager.passes = [
                (LinkedLowering if step is NativeLowering else step, description)
                for step, description in manager.passes
            ]
        return managers
