"""Stands for importlib's search for a module, for the modules of agentctl alone.

importlib asks three finders for each module, lists its folder, tries each kind of file, and reads compiled code with
care for all that can be there: 0.08 ms for an empty module, and a `list` imports fifty. All of ours are sources below
one folder, with compiled code beside them. What is not so (no such file, other or older compiled code, another folder
for compiled code) is left to importlib. If its private module is missing, the public ones offer the same.
"""

from __future__ import annotations

import marshal
import os
import sys

try:
    from _frozen_importlib_external import MAGIC_NUMBER, SourceFileLoader, spec_from_file_location
except ImportError:
    from importlib.machinery import SourceFileLoader
    from importlib.util import MAGIC_NUMBER, spec_from_file_location

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from importlib.machinery import ModuleSpec
    from types import CodeType, ModuleType

OURS = "agentctl."
HEAD = MAGIC_NUMBER + bytes(4)  # of compiled code that is valid if time and size of its source are the noted ones
NOTED = slice(8, 16)
CODE = 16  # where it begins
BITS = 0xFFFFFFFF  # of each of the two


def install() -> None:
    """Let this finder be asked first."""
    if Finder not in sys.meta_path and sys.pycache_prefix is None and sys.implementation.cache_tag is not None:
        sys.meta_path.insert(0, Finder)


class Finder:
    @staticmethod
    def find_spec(name: str, path: Sequence[str] | None = None, target: ModuleType | None = None) -> ModuleSpec | None:
        """Return where this module of ours is; None if importlib has to look for it."""
        if not name.startswith(OURS) or path is None or len(path) != 1:
            return None
        folder, last = path[0], name.rpartition(".")[2]
        package = f"{folder}/{last}"
        for file, inner in ((f"{package}/__init__.py", [package]), (f"{package}.py", None)):
            try:
                source = os.stat(file)
            except OSError:
                continue
            loader = Loader(name, file)
            spec = spec_from_file_location(name, file, loader=loader, submodule_search_locations=inner)
            if spec is not None:
                where, _, base = file.rpartition("/")
                spec.cached = f"{where}/__pycache__/{base[:-3]}.{sys.implementation.cache_tag}.pyc"
                loader.compiled, loader.noted = spec.cached, noted_of(source)
            return spec
        return None


class Loader(SourceFileLoader):
    """Reads compiled code that is valid; everything else is importlib's."""

    compiled = ""
    noted = b""  # what compiled code of this source notes of it

    def get_code(self, fullname: str) -> CodeType | None:
        try:
            data = read(self.compiled)
        except OSError:
            return super().get_code(fullname)
        if not data.startswith(HEAD) or data[NOTED] != self.noted:
            return super().get_code(fullname)
        code: CodeType = marshal.loads(memoryview(data)[CODE:])
        return code


def noted_of(source: os.stat_result) -> bytes:
    return ((int(source.st_mtime) & BITS) | (source.st_size & BITS) << 32).to_bytes(8, "little")


def read(path: str) -> bytes:
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        size = os.fstat(fd).st_size
        data = os.read(fd, size)
        while len(data) < size and (more := os.read(fd, size - len(data))):
            data += more
        return data
    finally:
        os.close(fd)
