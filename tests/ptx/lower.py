"""From a PTX program to LLVM IR: one function that runs a thread from one barrier to the next.

    i64 phase(ptr context, ptr frame, i64 resume)

It begins after the barrier that ``resume`` counts, or at the start for 0, and returns the barrier
that it has come to (from 1), ``DONE`` or ``RAN_AWAY``. Registers are variables of the function,
which LLVM turns into values; those that are alive at a barrier wait for the other threads in the
thread's frame, and so does its local memory. All registers are integers of their width there,
because newer versions of libNVVM keep floats in ``.b64``.
"""

from __future__ import annotations

import re
import struct
from dataclasses import dataclass

from . import opcodes
from .context import DONE, KINDS, RAN_AWAY, SHARED_TAGS, SPACES, TAG, Word
from .parse import BITS, FRAME_ALIGNMENT, Instruction, Program, PtxError, Variable

SPECIAL = {
    f"%{name}.{axis}": Word[f"{word}_{axis.upper()}"]
    for name, word in (
        ("tid", "THREAD"),
        ("ntid", "THREADS"),
        ("ctaid", "BLOCK"),
        ("nctaid", "BLOCKS"),
    )
    for axis in "xyz"
} | {"%dynamic_smem_size": Word.DYNAMIC_SHARED}
SLOT = 8
"""Bytes of a register in a frame."""


@dataclass(frozen=True)
class Options:
    """How a kernel is lowered: with checks of its accesses, with counters."""

    watch: bool = False
    count: bool = False


@dataclass(frozen=True)
class Lowered:
    """The IR, and the bytes of a thread's frame: registers first, then local memory."""

    text: str
    frame_bytes: int


def live_at_barriers(program: Program) -> dict[int, list[str]]:
    """Return the registers that are alive after each barrier, by the barrier's instruction."""
    blocks, number = program.blocks, {name: k for k, name in enumerate(program.registers)}

    def bits(names: tuple[str, ...]) -> int:
        mask = 0
        for name in names:
            if name in number:
                mask |= 1 << number[name]
        return mask

    read, written = [], []
    for block in blocks:
        before = defined = 0
        for instruction in program.instructions[block.first : block.end]:
            before |= bits(instruction.sources) & ~defined
            if instruction.guard is None:
                defined |= bits(instruction.targets)
        read.append(before)
        written.append(defined)
    alive = [0] * len(blocks)
    changed = True
    while changed:
        changed = False
        for k in reversed(range(len(blocks))):
            after = 0
            for successor in blocks[k].successors:
                after |= alive[successor]
            now = read[k] | after & ~written[k]
            if now != alive[k]:
                alive[k], changed = now, True
    at = {}
    for block in blocks:
        if program.instructions[block.end - 1].is_barrier:
            mask = alive[block.successors[0]]
            at[block.end - 1] = [name for name, k in number.items() if mask >> k & 1]
    return at


