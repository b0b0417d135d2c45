"""A program: one MLIR function of burn ops, the weights it names, and the names of its inputs and outputs.

Built by importers and by tracing (`Program.create`, then `finish`), rewritten by passes, read by code generators.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from burn.dialect.mlir import context, func, ir
from burn.dialect.types import RANDOM_STATE, Container, TensorType, type_of
from burn.dialect.weights import WeightStore


@dataclass
class Program:
    """`module` holds one function, `main`, whose block ends in `burn.return`."""

    module: ir.Module
    weights: WeightStore
    input_names: list[str]
    output_names: list[str] = field(default_factory=list)
    given_up: tuple[int, ...] = ()
    """The inputs whose contents the caller gives up at each run: outputs may take over their memory."""
    renews: dict[int, int] = field(default_factory=dict)
    """By an output's number, that of the input whose next value it is: it takes over no other input's memory."""
    usual: dict[str, int] = field(default_factory=dict)
    """What named sizes usually are, if that is known: choices are made for these, results are right for all."""
    input_containers: dict[int, Container] = field(default_factory=dict)
    output_containers: dict[int, Container] = field(default_factory=dict)
    """Of inputs and outputs that are lists: what they are lists of."""
    output_keys: dict[int, tuple[int, ...] | tuple[str, ...]] = field(default_factory=dict)
    """Of outputs [n, keys] that callers get as a list of n dicts: the keys."""
    random_state: bool = False
    """Whether the last input is the random state (dialect/random.py), which the executable supplies at each run."""
    _places: int = field(default=0, repr=False)  # that draw random numbers
    _iterations: list[ir.Value] = field(default_factory=list, repr=False)  # of the loops that are being built

    @staticmethod
    def create(inputs: Sequence[tuple[str, TensorType]], weights: WeightStore | None = None) -> Program:
        with context(), ir.Location.name("program"):
            module = ir.Module.create()
            with ir.InsertionPoint(module.body):
                function = func.FuncOp("main", ([t.to_mlir() for _, t in inputs], []))
                function.add_entry_block()
        return Program(module, WeightStore() if weights is None else weights, [name for name, _ in inputs])

    def copy(self) -> Program:
        """The program again, to be rewritten; the weights' bytes are shared."""
        with context():
            clone = self.module.operation.clone(ip=False)  # also while another program is being built
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
            usual=dict(self.usual),
        )

    def add_input(self, name: str, type_: TensorType) -> ir.Value:
        """One input more, behind those that there are; the random state stays the last."""
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
        """By an output's index, that of the input whose memory it may take."""
        takes = self.terminator.opview.takes or ()
        return {output: source for output, source in enumerate(takes) if source >= 0}

    @contextmanager
    def building(self, node: str = "program") -> Iterator[None]:
        """Ops built inside go to the end of the program, located at `node`."""
        with context(), ir.Location.name(node), ir.InsertionPoint(self.block):
            yield

    # ---- random numbers ------------------------------------------------------------------------------------------------
    @property
    def state(self) -> ir.Value:
        """The run's random state, which becomes an input of the program when it is first asked for."""
        if not self.random_state:
            self.add_input("random_state", RANDOM_STATE)
            self.random_state = True
        return self.inputs[-1]

    def random_key(self, seed: int | None = None) -> ir.Value:
        """The key (uint32[2]) of the next place that draws, built at the insertion point: of the run's random state, or of a
        seed, the same at each run; and of the iterations of the loops around."""
        from burn.dialect import ops

        if seed is None:
            self._places += 1
            return ops.random_key(self.state, self._iterations, place=self._places)
        words = (seed - 2**64 if seed >= 2**63 else seed, 0)
        state = ops.constant(values=(), bits=words, shape=RANDOM_STATE.shape, dtype=RANDOM_STATE.dtype)
        return ops.random_key(state, self._iterations)

    @contextmanager
    def iterating(self, iteration: ir.Value) -> Iterator[None]:
        """What draws inside does so anew in each iteration of a loop."""
        self._iterations.append(iteration)
        try:
            yield
        finally:
            self._iterations.pop()

    @property
    def place(self) -> tuple[tuple[ir.Value, ...], int]:
        """The iterations around, and how many places have drawn so far."""
        return tuple(self._iterations), self._places

    @contextmanager
    def from_place(self, iterations: Sequence[ir.Value], places: int) -> Iterator[None]:
        """What draws inside draws what was drawn from a place on, in these iterations."""
        before = self._iterations, self._places
        self._iterations, self._places = list(iterations), places
        try:
            yield
        finally:
            self._iterations, self._places = before

    def finish(self, outputs: Sequence[tuple[str, ir.Value]]) -> Program:
        """Ends the program with its outputs."""
        from burn.dialect import ops

        with self.building("outputs"):
            ops.return_([value for _, value in outputs])
            types_ = [v.type for v in self.inputs], [v.type for _, v in outputs]
            self.function.attributes["function_type"] = ir.TypeAttr.get(ir.FunctionType.get(*types_))
        self.output_names = [name for name, _ in outputs]
        return self
