"""PTX text as a program: parameters, shared variables, registers, instructions and basic blocks.

It reads what libNVVM writes for one kernel. Anything else (functions, calls, constant tables,
textures) is an error that names the line.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property

BITS = {
    "pred": 1,
    **{f"{kind}{bits}": bits for kind in "bus" for bits in (8, 16, 32, 64)},
    "f32": 32,
    "f64": 64,
}
"""Bits of a PTX type by its name."""

BARRIERS = ("bar", "barrier")
JUMPS = ("bra", "ret", "exit")
FRAME_ALIGNMENT = 16
SPACES = ("param", "shared", "global", "local")


class PtxError(Exception):
    """PTX that is malformed or beyond what the machine runs."""


@dataclass(frozen=True)
class Access:
    """How an instruction touches memory.

    ``space`` is ``global``, ``shared``, ``local``, ``param`` or ``generic``, ``width`` the bytes
    that one thread touches, and ``kind`` is ``read``, ``write`` or ``atomic``.
    """

    space: str
    width: int
    kind: str


@dataclass(frozen=True)
class Instruction:
    """One instruction. ``guard`` is the predicate register that it depends on, if any."""

    line: int
    opcode: str
    operands: tuple[str, ...]
    guard: str | None = None
    negated: bool = False

    def __str__(self) -> str:
        guard = f"@{'!' if self.negated else ''}{self.guard} " if self.guard else ""
        return f"{guard}{self.opcode} {', '.join(self.operands)};"

    @cached_property
    def parts(self) -> tuple[str, ...]:
        """The opcode between its dots."""
        return tuple(self.opcode.split("."))

    @property
    def name(self) -> str:
        return self.parts[0]

    @property
    def type(self) -> str:
        """The last type in the opcode, or an empty string."""
        return next((part for part in reversed(self.parts) if part in BITS), "")

    @property
    def is_barrier(self) -> bool:
        return self.name in BARRIERS

    @cached_property
    def access(self) -> Access | None:
        """How it touches memory; None where it does not."""
        kind = {"ld": "read", "st": "write", "atom": "atomic", "red": "atomic"}.get(self.name)
        if kind is None:
            return None
        space = next((part for part in self.parts if part in SPACES), "generic")
        vector = {"v2": 2, "v4": 4}
        count = next((vector[part] for part in self.parts if part in vector), 1)
        return Access(space, count * BITS[self.type] // 8, kind)

    @cached_property
    def targets(self) -> tuple[str, ...]:
        """The registers that are written."""
        if self.name in ("st", "red", *BARRIERS, *JUMPS) or not self.operands:
            return ()
        return tuple(registers_in(self.operands[0]))

    @cached_property
    def sources(self) -> tuple[str, ...]:
        """The registers that are read."""
        read = self.operands[len(self.targets) > 0 :]
        guard = (self.guard,) if self.guard else ()
        return (*guard, *(name for operand in read for name in registers_in(operand)))


@dataclass(frozen=True)
class Variable:
    """A parameter, or a variable in shared or local memory, by its place there in bytes."""

    name: str
    offset: int
    size: int


@dataclass(frozen=True)
class Block:
    """A basic block: the instructions from ``first`` up to ``end``, and the blocks after it."""

    first: int
    end: int
    successors: tuple[int, ...]


@dataclass(eq=False)
class Program:
    """A kernel: what it declares, its instructions, and its basic blocks in their order."""

    name: str
    target: str
    parameters: list[Variable] = field(default_factory=list)
    shared: list[Variable] = field(default_factory=list)
    local: list[Variable] = field(default_factory=list)
    registers: dict[str, int] = field(default_factory=dict)
    instructions: list[Instruction] = field(default_factory=list)
    labels: dict[str, int] = field(default_factory=dict)

    @property
    def short_name(self) -> str:
        """The name of the Python function, where Numba has mangled it into the kernel's."""
        rest, part = self.name.removeprefix("_ZN"), ""
        while match := re.match(r"\d+", rest):
            end = match.end() + int(match[0])
            part, rest = rest[match.end() : end], rest[end:]
        return part or self.name

    @property
    def shared_bytes(self) -> int:
        """The bytes of shared memory that the kernel declares."""
        return _end_of(self.shared)

    @property
    def local_bytes(self) -> int:
        return _end_of(self.local)

    @property
    def local_bytes_in_frame(self) -> int:
        """The bytes of local memory as the frame of a thread, at whose end it is, holds them."""
        return -(-self.local_bytes // FRAME_ALIGNMENT) * FRAME_ALIGNMENT

    @property
    def parameter_bytes(self) -> int:
        return _end_of(self.parameters)

    @cached_property
    def barriers(self) -> list[int]:
        """The instructions at which threads wait for each other."""
        return [i for i, instruction in enumerate(self.instructions) if instruction.is_barrier]

    @cached_property
    def widths(self) -> dict[str, int]:
        """The bytes of the narrowest access to each address space that is touched."""
        found: dict[str, int] = {}
        for access in filter(None, (instruction.access for instruction in self.instructions)):
            found[access.space] = min(access.width, found.get(access.space, access.width))
        return found

    @cached_property
    def blocks(self) -> list[Block]:
        """The basic blocks. A barrier ends one."""
        last = len(self.instructions)
        leaders = {0, *self.labels.values()}
        for i, instruction in enumerate(self.instructions):
            if instruction.is_barrier or instruction.name in JUMPS:
                leaders.add(i + 1)
        firsts = sorted(leader for leader in leaders if leader < last)
        number = {first: k for k, first in enumerate(firsts)}
        blocks = []
        for first, end in zip(firsts, [*firsts[1:], last], strict=True):
            ending = self.instructions[end - 1]
            after = []
            if ending.name not in JUMPS or ending.guard:
                if end == last:
                    raise PtxError(f"line {ending.line}: the kernel ends without ret: {ending}")
                after.append(number[end])
            if ending.name == "bra":
                after.append(number[self.target_of(ending)])
            blocks.append(Block(first, end, tuple(after)))
        return blocks

    def target_of(self, branch: Instruction) -> int:
        """Return the number of the instruction that a branch leads to."""
        if branch.operands[0] not in self.labels:
            raise PtxError(f"line {branch.line}: no label {branch.operands[0]!r}: {branch}")
        return self.labels[branch.operands[0]]


def _end_of(variables: list[Variable]) -> int:
    return max((variable.offset + variable.size for variable in variables), default=0)


def registers_in(operand: str) -> list[str]:
    """Return the registers that an operand names; special registers such as ``%tid.x`` are none."""
    names = re.findall(r"%[\w$]+(?:\.[xyz])?", operand)
    return [name for name in names if "." not in name and name not in SPECIAL]


SPECIAL = ("%laneid", "%dynamic_smem_size")
"""Special registers without components."""


STATEMENT = re.compile(
    r"\s*(?:(?P<scope>[{}])|(?P<label>[\w$]+):|(?P<line>\.(?:version|target|address_size)[^\n]*)"
    r"|(?P<entry>(?:\.\w+\s+)*\.entry\s[^{]*)|(?P<rest>[^;]+);)"
)
ENTRY = re.compile(r"\.entry\s+([\w$]+)\s*\((.*)\)", re.DOTALL)
DECLARATION = re.compile(
    r"(?:\.align\s+(?P<align>\d+)\s+)?\.(?P<type>\w+)\s+(?:\.ptr\s+)?(?:\.(?:global|shared)\s+)?"
    r"(?:\.align\s+\d+\s+)?(?P<name>[\w$]+)(?P<array>\[(?P<count>\d*)\])?$"
)
INSTRUCTION = re.compile(
    r"(?:@(?P<negated>!?)(?P<guard>%[\w$]+)\s+)?(?P<opcode>[a-z][\w.]*)\s*(?P<operands>.*)$",
    re.DOTALL,
)
REGISTERS = re.compile(r"\.reg\s+\.(\w+)\s+(.*)", re.DOTALL)


def parse(text: str, name: str | None = None) -> Program:
    """Read the kernel ``name``, or the only one, of a PTX module.

    Raises
    ------
    PtxError
        The text is not PTX, has no such kernel, or needs what the machine does not have.
    """
    kernels = list(_Parser(text).kernels())
    found = [kernel for kernel in kernels if name in (None, kernel.name)]
    if len(found) != 1:
        names = [kernel.name for kernel in kernels]
        raise PtxError(f"The module has the kernels {names}; name one of them, not {name!r}.")
    return found[0]


class _Parser:
    """The state of reading a module from its first to its last statement."""

    def __init__(self, text: str) -> None:
        without = re.sub(r"/\*.*?\*/", lambda m: "\n" * m[0].count("\n"), text, flags=re.DOTALL)
        self.text = re.sub(r"//[^\n]*", "", without)
        self.target = ""
        self.shared: list[Variable] = []
        self.kernel: Program | None = None
        self.scopes: list[dict[str, str]] = []
        """Registers declared in braces, by the name that they have there."""

    def statements(self) -> Iterator[tuple[int, re.Match[str]]]:
        at, line, end = 0, 1, len(self.text.rstrip())
        while at < end:
            match = STATEMENT.match(self.text, at)
            if match is None:
                line += self.text.count("\n", at, end)
                raise PtxError(f"line {line}: a statement without an end: {self.text[at:][:80]!r}")
            start = match.start(match.lastgroup or 0)
            line += self.text.count("\n", at, start)
            yield line, match
            line += self.text.count("\n", start, match.end())
            at = match.end()

    def kernels(self) -> Iterator[Program]:
        for line, match in self.statements():
            if match["scope"] == "{":
                self.scopes.append({})
            elif match["scope"] == "}":
                if not self.scopes:
                    raise PtxError(f"line {line}: a closing brace without an opening one")
                self.scopes.pop()
                if not self.scopes and self.kernel is not None:
                    yield self.kernel
                    self.kernel = None
            elif match["label"]:
                self.inside(line).labels[match["label"]] = len(self.inside(line).instructions)
            elif match["line"]:
                if match["line"].startswith(".target"):
                    self.target = match["line"].split()[1]
            elif match["entry"]:
                self.open_kernel(line, match["entry"])
            else:
                self.read(line, match["rest"].strip())

    def inside(self, line: int) -> Program:
        if self.kernel is None:
            raise PtxError(f"line {line}: an instruction outside of a kernel")
        return self.kernel

    def open_kernel(self, line: int, text: str) -> None:
        match = ENTRY.search(text)
        if match is None:
            raise PtxError(f"line {line}: not an entry: {text[:80]!r}")
        self.kernel = Program(match[1], self.target, shared=self.shared)
        for declared in filter(None, map(str.strip, match[2].split(","))):
            self.declare(line, declared.removeprefix(".param").strip(), self.kernel.parameters)

    def declare(self, line: int, text: str, variables: list[Variable]) -> None:
        """Append a variable where its alignment puts it."""
        match = DECLARATION.match(text)
        if match is None or match["type"] not in BITS:
            raise PtxError(f"line {line}: a declaration that the machine does not know: {text!r}")
        size = BITS[match["type"]] // 8
        align = int(match["align"] or size)
        offset = -(-_end_of(variables) // align) * align
        count = int(match["count"] or 0) if match["array"] else 1
        variables.append(Variable(match["name"], offset, size * count))

    def read(self, line: int, text: str) -> None:
        """Read a declaration or an instruction."""
        if text.startswith(".pragma"):
            return
        registers = REGISTERS.match(text)
        if registers:
            self.declare_registers(line, *registers.groups())
            return
        space = re.match(r"(?:\.(?:visible|extern|common|weak)\s+)*\.(\w+)\s+(.*)", text, re.DOTALL)
        if space is None:
            self.inside(line).instructions.append(self.instruction(line, text))
        elif space[1] == "shared":
            self.declare(line, space[2], self.shared)
        elif space[1] == "local":
            self.declare(line, space[2], self.inside(line).local)
        elif space[1] != "global":  # Numba declares an unused one for every function
            raise PtxError(f"line {line}: a declaration that the machine does not know: {text!r}")

    def declare_registers(self, line: int, kind: str, names: str) -> None:
        kernel = self.inside(line)
        if kind not in BITS:
            raise PtxError(f"line {line}: registers of an unknown type .{kind}")
        for name in map(str.strip, names.split(",")):
            many = re.match(r"(%[\w$]+)<(\d+)>$", name)
            for declared in [f"{many[1]}{i}" for i in range(int(many[2]))] if many else [name]:
                own = declared if len(self.scopes) == 1 else f"{declared}_{line}"
                self.scopes[-1][declared] = own
                kernel.registers[own] = BITS[kind]

    def instruction(self, line: int, text: str) -> Instruction:
        match = INSTRUCTION.match(text)
        if match is None:
            raise PtxError(f"line {line}: not an instruction: {text!r}")
        operands = tuple(self.resolve(line, operand) for operand in _split(match["operands"]))
        guard = self.resolve(line, match["guard"]) if match["guard"] else None
        return Instruction(line, match["opcode"], operands, guard, bool(match["negated"]))

    def resolve(self, line: int, operand: str) -> str:
        """Replace the registers of inner scopes by their own names."""
        for name in registers_in(operand):
            scope = next((scope for scope in reversed(self.scopes) if name in scope), None)
            if scope is None:
                raise PtxError(f"line {line}: {name} is not declared")
            if scope[name] != name:
                operand = re.sub(re.escape(name) + r"(?![\w$])", scope[name], operand)
        return operand


def _split(operands: str) -> list[str]:
    """Split at the commas outside of braces and brackets."""
    parts = re.findall(r"\s*((?:\{[^}]*\}|\[[^\]]*\]|[^,{\[])+)", operands)
    return [part.strip() for part in parts]
