"""`Config`: the arguments of a model as an immutable, checked value that can be compared, copied and saved.

    class ModelConfig(nn.Config):
        width: Annotated[int, nn.Range(1)] = 128
        dropout: float = 0.1
        head: HeadConfig = HeadConfig()                  # configurations may hold others

        def init(self) -> Model:
            return Model(self)

    config = ModelConfig(width=256).with_dropout(0.0)
    config.save("model.yaml")
    model = ModelConfig.load("model.yaml").init()

Every layer has a configuration of its constructor: `nn.Linear.Config(128, 10).init()`; `layer.config` holds its arguments.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
import json
import os
import sys
import typing
from collections.abc import Callable, Collection, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from burn.errors import BurnError, ModelError, Problem
from burn.nn.checks import FrozenDict, frozen, problem_of, spelled
from burn.runtime.files import save_text

if TYPE_CHECKING:
    from typing_extensions import dataclass_transform
else:

    def dataclass_transform(**_: Any) -> Callable[[Any], Any]:
        return lambda cls: cls


C = TypeVar("C", bound="Config")

DEEPEST = 64
"""Maximum nesting of a configuration file."""


class ConfigError(BurnError):
    """A configuration has fields that it does not take, lacks some, or holds values out of their types or ranges."""


@dataclass_transform(frozen_default=True)
class Config:
    """Base of all configurations: fields are annotations, as in a dataclass, and cannot be set afterwards.

    A subclass may define `init()`, which makes the configured object, and `validate()`, which yields further errors.
    Construction and reading raise ConfigError, which names every wrong field."""

    __config_fields__: ClassVar[bool] = True
    _names: ClassVar[tuple[dict[str, Any], dict[str, Any]]] = ({}, {})
    _derived: ClassVar[bool] = False  # true if the types of the fields are those of a constructor

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        # namespace of the class statement, to resolve annotations in text: it may be in a function or outside of any module
        frame = sys._getframe(1)
        cls._names = (frame.f_globals, dict(frame.f_locals))
        for name in inspect.get_annotations(cls):
            if isinstance(cls.__dict__.get(name), (list, dict)):
                setattr(cls, name, frozen(cls.__dict__[name]))
            if isinstance(cls.__dict__.get(name), Mapping):
                setattr(cls, name, _default(cls.__dict__[name]))
        dataclasses.dataclass(frozen=True, repr=False)(cls)
        for field in dataclasses.fields(cls):  # type: ignore[arg-type]
            if f"with_{field.name}" not in cls.__dict__:
                setattr(cls, f"with_{field.name}", _setter(field.name))

    def __post_init__(self) -> None:
        hints = _hints(type(self))
        problems = []
        for name, value in self._items():
            object.__setattr__(self, name, frozen(value))
            if text := problem_of(value, hints.get(name, Any)):
                problems.append(Problem(text, attribute=name))
        problems = problems or [Problem(p) if isinstance(p, str) else p for p in self.validate()]
        if problems:
            raise ConfigError(f"this is no {type(self).__qualname__}", problems)

    def validate(self) -> Iterator[Problem | str]:
        """Yields errors that involve several fields, whose own types and ranges are right. For subclasses."""
        return iter(())

    def init(self) -> Any:
        """Makes the configured object."""
        raise NotImplementedError(f"{type(self).__qualname__} has no init")

    def replace(self: C, **fields: Any) -> C:
        """A copy with other values. Raises ConfigError."""
        if problems := _unknown(type(self), fields):
            raise ConfigError(f"this is no {type(self).__qualname__}", [*problems, *_wrong(type(self), fields)])
        return type(self)(**{**dict(self._items()), **fields})

    if TYPE_CHECKING:  # with_<field>(value), a copy with this field changed, is made for every field

        def __getattr__(self, name: str) -> Callable[[Any], Any]: ...

    def _items(self) -> list[tuple[str, Any]]:
        return [(f.name, getattr(self, f.name)) for f in dataclasses.fields(self)]  # type: ignore[arg-type]

    def __repr__(self) -> str:
        return f"{type(self).__qualname__}({', '.join(f'{name}={value!r}' for name, value in self._items())})"

    # ---- text and files ----------------------------------------------------------------------------------------------
    def to_dict(self) -> dict[str, Any]:
        """The fields as plain values: numbers, strings, lists, dictionaries. Raises ConfigError for other values."""
        problems: list[Problem] = []
        result = {name: _plain(value, name, problems) for name, value in self._items()}
        if problems:
            raise ConfigError(f"this {type(self).__qualname__} cannot be written", problems)
        return result

    @classmethod
    def from_dict(cls: type[C], values: Mapping[str, Any]) -> C:
        """The configuration of plain values, as `to_dict` gives them. Raises ConfigError."""
        if not isinstance(values, Mapping):
            raise ConfigError(f"this is no {cls.__qualname__}", [f"it is a {type(values).__name__}, not a table"])
        problems = _unknown(cls, values)
        hints, fields = _hints(cls), {}
        problems += [Problem("is missing", attribute=f.name) for f in dataclasses.fields(cls) if _required(f, values)]  # type: ignore[arg-type]
        for name in [f.name for f in dataclasses.fields(cls) if f.name in values]:  # type: ignore[arg-type]
            value = values[name]
            try:
                fields[name] = _read(value, hints.get(name, Any))
            except ConfigError as error:
                where = [
                    dataclasses.replace(p, attribute=".".join(filter(None, (name, p.attribute))))
                    for p in error.problems
                ]
                problems += where
        if problems:
            raise ConfigError(f"this is no {cls.__qualname__}", [*problems, *_wrong(cls, fields)])
        return cls(**fields)

    def to_json(self) -> str:
        return json.dumps(self.to_dict(), indent=2)

    @classmethod
    def from_json(cls: type[C], text: str) -> C:
        """Raises ConfigError."""
        try:
            values = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise ConfigError("this is no JSON", [str(error)]) from None
        return cls.from_dict(_shallow(values))

    def to_yaml(self) -> str:
        import yaml

        return yaml.safe_dump(self.to_dict(), sort_keys=False)

    @classmethod
    def from_yaml(cls: type[C], text: str) -> C:
        """Plain values only: no tags, no anchors. Raises ConfigError."""
        import yaml

        try:
            depth = 0
            for event in yaml.parse(text, yaml.SafeLoader):
                depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
                if depth > DEEPEST:
                    raise ConfigError("this is no configuration", [f"it is nested more than {DEEPEST} levels deep"])
                if isinstance(event, yaml.AliasEvent):  # aliases can expand to any size
                    raise ConfigError("this YAML is not taken", ["it has aliases (*name); write the values out"])
            values = yaml.safe_load(text)
        except (yaml.YAMLError, RecursionError, ValueError) as error:
            raise ConfigError("this is no YAML", [" ".join(str(error).split())]) from None
        return cls.from_dict(_shallow(values))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes a .json, .yaml or .yml file."""
        write = {"json": self.to_json, "yaml": self.to_yaml}[_format(path)]
        save_text(Path(path), write() + "\n")

    @classmethod
    def load(cls: type[C], path: str | os.PathLike[str]) -> C:
        """Reads a .json, .yaml or .yml file. Raises ConfigError, and ModelError for a missing file."""
        read = {"json": cls.from_json, "yaml": cls.from_yaml}[_format(path)]
        try:
            text = Path(path).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise ModelError(f"cannot read {path}", [str(error)]) from None
        return read(text)