class Emitter:
    """Appends LLVM instructions, and reads and writes PTX operands for ``opcodes``."""

    def __init__(self, program: Program, options: Options) -> None:
        self.program, self.options = program, options
        self.lines: list[str] = []
        self.used_words: set[Word] = set()
        self.n_values = 0
        self.instruction = Instruction(0, "", ())
        self.number = 0
        self.symbols: dict[str, tuple[str, Variable, int]] = {}
        """Variables by name: their space, the variable and its tag."""
        for k, variable in enumerate(program.shared):
            self.symbols[variable.name] = ("shared", variable, SHARED_TAGS + k)
        for variable in program.local:
            self.symbols[variable.name] = ("local", variable, SHARED_TAGS + len(program.shared))
        for variable in program.parameters:
            self.symbols[variable.name] = ("param", variable, 0)

    @property
    def line(self) -> int:
        return self.instruction.line

    def __call__(self, text: str) -> str:
        """Append an instruction with a value, and return the name of the value."""
        self.n_values += 1
        name = f"%v{self.n_values}"
        self.lines.append(f"  {name} = {text}")
        return name

    def line_of(self, text: str) -> None:
        """Append an instruction without a value."""
        self.lines.append(f"  {text}")

    def error(self, what: str) -> PtxError:
        return PtxError(f"line {self.line}: {what}: {self.instruction}")

    # Operands.

    def word(self, word: Word) -> str:
        """Return the value that a word of the context had when the thread was resumed."""
        self.used_words.add(word)
        return f"%word.{word.name}"

    def get(self, operand: str, kind: str) -> str:
        """Return the value of an operand, which has a PTX type."""
        if operand in self.program.registers:
            return self.read_register(operand, kind)
        if operand in SPECIAL:
            return self.fit(self(f"trunc i64 {self.word(SPECIAL[operand])} to i32"), 32, kind)
        if operand == "%laneid":
            thread = self(f"trunc i64 {self.word(Word.THREAD)} to i32")
            return self.fit(self(f"and i32 {thread}, 31"), 32, kind)
        if operand in self.symbols and BITS[kind] == 64:
            return self.address_of(operand)
        return self.constant(operand, kind)

    def read_register(self, name: str, kind: str) -> str:
        bits = self.program.registers[name]
        value = self(f"load i{bits}, ptr {variable_of(name)}")
        return self.fit(value, bits, kind)

    def fit(self, value: str, bits: int, kind: str) -> str:
        """Return an integer of so many bits as a value of a PTX type."""
        wanted = BITS[kind]
        if wanted > bits:
            raise self.error(f"a value of {bits} bits is read as .{kind}")
        if wanted < bits:
            value = self(f"trunc i{bits} {value} to i{wanted}")
        if kind.startswith("f"):
            value = self(f"bitcast i{wanted} {value} to {opcodes.llvm_type(kind)}")
        return value

    def constant(self, operand: str, kind: str) -> str:
        """Return a constant: an integer, or the bits of a float, as ``0d3FF0000000000000``."""
        try:
            if operand[:2] in ("0d", "0D"):
                bits = int(operand[2:], 16)
            elif operand[:2] in ("0f", "0F"):
                bits = int(operand[2:], 16)
                if kind == "f64":
                    raise ValueError
                if kind == "f32":  # LLVM writes single precision as double
                    value = struct.unpack("<f", struct.pack("<I", bits))[0]
                    bits = struct.unpack("<Q", struct.pack("<d", value))[0]
            else:
                bits = int(operand.rstrip("U"), 0)
                if kind.startswith("f"):
                    raise ValueError
        except ValueError:
            raise self.error(f"{operand!r} is not a value of type .{kind}") from None
        if kind.startswith("f"):
            return f"0x{bits:016X}"
        if kind == "pred":
            return str(bits & 1)
        return str(bits & ((1 << BITS[kind]) - 1))

    def set(self, target: str, kind: str, value: str) -> None:
        """Write a value of a PTX type to a register, which may be wider."""
        if kind.startswith("f"):
            value = self(f"bitcast {opcodes.llvm_type(kind)} {value} to i{BITS[kind]}")
        self.set_bits(target, kind, value)

    def set_bits(self, target: str, kind: str, value: str) -> None:
        """Write an integer with the bits of a PTX type to a register."""
        if target == "_":
            return
        if target not in self.program.registers:
            raise self.error(f"{target!r} is not a register")
        bits, wide = BITS[kind], self.program.registers[target]
        if bits > wide:
            raise self.error(f"{target} has {wide} bits, not those of .{kind}")
        if bits < wide:
            extend = "sext" if opcodes.is_signed(kind) else "zext"
            value = self(f"{extend} i{bits} {value} to i{wide}")
        self.line_of(f"store i{wide} {value}, ptr {variable_of(target)}")

    def elements(self, operand: str, vector: str | None) -> list[str]:
        """Return the operands of ``{a, b}``, or the only one where there is no vector."""
        names = [name.strip() for name in operand.strip("{}").split(",")]
        if len(names) != {None: 1, ".v2": 2, ".v4": 4}[vector]:
            raise self.error(f"{operand} does not have the length of the vector")
        return names

    def unpack(self, targets: str, value: str, bits: int) -> None:
        """Write the parts of a value, the lowest first, to registers."""
        names = [name.strip() for name in targets.strip("{}").split(",")]
        width = bits // len(names)
        for k, name in enumerate(names):
            part = self(f"lshr i{bits} {value}, {k * width}")
            self.set_bits(name, f"b{width}", self(f"trunc i{bits} {part} to i{width}"))

    def pack(self, sources: str, bits: int) -> str:
        """Return the parts of a value, the lowest first, in one integer."""
        names = [name.strip() for name in sources.strip("{}").split(",")]
        width, value = bits // len(names), "0"
        for k, name in enumerate(names):
            part = self(f"zext i{width} {self.get(name, f'b{width}')} to i{bits}")
            value = self(f"or i{bits} {value}, {self(f'shl i{bits} {part}, {k * width}')}")
        return value

    # Memory.

    def address_of(self, name: str) -> str:
        """Return the address of a variable, with its tag where accesses are checked."""
        space, variable, tag = self.symbols[name]
        if space == "shared":
            base = self.word(Word.SHARED)
        elif space == "local":
            base = self("ptrtoint ptr %local to i64")
        else:
            raise self.error("the address of a parameter is taken")
        own = tag << TAG if self.options.watch else 0
        return self(f"add i64 {base}, {variable.offset + own}")

    def pointer(self, operand: str) -> str:
        """Return the checked pointer of an operand such as ``[%rd1+8]``."""
        match = re.match(r"\[\s*([^\]+\s]+)\s*(?:\+\s*(-?\w+))?\s*\]$", operand)
        access = self.instruction.access
        if match is None or access is None:
            raise self.error(f"{operand} is not an address")
        base, offset = match[1], int(match[2] or "0", 0)
        if access.space == "param":
            if self.symbols.get(base, ("",))[0] != "param":
                raise self.error(f"{base} is not a parameter")
            offset += self.symbols[base][1].offset
            parameters = f"inttoptr i64 {self.word(Word.PARAMETERS)} to ptr"
            return self(f"getelementptr i8, ptr {self(parameters)}, i64 {offset}")
        if base in self.program.registers and self.program.registers[base] != 64:
            raise self.error(f"{base} is not an address of 64 bits")
        address = self(f"add i64 {self.get(base, 'u64')}, {offset}")
        if self.options.watch:
            arguments = (
                "ptr %context", f"i64 {address}", f"i64 {self.number}", f"i64 {access.width}",
                f"i64 {SPACES.index(access.space)}", f"i64 {KINDS.index(access.kind)}",
            )  # fmt: skip
            check = self(f"inttoptr i64 {self.word(Word.CHECK)} to ptr")
            address = self(f"call i64 {check}({', '.join(arguments)})")
        return self(f"inttoptr i64 {address} to ptr")


