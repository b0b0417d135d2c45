"""A pickle machine that builds plain data and calls nothing, for the checkpoints that torch writes.

A pickle is a program for a stack machine that names any callable and calls it (https://docs.python.org/3/library/pickle.html,
opcodes in CPython's Lib/pickletools.py). This machine never imports a name. A name becomes a `Global`, and calling one
looks up `CALLS` (allowed.py), a table of functions of ours. Any other name is refused; the run goes on with a placeholder so
that the error lists all of them. Enter at `load`.

Every opcode has constant cost, or one proportional to its bytes. Copies of memoised values are the exception and have a budget.
The time and memory of a run are linear in the size of the pickle.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

from burn.errors import ModelError, Problem
from burn.importers.weights.allowed import (
    CALLS,
    SYMBOLS,
    Global,
    Malformed,
    Opaque,
    TensorRef,
    Unsupported,
    call,
    dict_key,
    storage,
)

MAX_STACK = 1 << 22
MAX_MEMO = 1 << 24
MAX_LONG = 256  # bytes of an integer
MAX_ARGUMENTS = 64
MAX_REFUSED = 50  # names that one error lists

MARK: Any = object()
PYTHON2 = {"__builtin__": "builtins", "copy_reg": "copyreg", "UserDict": "collections"}


class Machine:
    """One run. refused: the names that it was not given."""

    def __init__(self, data: memoryview, position: int, script: bool) -> None:
        self.data, self.position, self.script = data, position, script
        self.copies = 64 * len(data) + (1 << 16)  # elements that calls may still copy
        self.stack: list[Any] = []
        self.memo: dict[int, Any] = {}
        self.refused: dict[str, None] = {}

    def run(self) -> Any:
        while True:
            code = self.take(1)[0]
            if code == STOP:
                break
            if code not in OPCODES:
                raise Malformed(f"there is no opcode 0x{code:02x}")
            name, action = OPCODES[code]
            try:
                action(self)
            except Malformed as error:
                raise Malformed(f"{error} (opcode {name} at byte {self.position})") from None
            if len(self.stack) > MAX_STACK or len(self.memo) > MAX_MEMO:
                raise Malformed("it needs too much memory")
        return self.pop()

    # reading
    def take(self, count: int) -> memoryview:
        if count < 0 or self.position + count > len(self.data):
            raise Malformed("it ends too early")
        self.position += count
        return self.data[self.position - count : self.position]

    def unsigned(self, size: int) -> int:
        return int.from_bytes(self.take(size), "little")

    def signed(self, size: int) -> int:
        return int.from_bytes(self.take(size), "little", signed=True)

    def line(self) -> bytes:
        end = self.position
        limit = min(len(self.data), self.position + (1 << 16))
        while end < limit and self.data[end] != 10:
            end += 1
        if end >= limit:
            raise Malformed("a line does not end")
        text = bytes(self.take(end - self.position))
        self.position += 1
        return text

    def text(self, size: int) -> str:
        try:
            return str(self.take(size), "utf-8")
        except UnicodeDecodeError:
            raise Malformed("a text is not UTF-8") from None

    # the stack
    def push(self, value: Any) -> None:
        self.stack.append(value)

    def pop(self) -> Any:
        if not self.stack or self.stack[-1] is MARK:
            raise Malformed("the stack is empty")
        return self.stack.pop()

    def top(self) -> Any:
        if not self.stack or self.stack[-1] is MARK:
            raise Malformed("the stack is empty")
        return self.stack[-1]

    def since_mark(self) -> list[Any]:
        for i in range(len(self.stack) - 1, -1, -1):
            if self.stack[i] is MARK:
                items = self.stack[i + 1 :]
                del self.stack[i:]
                return items
        raise Malformed("there is no mark")

    def recall(self, index: int) -> None:
        if index not in self.memo:
            raise Malformed(f"nothing was remembered under {index}")
        self.push(self.memo[index])

    def remember(self, index: int) -> None:
        if index < 0:
            raise Malformed("a memo has a negative index")
        if index > MAX_MEMO:  # picklers count; far apart, integers could be chosen to have one hash
            raise Malformed("a memo has a huge index")
        self.memo[index] = self.top()

    # names and what is made with them
    def named(self, module: str, name: str) -> None:
        full = f"{PYTHON2.get(module, module)}.{name}"
        if full in CALLS or full in SYMBOLS or (self.script and module.split(".")[0] == "__torch__"):
            self.push(Global(full))
        else:
            self.refuse(full)
            self.push(Opaque(full))

    def refuse(self, name: str) -> None:
        if len(self.refused) <= MAX_REFUSED:
            self.refused[name[:200]] = None

    def make(self, function: Any, args: Any) -> None:
        if isinstance(function, Opaque):
            self.push(function)
        elif not isinstance(function, Global) or not isinstance(args, tuple):
            raise Malformed("something is called that is not a name, or not with a tuple of arguments")
        elif len(args) > MAX_ARGUMENTS:
            raise Malformed(f"{function.name} is called with {len(args)} arguments")
        elif refused := [a for a in args if isinstance(a, Opaque) and a.kind in self.refused]:
            self.push(refused[0])  # the error is known; what depends on it is not worth another
        else:
            for argument in args:
                self.charge(argument)
            self.push(call(function, args))

    def charge(self, value: Any) -> None:
        """A pickle can say in two bytes that something large is copied; not too often."""
        if isinstance(value, (list, tuple, dict, str, bytes)):
            self.copies -= len(value)
            if self.copies < 0:
                raise Malformed("it copies too much")

    def make_object(self, kind: Any, args: Any) -> None:
        """NEWOBJ: an object without a constructor's call. TorchScript's are their attributes, BUILD brings them."""
        if self.script and isinstance(kind, Global) and kind.name.startswith("__torch__."):
            self.push({})
        else:
            self.make(kind, args)

    def build(self) -> None:
        state, target = self.pop(), self.top()
        if isinstance(target, dict) and self.script and isinstance(state, dict):
            self.charge(state)
            target.update(state)
        elif not isinstance(target, (dict, TensorRef, Opaque, Unsupported)):
            raise Malformed("something gets a state that has none")

    def set_items(self, items: list[Any]) -> None:
        target = self.top()
        if isinstance(target, Opaque):
            return
        if not isinstance(target, dict) or len(items) % 2:
            raise Malformed("items are set in something that is no dict")
        for key, value in zip(items[::2], items[1::2], strict=True):
            target[dict_key(key)] = value

    def append(self, items: list[Any]) -> None:
        target = self.top()
        if isinstance(target, Opaque):
            return
        if not isinstance(target, list):
            raise Malformed("something is appended to what is no list")
        target.extend(items)


def _number(text: bytes, kind: Callable[[str], Any]) -> Any:
    try:
        return kind(text.decode("ascii"))
    except ValueError:
        raise Malformed("a number is malformed") from None


def _int(m: Machine) -> None:
    text = m.line()
    m.push({b"00": False, b"01": True}[text] if text in (b"00", b"01") else _number(text, int))


def _long(m: Machine, size: int) -> None:
    count = m.unsigned(size)
    if count > MAX_LONG:
        raise Malformed(f"an integer has {count} bytes")
    m.push(m.signed(count))


def _dict_of(items: list[Any]) -> dict[Any, Any]:
    if len(items) % 2:
        raise Malformed("a dict has a key without a value")
    return {dict_key(k): v for k, v in zip(items[::2], items[1::2], strict=True)}


def _quoted(m: Machine) -> None:
    text = m.line()
    if len(text) < 2 or text[:1] not in b"'\"" or text[-1:] != text[:1] or b"\\" in text:
        raise Malformed("a quoted text is malformed")
    m.push(text[1:-1].decode("latin-1"))


def _escaped(m: Machine) -> None:
    try:
        m.push(m.line().decode("raw-unicode-escape"))
    except UnicodeDecodeError:
        raise Malformed("an escaped text is malformed") from None


def _tuple(m: Machine, count: int) -> None:
    items = [m.pop() for _ in range(count)]
    m.push(tuple(reversed(items)))


def _global(m: Machine) -> None:
    module, name = m.line(), m.line()
    m.named(module.decode("utf-8", "replace"), name.decode("utf-8", "replace"))


def _stack_global(m: Machine) -> None:
    name, module = m.pop(), m.pop()
    if not isinstance(name, str) or not isinstance(module, str):
        raise Malformed("a name is not text")
    m.named(module, name)


def _reduce(m: Machine) -> None:
    args, function = m.pop(), m.pop()
    m.make(function, args)


def _new_object(m: Machine) -> None:
    args, kind = m.pop(), m.pop()
    m.make_object(kind, args)


def _new_object_ex(m: Machine) -> None:
    _, args, kind = m.pop(), m.pop(), m.pop()
    m.make_object(kind, args)


def _instance(m: Machine) -> None:
    """INST makes an object of any class: never what torch writes."""
    module, name = (m.line().decode("utf-8", "replace") for _ in range(2))
    m.since_mark()
    m.refuse(f"{module}.{name}")
    m.push(Opaque(f"{module}.{name}"))


def _object(m: Machine) -> None:
    items = m.since_mark()
    kind = items[0].name if items and isinstance(items[0], Global) else "an object of a class"
    m.refuse(kind)
    m.push(Opaque(kind))


def _extension(m: Machine, size: int) -> None:
    name = f"the copyreg extension {m.unsigned(size)}"
    m.refuse(name)
    m.push(Opaque(name))


def _never(what: str) -> Callable[[Machine], None]:
    def refuse(m: Machine) -> None:
        raise Malformed(f"{what} cannot be read")

    return refuse


def _protocol(m: Machine) -> None:
    version = m.unsigned(1)
    if version > 5:
        raise Malformed(f"protocol {version} is not known")


def _double(m: Machine) -> None:
    m.push(struct.unpack(">d", m.take(8))[0])


def _drop(m: Machine) -> None:
    if not m.stack:
        raise Malformed("the stack is empty")
    m.stack.pop()


STOP = ord(".")

OPCODES: dict[int, tuple[str, Callable[[Machine], Any]]] = {
    code if isinstance(code, int) else ord(code): (name, action)
    for code, name, action in (
        (0x80, "PROTO", _protocol),
        (0x95, "FRAME", lambda m: m.unsigned(8)),
        ("(", "MARK", lambda m: m.push(MARK)),
        ("0", "POP", _drop),
        ("1", "POP_MARK", lambda m: m.since_mark()),
        ("2", "DUP", lambda m: m.push(m.top())),
        ("N", "NONE", lambda m: m.push(None)),
        (0x88, "NEWTRUE", lambda m: m.push(True)),
        (0x89, "NEWFALSE", lambda m: m.push(False)),
        ("I", "INT", _int),
        ("J", "BININT", lambda m: m.push(m.signed(4))),
        ("K", "BININT1", lambda m: m.push(m.unsigned(1))),
        ("M", "BININT2", lambda m: m.push(m.unsigned(2))),
        ("L", "LONG", lambda m: m.push(_number(m.line().rstrip(b"L"), int))),
        (0x8A, "LONG1", lambda m: _long(m, 1)),
        (0x8B, "LONG4", lambda m: _long(m, 4)),
        ("F", "FLOAT", lambda m: m.push(_number(m.line(), float))),
        ("G", "BINFLOAT", _double),
        ("S", "STRING", _quoted),
        ("T", "BINSTRING", lambda m: m.push(str(m.take(m.unsigned(4)), "latin-1"))),
        ("U", "SHORT_BINSTRING", lambda m: m.push(str(m.take(m.unsigned(1)), "latin-1"))),
        ("V", "UNICODE", _escaped),
        ("X", "BINUNICODE", lambda m: m.push(m.text(m.unsigned(4)))),
        (0x8C, "SHORT_BINUNICODE", lambda m: m.push(m.text(m.unsigned(1)))),
        (0x8D, "BINUNICODE8", lambda m: m.push(m.text(m.unsigned(8)))),
        ("B", "BINBYTES", lambda m: m.push(bytes(m.take(m.unsigned(4))))),
        ("C", "SHORT_BINBYTES", lambda m: m.push(bytes(m.take(m.unsigned(1))))),
        (0x8E, "BINBYTES8", lambda m: m.push(bytes(m.take(m.unsigned(8))))),
        (0x96, "BYTEARRAY8", lambda m: m.push(bytes(m.take(m.unsigned(8))))),
        (")", "EMPTY_TUPLE", lambda m: m.push(())),
        ("t", "TUPLE", lambda m: m.push(tuple(m.since_mark()))),
        (0x85, "TUPLE1", lambda m: _tuple(m, 1)),
        (0x86, "TUPLE2", lambda m: _tuple(m, 2)),
        (0x87, "TUPLE3", lambda m: _tuple(m, 3)),
        ("]", "EMPTY_LIST", lambda m: m.push([])),
        ("l", "LIST", lambda m: m.push(m.since_mark())),
        ("a", "APPEND", lambda m: m.append([m.pop()])),
        ("e", "APPENDS", lambda m: m.append(m.since_mark())),
        ("}", "EMPTY_DICT", lambda m: m.push({})),
        ("d", "DICT", lambda m: m.push(_dict_of(m.since_mark()))),
        ("s", "SETITEM", lambda m: m.set_items([m.pop(), m.pop()][::-1])),
        ("u", "SETITEMS", lambda m: m.set_items(m.since_mark())),
        (0x8F, "EMPTY_SET", lambda m: m.push([])),  # nothing here needs to know a set from a list
        (0x90, "ADDITEMS", lambda m: m.append(m.since_mark())),
        (0x91, "FROZENSET", lambda m: m.push(m.since_mark())),
        ("g", "GET", lambda m: m.recall(_number(m.line(), int))),
        ("h", "BINGET", lambda m: m.recall(m.unsigned(1))),
        ("j", "LONG_BINGET", lambda m: m.recall(m.unsigned(4))),
        ("p", "PUT", lambda m: m.remember(_number(m.line(), int))),
        ("q", "BINPUT", lambda m: m.remember(m.unsigned(1))),
        ("r", "LONG_BINPUT", lambda m: m.remember(m.unsigned(4))),
        (0x94, "MEMOIZE", lambda m: m.remember(len(m.memo))),
        ("c", "GLOBAL", _global),
        (0x93, "STACK_GLOBAL", _stack_global),
        ("R", "REDUCE", _reduce),
        ("b", "BUILD", lambda m: m.build()),
        (0x81, "NEWOBJ", _new_object),
        (0x92, "NEWOBJ_EX", _new_object_ex),
        ("Q", "BINPERSID", lambda m: m.push(storage(m.pop()))),
        ("P", "PERSID", _never("a storage named by a line of text")),
        ("i", "INST", _instance),
        ("o", "OBJ", _object),
        (0x82, "EXT1", lambda m: _extension(m, 1)),
        (0x83, "EXT2", lambda m: _extension(m, 2)),
        (0x84, "EXT4", lambda m: _extension(m, 4)),
        (0x97, "NEXT_BUFFER", _never("a buffer outside of the pickle")),
        (0x98, "READONLY_BUFFER", _never("a buffer outside of the pickle")),
    )
}


def load(data: memoryview, what: str, position: int = 0, script: bool = False) -> tuple[Any, int]:
    """The object in a pickle, of dicts, lists, tuples, numbers, text, `TensorRef` and placeholders; and where it ends.

    what: the file, for errors. script: classes of TorchScript are read as dicts of their attributes. Raises ModelError,
    naming every callable in the pickle that is not allowed."""
    machine = Machine(data, position, script)
    broken = ""
    value: Any = None
    try:
        value = machine.run()
    except Malformed as error:
        broken = str(error)
    if machine.refused:
        names = [Problem(f"{name} is not allowed", hint=_hint(name)) for name in list(machine.refused)[:MAX_REFUSED]]
        if len(machine.refused) > MAX_REFUSED:
            names.append(Problem("and more"))
        raise ModelError(f"{what} is a pickle that would run code; burn ran none of it", names)
    if broken:
        raise ModelError(f"{what} is malformed", [f"its pickle: {broken}"])
    return value, machine.position


HINTS = (
    (
        ("os", "posix", "nt", "sys", "subprocess", "builtins", "copyreg", "runpy", "socket", "pty", "shutil"),
        "weights never need it: do not trust this file",
    ),
    (("numpy", "omegaconf"), "settings saved beside the weights: save the state dict alone"),
    (("torch._utils", "torch.hub", "torch.serialization", "torch.load"), ""),
    (("",), "an object of a class: save model.state_dict() and not the model"),
)
"""Hints for refused names, by their prefix."""


def _hint(name: str) -> str:
    return next(hint for starts, hint in HINTS if any(not s or name == s or name.startswith(f"{s}.") for s in starts))