class LayerConfig(Config):
    """Base of the configurations derived from modules' constructors; `init` calls the constructor."""

    _module: ClassVar[type]
    _variadic: ClassVar[str] = ""  # the parameter that takes all further arguments by position
    _named: ClassVar[str] = ""  # the one that takes those by name

    def init(self) -> Any:
        fields = dict(self._items())
        rest, named = fields.pop(self._variadic, ()), fields.pop(self._named, {})
        return self._module(*rest, **fields, **named)


def signature(cls: type) -> inspect.Signature:
    """That of a class's __init__, without self. inspect takes __new__ in Python 3.10, which modules have."""
    _, *parameters = inspect.signature(cls.__init__).parameters.values()
    return inspect.Signature(parameters)


def derived(cls: type, base: type[LayerConfig] = LayerConfig, without: Collection[str] = ()) -> type[LayerConfig]:
    """The configuration class of a constructor: a field for each parameter except those in `without`."""
    parameters = [p for p in signature(cls).parameters.values() if p.name not in without]
    hints = _constructor_hints(cls)
    annotations: dict[str, Any] = {}
    space: dict[str, Any] = {"_module": cls, "_derived": True, "__module__": cls.__module__}
    for parameter in parameters:
        hint = hints.get(parameter.name, Any)
        default = frozen(parameter.default)
        if parameter.kind is inspect.Parameter.VAR_POSITIONAL:
            space["_variadic"], hint, default = parameter.name, tuple[hint, ...], ()
        elif parameter.kind is inspect.Parameter.VAR_KEYWORD:
            space["_named"], hint, default = parameter.name, dict[str, hint], FrozenDict()
        annotations[parameter.name] = hint
        keyword = parameter.kind is inspect.Parameter.KEYWORD_ONLY
        if default is not inspect.Parameter.empty:
            space[parameter.name] = _default(default, keyword)
        elif keyword:
            space[parameter.name] = dataclasses.field(kw_only=True)
    space["__annotations__"] = annotations
    space["__qualname__"] = f"{cls.__qualname__}.Config"
    space["__doc__"] = f"The arguments of `{cls.__qualname__}`."
    return type("Config", (base,), space)