def variable_of(register: str) -> str:
    """Return the name of the LLVM variable that a register is."""
    return f"%r.{register.removeprefix('%')}"


class _Function(Emitter):
    """The whole function."""

    def __init__(self, program: Program, options: Options) -> None:
        super().__init__(program, options)
        self.alive = live_at_barriers(program)
        self.point = {barrier: k + 1 for k, barrier in enumerate(program.barriers)}
        kept = sorted({name for names in self.alive.values() for name in names})
        self.slots = {name: k * SLOT for k, name in enumerate(kept)}
        self.local_at = -(-len(kept) * SLOT // FRAME_ALIGNMENT) * FRAME_ALIGNMENT

    def lower(self) -> Lowered:
        for k, block in enumerate(self.program.blocks):
            self.lines.append(f"bb{k}:")
            if self.options.count:
                self.count_block(k)
            for number in range(block.first, block.end):
                self.number, self.instruction = number, self.program.instructions[number]
                if number == block.end - 1 and self.ends_block(k):
                    break
                self.emit()
            else:
                self.line_of(f"br label %bb{k + 1}")
        body, self.lines = self.lines, []
        self.prologue()
        text = "\n".join([*self.lines, *body, "}", *declarations(body)])
        frame = self.local_at + self.program.local_bytes_in_frame
        return Lowered(text, max(frame, FRAME_ALIGNMENT))

    def emit(self) -> None:
        """Emit an instruction in the middle of a block."""
        guard = self.instruction.guard
        if guard is None:
            opcodes.emit(self, self.instruction)
            return
        self.line_of(self.branch(f"%do{self.number}", f"%past{self.number}"))
        self.lines.append(f"do{self.number}:")
        opcodes.emit(self, self.instruction)
        self.line_of(f"br label %past{self.number}")
        self.lines.append(f"past{self.number}:")

    def branch(self, then: str, otherwise: str) -> str:
        """Return a jump by the guard of the instruction."""
        if self.instruction.guard is None:
            return f"br label {then}"
        if self.instruction.negated:
            then, otherwise = otherwise, then
        return f"br i1 {self.get(self.instruction.guard, 'pred')}, label {then}, label {otherwise}"

    def ends_block(self, k: int) -> bool:
        """Emit a jump, an end or a barrier; return False where the instruction is neither."""
        instruction, past = self.instruction, f"%bb{k + 1}"
        if instruction.opcode in ("bra", "bra.uni"):
            target = self.program.blocks[k].successors[-1]
            then = f"%bb{target}"
            if target <= k and (self.options.watch or self.options.count):
                then = f"%back{self.number}"
            self.line_of(self.branch(then, past))
            if then != f"%bb{target}":
                self.burn(target)
            return True
        if instruction.opcode in ("ret", "exit", "ret.uni"):
            self.leave(DONE, past)
            return True
        if instruction.opcode in ("bar.sync", "barrier.sync", "barrier.cta.sync"):
            if instruction.operands != ("0",):
                raise self.error("only barrier 0 with all threads is known")
            self.leave(self.point[self.number], past)
            return True
        if instruction.is_barrier or instruction.name in ("bra", "ret"):
            raise self.error(f"the machine does not know {instruction.opcode!r}")
        return False

    def leave(self, value: int, past: str) -> None:
        """Return a value, by the guard, with the living registers in the frame."""
        if self.instruction.guard is not None:
            self.line_of(self.branch(f"%do{self.number}", past))
            self.lines.append(f"do{self.number}:")
        for name in self.alive.get(self.number, ()):
            bits = self.program.registers[name]
            value_of = self(f"load i{bits}, ptr {variable_of(name)}")
            place = self(f"getelementptr i8, ptr %frame, i64 {self.slots[name]}")
            self.line_of(f"store i{bits} {value_of}, ptr {place}")
        self.line_of(f"ret i64 {value}")

    def burn(self, target: int) -> None:
        """Emit the way of a jump backwards: a kernel that goes on for ever is stopped."""
        self.lines.append(f"back{self.number}:")
        place = self(f"getelementptr i64, ptr %context, i64 {Word.FUEL}")
        left = self(f"sub i64 {self(f'load i64, ptr {place}')}, 1")
        self.line_of(f"store i64 {left}, ptr {place}")
        empty = self(f"icmp slt i64 {left}, 0")
        self.line_of(f"br i1 {empty}, label %ran_away, label %bb{target}")

    def count_block(self, k: int) -> None:
        counts = self(f"inttoptr i64 {self.word(Word.COUNTS)} to ptr")
        place = self(f"getelementptr i64, ptr {counts}, i64 {k}")
        more = self(f"add i64 {self(f'load i64, ptr {place}')}, 1")
        self.line_of(f"store i64 {more}, ptr {place}")

    def prologue(self) -> None:
        """Emit the entry: registers, words of the context, and the way back to each barrier."""
        self.lines.append("define i64 @phase(ptr %context, ptr %frame, i64 %resume) {")
        self.lines.append("entry:")
        for name, bits in self.program.registers.items():
            self.line_of(f"{variable_of(name)} = alloca i{bits}")
            self.line_of(f"store i{bits} 0, ptr {variable_of(name)}")
        self.line_of(f"%local = getelementptr i8, ptr %frame, i64 {self.local_at}")
        for word in sorted(self.used_words):
            place = self(f"getelementptr i64, ptr %context, i64 {word}")
            self.line_of(f"%word.{word.name} = load i64, ptr {place}")
        ways = " ".join(f"i64 {k}, label %resume{k}" for k in self.point.values())
        self.line_of(f"switch i64 %resume, label %bb0 [{ways}]")
        for k, block in enumerate(self.program.blocks):
            barrier = block.end - 1
            if barrier not in self.point:
                continue
            self.lines.append(f"resume{self.point[barrier]}:")
            for name in self.alive[barrier]:
                bits = self.program.registers[name]
                place = self(f"getelementptr i8, ptr %frame, i64 {self.slots[name]}")
                value = self(f"load i{bits}, ptr {place}")
                self.line_of(f"store i{bits} {value}, ptr {variable_of(name)}")
            self.line_of(f"br label %bb{k + 1}")
        self.lines += ["ran_away:", f"  ret i64 {RAN_AWAY}"]


INTRINSIC = re.compile(r"call (\S+) (@llvm\.[\w.]+)\(([^)]*)\)")


def declarations(lines: list[str]) -> list[str]:
    """Return the declarations of LLVM's functions that are called."""
    found = set()
    for line in lines:
        for result, name, arguments in INTRINSIC.findall(line):
            types = ", ".join(argument.split()[0] for argument in arguments.split(", "))
            found.add(f"declare {result} {name}({types})")
    return sorted(found)


def lower(program: Program, options: Options) -> Lowered:
    """Write a program as LLVM IR.

    Raises
    ------
    PtxError
        The program has an instruction that the machine does not know.
    """
    return _Function(program, options).lower()
