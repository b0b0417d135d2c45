"""A program: one MLIR function of burn ops, its weights, and the names of its inputs and outputs.

Importers and tracing build it (`Program.create`, then `finish`), passes rewrite it, code generators read it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from burn.dialect.mlir import context, func, ir
from burn.dialect.types import RANDOM_STATE, Container, TensorType, type_of
from burn.dialect.weights import WeightStore


@dataclass(frozen=True)
class SourceModule:
    """A module of the model that a program was imported from: its dotted path, and the qualified name of its class."""

    path: str
    cls: str


@dataclass
class Program:
    """`module` holds one function, `main`, whose block ends with `burn.return`."""

    module: ir.Module
    weights: WeightStore
    input_names: list[str]
    output_names: list[str] = field(default_factory=list)
    given_up: tuple[int, ...] = ()
    """The inputs that the caller donates at each run: outputs may reuse their memory."""
    renews: dict[int, int] = field(default_factory=dict)
    """Maps an output's number to the input whose next value it is. Such an output reuses no other input's memory."""
    size_hints: dict[str, int] = field(default_factory=dict)
    """Size hints: typical values of named sizes, for choices. Results are correct for all sizes."""
    input_containers: dict[int, Container] = field(default_factory=dict)
    output_containers: dict[int, Container] = field(default_factory=dict)
    """The element types of inputs and outputs that are lists."""
    output_keys: dict[int, tuple[int, ...] | tuple[str, ...]] = field(default_factory=dict)
    """The keys of outputs [n, keys] that callers receive as a list of n dicts."""
    node_modules: dict[str, tuple[SourceModule, ...]] = field(default_factory=dict)
    """Maps the name of a node of the source model to the modules around it, outermost first, if the file says them."""
    defaults: tuple[str, ...] = ()
    """Constants that the model offers as inputs with a default value."""
    random_state: bool = False
    """True if the last input is the random state (dialect/random.py), which the executable supplies at each run."""
    _draws: int = field(default=0, repr=False)  # random draws so far
    # iterations of the enclosing loops under construction
    _iterations: list[ir.Value] = field(default_factory=list, repr=False)

    @staticmethod
    def create(inputs: Sequence[tuple[str, TensorType]], weights: WeightStore | None = None) -> Program:
        with context(), ir.Location.name("program"):
            module = ir.Module.create()
            with ir.InsertionPoint(module.body):
                function = func.FuncOp("main", ([t.to_mlir() for _, t in inputs], []))
                function.add_entry_block()
        return Program(module, WeightStore() if weights is None else weights, [name for name, _ in inputs])

    def copy(self) -> Program:
        """A copy for rewriting; it shares the weights' bytes."""
        with context():
            clone = self.module.operation.clone(ip=False)  # works while another program is under construction
            module = ir.Module.create(ir.Location.unknown())
            for operation in list(clone.regions[0].blocks[0].operations):
                operation.operation.detach_from_parent()
                module.body.append(operation)
        return replace(
            self,
            module=module,
            weights=self.weights.copy(),
            input_names=list(self.input_names),
            output_names=list(self.output_names),
            renews=dict(self.renews),
            size_hints=dict(self.size_hints),
        )

    def add_input(self, name: str, type_: TensorType) -> ir.Value:
        """Appends an input; the random state stays the last."""
        while name in self.input_names:
            name += "_"
        with context():
            last = self.block.add_argument(type_.to_mlir(), ir.Location.name(name))
            if not self.random_state:
                self.input_names.append(name)
                return last
            state = ir.BlockArgument(self.inputs[-2])
            last.set_type(state.type)
            state.replace_all_uses_with(last)
            state.set_type(type_.to_mlir())
        self.input_names.insert(-1, name)
        return state

    @property
    def function(self) -> func.FuncOp:
        return next(op for op in self.module.body.operations if isinstance(op.opview, func.FuncOp)).opview

    @property
    def block(self) -> ir.Block:
        return self.function.regions[0].blocks[0]

    @property
    def inputs(self) -> list[ir.Value]:
        return list(self.block.arguments)

    @property
    def outputs(self) -> list[ir.Value]:
        return list(self.terminator.operands)

    @property
    def terminator(self) -> ir.Operation:
        return list(self.block.operations)[-1].operation

    @property
    def input_types(self) -> list[TensorType]:
        return [type_of(v) for v in self.inputs]

    @property
    def output_types(self) -> list[TensorType]:
        return [type_of(v) for v in self.outputs]

    @property
    def donated(self) -> dict[int, int]:
        """Maps an output's index to the input whose memory it may reuse."""
        takes = self.terminator.opview.takes or ()
        return {output: source for output, source in enumerate(takes) if source >= 0}

    @contextmanager
    def building(self, node: str = "program") -> Iterator[None]:
        """Ops built inside are appended to the program, located at `node`."""
        with context(), ir.Location.name(node), ir.InsertionPoint(self.block):
            yield

    # ---- random numbers ------------------------------------------------------------------------------------------------
    @property
    def state(self) -> ir.Value:
        """The run's random state, which becomes an input of the program on first use."""
        if not self.random_state:
            self.add_input("random_state", RANDOM_STATE)
            self.random_state = True
        return self.inputs[-1]

    def random_key(self, seed: int | None = None) -> ir.Value:
        """The key (uint32[2]) of the next random draw, built at the insertion point. It derives from the run's random
        state, or from a seed (the same at each run), and from the iterations of the enclosing loops."""
        from burn.dialect import ops

        if seed is None:
            self._draws += 1
            return ops.random_key(self.state, self._iterations, draw=self._draws)
        words = (seed - 2**64 if seed >= 2**63 else seed, 0)
        state = ops.constant(values=(), bits=words, shape=RANDOM_STATE.shape, dtype=RANDOM_STATE.dtype)
        return ops.random_key(state, self._iterations)

    @contextmanager
    def iterating(self, iteration: ir.Value) -> Iterator[None]:
        """Random draws inside differ in each iteration of a loop."""
        self._iterations.append(iteration)
        try:
            yield
        finally:
            self._iterations.pop()

    @property
    def random_position(self) -> tuple[tuple[ir.Value, ...], int]:
        """The enclosing iterations, and the number of random draws so far."""
        return tuple(self._iterations), self._draws

    @contextmanager
    def replaying(self, iterations: Sequence[ir.Value], draws: int) -> Iterator[None]:
        """Random draws inside repeat those of an earlier point, in these iterations."""
        before = self._iterations, self._draws
        self._iterations, self._draws = list(iterations), draws
        try:
            yield
        finally:
            self._iterations, self._draws = before

    def finish(self, outputs: Sequence[tuple[str, ir.Value]]) -> Program:
        """Ends the program with its outputs."""
        from burn.dialect import ops

        with self.building("outputs"):
            ops.return_([value for _, value in outputs])
            types_ = [v.type for v in self.inputs], [v.type for _, v in outputs]
            self.function.attributes["function_type"] = ir.TypeAttr.get(ir.FunctionType.get(*types_))
        self.output_names = [name for name, _ in outputs]
        return self
