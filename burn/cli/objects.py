"""Objects of Python that a command is pointed at: "file.py:Name" or "package.module:Name". Enter at `find`."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

from burn.cli.common import existing
from burn.errors import BurnError, Problem


def find(text: str) -> Any:
    """The object that "file.py:Name" or "package.module:Name" names. Its module is run, as any import does.

    Raises BurnError when there is no such module or name, or when the module cannot be run."""
    module_name, colon, name = text.rpartition(":")
    if not colon or not name:
        raise BurnError(f"'{text}' names nothing in Python", ["write file.py:Name or package.module:Name"])
    module = load(existing(module_name)) if module_name.endswith(".py") else _import(module_name)
    return _member(module, module_name, name)


def sibling(text: str, name: str) -> Any:
    """Another object of the module that `find` has loaded for a text. Raises BurnError."""
    module_name = text.rpartition(":")[0]
    loaded = Path(module_name).stem if module_name.endswith(".py") else module_name
    return _member(sys.modules[loaded], module_name, name)


def _member(module: ModuleType, module_name: str, name: str) -> Any:
    found: Any = module
    for part in name.split("."):
        if not hasattr(found, part):
            own = [n for n, v in vars(module).items() if inspect.isclass(v) and v.__module__ == module.__name__]
            hint = f"it has {', '.join(own)}" if own else ""
            raise BurnError(f"{module_name} has no '{name}'", [Problem("nothing of that name is in it", hint=hint)])
        found = getattr(found, part)
    return found


def _import(module_name: str) -> ModuleType:
    sys.path.insert(0, "")  # what lies in the working directory, as for `python -m`
    try:
        return importlib.import_module(module_name)
    except Exception as error:
        raise BurnError(f"{module_name} cannot be imported", [f"{type(error).__name__}: {error}"]) from error
    finally:
        sys.path.remove("")


def load(path: Path) -> ModuleType:
    """A Python file as a module; files beside it can be imported from it."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    folder = str(path.parent.absolute())
    before = sys.modules.get(path.stem)
    sys.modules[path.stem] = module
    sys.path.insert(0, folder)
    arguments, sys.argv = sys.argv, [str(path)]  # the command's own are not the file's
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        sys.modules.pop(path.stem)
        if before is not None:
            sys.modules[path.stem] = before
        line = f"line {error.lineno}: " if isinstance(error, SyntaxError) else ""
        raise BurnError(f"{path} cannot be run", [f"{line}{type(error).__name__}: {error}"]) from error
    finally:
        sys.argv = arguments
        sys.path.remove(folder)
    return module