def _default(value: Any, kw_only: bool = False) -> Any:
    """A field with a default. dataclasses refuse values without a hash, and in Python 3.10 all dictionaries."""
    if isinstance(value, Mapping):
        return dataclasses.field(default_factory=lambda: value, kw_only=kw_only)
    return dataclasses.field(default=value, kw_only=kw_only)


def _constructor_hints(cls: type) -> dict[str, Any]:
    try:
        return typing.get_type_hints(cls.__init__, include_extras=True)
    except Exception:  # an annotation that cannot be resolved at run time is ignored
        return {}


@functools.cache
def _hints(cls: type) -> dict[str, Any]:
    if getattr(cls, "_derived", False):
        return dict(cls.__annotations__)
    try:
        hints: dict[str, Any] = {}
        for base in reversed(cls.__mro__):
            if issubclass(base, Config) and base is not Config:
                outer, local = base._names
                own = typing.get_type_hints(
                    _Annotations(base), outer, {base.__name__: base, **local}, include_extras=True
                )
                hints |= own
        return hints
    except NameError as error:
        raise ConfigError(f"the fields of {cls.__qualname__} have unknown types", [str(error)]) from None


def _required(field: dataclasses.Field[Any], given: Mapping[str, Any]) -> bool:
    missing = dataclasses.MISSING
    return field.name not in given and field.default is missing and field.default_factory is missing


class _Annotations:
    """A class's own annotations, for `typing.get_type_hints`, which resolves names only in the class's module."""

    def __init__(self, cls: type) -> None:
        self.__annotations__ = inspect.get_annotations(cls)


def _setter(name: str) -> Callable[[Config, Any], Config]:
    def change(self: Config, value: Any) -> Config:
        return self.replace(**{name: value})

    change.__name__ = f"with_{name}"
    change.__doc__ = f"A copy with another `{name}`. Raises ConfigError."
    return change


def _unknown(cls: type, given: Mapping[str, Any]) -> list[Problem]:
    """Errors for names that are not fields."""
    names = [f.name for f in dataclasses.fields(cls)]
    return [Problem(f"there is no field '{n}'", hint=f"there are {', '.join(names)}") for n in given if n not in names]


def _wrong(cls: type, given: Mapping[str, Any]) -> list[Problem]:
    """Errors for fields of a wrong type or range."""
    hints = _hints(cls)
    texts = {n: problem_of(value, hints.get(n, Any)) for n, value in given.items()}
    return [Problem(text, attribute=n) for n, text in texts.items() if text]


def _plain(value: Any, name: str, problems: list[Problem]) -> Any:
    if isinstance(value, Config):
        try:
            return value.to_dict()
        except ConfigError as error:
            problems += [dataclasses.replace(p, attribute=f"{name}.{p.attribute}") for p in error.problems]
            return None
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, (tuple, list)):
        return [_plain(v, name, problems) for v in value]
    if isinstance(value, Mapping):
        return {str(k): _plain(v, name, problems) for k, v in value.items()}
    problems.append(Problem(f"a {type(value).__name__} is no plain value", attribute=name))
    return None


def _read(value: Any, hint: Any) -> Any:
    """A plain value converted to the field's type: dictionaries become the declared configurations."""
    choices = typing.get_args(hint) if typing.get_origin(hint) is not typing.Annotated else (typing.get_args(hint)[0],)
    for choice in (hint, *choices):
        if isinstance(choice, type) and issubclass(choice, Config) and isinstance(value, Mapping):
            if choice is Config:
                raise ConfigError("this is no configuration", [f"which one is not said by {spelled(hint)}"])
            return choice.from_dict(value)
    if isinstance(value, list):
        inner = next((c for c in choices if c is not type(None)), Any)
        deeper = typing.get_args(inner)
        return [_read(v, deeper[0] if deeper and typing.get_origin(inner) in (list, tuple) else inner) for v in value]
    return value


def _shallow(values: Any, level: int = 0) -> Any:
    if level > DEEPEST:
        raise ConfigError("this is no configuration", [f"it is nested more than {DEEPEST} levels deep"])
    for inner in values.values() if isinstance(values, dict) else values if isinstance(values, list) else ():
        _shallow(inner, level + 1)
    return values


def _format(path: str | os.PathLike[str]) -> str:
    suffix = Path(path).suffix.lower()
    if suffix not in (".json", ".yaml", ".yml"):
        raise ModelError(f"cannot tell the format of {path}", ["configurations are .json, .yaml or .yml files"])
    return "json" if suffix == ".json" else "yaml"
