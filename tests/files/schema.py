"""Fingerprints of the code that makes what a cache holds: python -m tests.files.schema [--write [--same]]

A cache is believed if it has the number of the code that reads it. So that nobody forgets to raise that number,
cache_schema.json has it beside fingerprints of the code, one for each agent and one for the rest: of all definitions
that its roots lead to by name, in the rooms of FOLLOWED. Comments, docstrings, annotations and imports do not count,
nor in which module a definition stands: code that is only moved or explained anew has the fingerprint that it had.

Without a word it shows what counts. --write notes the fingerprints as they are now, and raises the number of each cache
whose code has changed, unless that was done by hand; the code of a new agent raises nothing. --same: no number is
raised, because what is read is the same (a function has another name).
"""

from __future__ import annotations

import argparse
import ast
import hashlib
import json
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import agentctl

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

PACKAGE = Path(agentctl.__file__).parent
NOTED = Path(__file__).parent / "cache_schema.json"
SHARED = "all agents"
BEGIN = "__init__"
AT_IMPORT = ""  # the name of what has none: statements that are run when a module is imported
ALL = None
FOLLOWED = ("agents", "durations", "fast", "files", "launches", "model", "query", "usage")
NOT_TOLD = ("annotation", "returns", "type_comment", "type_params", "kind", "ctx")
NOT_FOLLOWED = ("agents/__init__.py", "files/private.py")  # which agents there are; where the number itself stands


class Cache(NamedTuple):
    name: str
    file: str  # that has the number
    constant: str
    what: str
    roots: dict[str, tuple[str, ...] | None]  # modules, and which of their definitions; "*.x": what has this method
    others: tuple[str, ...] = ()  # modules that make what another cache holds


RECORDS = Cache(
    "RECORDS",
    "files/private.py",
    "CACHE_SCHEMA",
    "the code that reads transcripts and launches",
    {
        "agents/*/store.py": ("Store.record",),
        "agents/*/control.py": ("*.printed_id",),
        "files/column_cache.py": ALL,
        "files/record_cache.py": ALL,
        "launches/index.py": ALL,
        "query/attribution.py": ("read", "with_read", "read_launch", "printed_in"),
    },
    others=("agents/*/usage.py", "agents/usage_base.py"),
)
USAGE = Cache(
    "USAGE",
    "usage/db.py",
    "VERSION",
    "the code that counts usage",
    {
        "agents/*/usage.py": ("*.folders", "*.count"),
        "agents/usage_base.py": ALL,
        "usage/db.py": ("SCHEMA", "bound", "unbound"),
        "usage/index.py": ALL,
        "usage/sums.py": ALL,
    },
)
CACHES = (RECORDS, USAGE)


class Module:
    """What a module defines, and what its names stand for."""

    def __init__(self, path: Path, package: Path) -> None:
        tree = ast.parse(path.read_text(encoding="utf-8"))
        body = [node for node in tree.body if not only_for_types(node)]
        self.package = package
        self.symbols: dict[str, tuple[Path, str]] = {}  # name -> where it is from, and its name there
        self.modules: dict[str, Path] = {}  # name -> the module of ours that it stands for
        for node in ast.walk(ast.Module(body, [])):
            if isinstance(node, ast.ImportFrom):
                self._note(node)
        self.definitions: dict[str, list[ast.AST]] = {AT_IMPORT: []}  # also "Class.member"
        self.bases: dict[str, list[ast.expr]] = {}
        for statement in body:
            if isinstance(statement, ast.Import | ast.ImportFrom) or is_text(statement):
                continue
            for name in list(bound_by(statement)) or [AT_IMPORT]:
                self.definitions.setdefault(name, []).append(statement)
            if isinstance(statement, ast.ClassDef):
                self.bases[statement.name] = statement.bases
                for name, member in members_of(statement):
                    self.definitions.setdefault(f"{statement.name}.{name}", []).append(member)

    def _note(self, node: ast.ImportFrom) -> None:
        first, *parts = (node.module or "").split(".")
        for alias in node.names if first == "agentctl" else ():
            name = alias.asname or alias.name
            if (whole := module_at(self.package.joinpath(*parts, alias.name))) is not None:
                self.modules[name] = whole
            elif (home := module_at(self.package.joinpath(*parts))) is not None:
                self.symbols[name] = home, alias.name

    def used(self, name: str, here: Path) -> Iterator[tuple[Path, str]]:
        """What a definition names: of a member also what it asks of `self`, which its base may have."""
        owner, dot, member = name.partition(".")
        nodes = [node for statement in self.definitions.get(name, ()) for node in ast.walk(statement)]
        for one in nodes:
            if isinstance(one, ast.Name) and one.id in self.symbols:
                yield self.symbols[one.id]
            elif isinstance(one, ast.Name) and one.id in self.definitions:
                yield here, one.id
            elif isinstance(one, ast.Attribute) and isinstance(one.value, ast.Name):
                if one.value.id in self.modules:
                    yield self.modules[one.value.id], one.attr
                elif one.value.id in ("self", "cls") and dot:
                    yield here, f"{owner}.{one.attr}"
        if dot and nodes:
            yield here, f"{owner}.{BEGIN}"
        if dot and (not nodes or any(isinstance(one, ast.Name) and one.id == "super" for one in nodes)):
            for base in self.bases.get(owner, ()):
                for path, found in self._named(base, here):
                    yield path, f"{found}.{member}"

    def _named(self, node: ast.expr, here: Path) -> Iterator[tuple[Path, str]]:
        if isinstance(node, ast.Name):
            yield self.symbols.get(node.id, (here, node.id))
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in self.modules:
            yield self.modules[node.value.id], node.attr


def only_for_types(node: ast.stmt) -> bool:
    test = node.test if isinstance(node, ast.If) else node.targets[0] if isinstance(node, ast.Assign) else None
    return isinstance(test, ast.Name) and test.id == "TYPE_CHECKING" and not getattr(node, "orelse", None)


def is_text(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


def module_at(path: Path) -> Path | None:
    found = path.with_suffix(".py"), path / "__init__.py"
    return next((one for one in found if one.is_file()), None)


def members_of(statement: ast.ClassDef) -> Iterator[tuple[str, ast.AST]]:
    """What `self` has. An attribute is what it is set to in the beginning, each by itself."""
    for member in statement.body:
        if not isinstance(member, ast.FunctionDef) or member.name != BEGIN:
            yield from ((name, member) for name in bound_by(member))
            continue
        yield BEGIN, member.args
        for one in member.body:
            if not is_text(one):
                yield attribute_set_by(one) or BEGIN, one


def attribute_set_by(statement: ast.stmt) -> str | None:
    targets = statement.targets if isinstance(statement, ast.Assign) else [getattr(statement, "target", None)]
    match targets:
        case [ast.Attribute(ast.Name("self"), name)]:
            return name
    return None


def bound_by(statement: ast.stmt) -> Iterator[str]:
    if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        yield statement.name
        return
    for node in ast.walk(statement):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id


# What is reached


class Sources:
    """The modules of a package, each read once."""

    def __init__(self, package: Path = PACKAGE) -> None:
        self.package = package
        self._modules: dict[Path, Module] = {}

    def module(self, path: Path) -> Module:
        if path not in self._modules:
            self._modules[path] = Module(path, self.package)
        return self._modules[path]

    def matching(self, patterns: Iterable[str]) -> set[Path]:
        return {path for pattern in patterns for path in self.package.glob(pattern)}

    def room(self, path: Path) -> str:
        return path.relative_to(self.package).with_suffix("").parts[0]


def reached(cache: Cache, part: str, sources: Sources) -> dict[Path, set[str]]:
    """All definitions that make what a cache holds of an agent, or of all alike, by module."""
    others = sources.matching((*cache.others, *NOT_FOLLOWED))
    found: dict[Path, set[str]] = {}
    front = roots_of(cache, sources)[part]
    passed = set()
    for path, name in front:  # grows
        if (path, name) in passed or path in others or sources.room(path) not in FOLLOWED:
            continue
        passed.add((path, name))
        module = sources.module(path)
        if is_the_number(cache, path, name, sources):
            continue
        front += [*module.used(name, path), (path, AT_IMPORT)]
        if name in module.definitions:
            found.setdefault(path, set()).add(name)
    return found


def is_the_number(cache: Cache, path: Path, name: str, sources: Sources) -> bool:
    return name == cache.constant and path == sources.package / cache.file


def roots_of(cache: Cache, sources: Sources) -> dict[str, list[tuple[Path, str]]]:
    """By agent, and those of all agents alike."""
    found: dict[str, list[tuple[Path, str]]] = {}
    for pattern, names in cache.roots.items():
        known = {path: sources.module(path).definitions for path in sorted(sources.matching([pattern]))}
        if not known:
            raise LookupError(f"{pattern} is no module any more: say in {cache.name} of tests/files/schema.py what is")
        for path, defined in known.items():
            part = path.parent.name if "*" in pattern else SHARED
            wanted = [name for name in defined if "." not in name] if names is ALL else matching(names, defined)
            found.setdefault(part, []).extend((path, name) for name in wanted)
        for name in names or ():
            if not any(matching([name], defined) for defined in known.values()):
                raise LookupError(
                    f"{pattern} has no {name} any more: say in {cache.name} of tests/files/schema.py what it is now"
                )
    return found


def matching(names: Iterable[str], defined: Iterable[str]) -> list[str]:
    """What of a module's definitions is meant."""
    return [one for one in defined for name in names if one == name or (name[0] == "*" and one.endswith(name[1:]))]


# What it is


def fingerprints(cache: Cache, sources: Sources) -> dict[str, str]:
    return {part: fingerprint(cache, part, sources) for part in sorted(roots_of(cache, sources))}


def fingerprint(cache: Cache, part: str, sources: Sources) -> str:
    """Of all that is reached, in no order."""
    parts = []
    for path, names in reached(cache, part, sources).items():
        module = sources.module(path)
        statements = {id(one): one for name in names for one in module.definitions[name]}
        for one in statements.values():
            parts.append(hashlib.sha256(told(one, module).encode()).hexdigest())
    return hashlib.sha256("\n".join(sorted(parts)).encode()).hexdigest()[:16]


def told(node: Any, module: Module) -> str:
    """The tree as a text that is the same in every Python: what is empty or not said is left out."""
    if isinstance(node, list):
        return f"[{' '.join(told(one, module) for one in node if not is_left_out(one))}]"
    if not isinstance(node, ast.AST):
        return repr(node)
    if isinstance(node, ast.Constant):
        return f"(constant {node.value!r})"
    if isinstance(node, ast.Name):
        return f"(name {module.symbols[node.id][1] if node.id in module.symbols else node.id})"
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in module.modules:
        return f"(name {node.attr})"
    if isinstance(node, ast.AnnAssign) and node.value is not None:
        return told(ast.Assign([node.target], node.value), module)
    fields = [
        f"{name}={told(value, module)}"
        for name, value in ast.iter_fields(node)
        if name not in NOT_TOLD and value is not None and value != []
    ]
    return f"({type(node).__name__} {' '.join(fields)})"


def is_left_out(node: object) -> bool:
    return isinstance(node, ast.Import | ast.ImportFrom) or (isinstance(node, ast.stmt) and is_text(node))


# What was noted


def number(cache: Cache, package: Path = PACKAGE) -> int:
    found = re.search(rf"^{cache.constant} = (\d+)$", (package / cache.file).read_text(), re.MULTILINE)
    if found is None:
        raise LookupError(f"{cache.file} has no {cache.constant} any more: say in tests/files/schema.py where that is")
    return int(found[1])


def noted(cache: Cache, path: Path = NOTED) -> tuple[int, dict[str, str]]:
    found = json.loads(path.read_text())[cache.name]
    return found["number"], found["code"]


def changed(before: dict[str, str], now: dict[str, str]) -> list[str]:
    """Whose code is another than it was. An agent that was not there has nothing in any cache yet."""
    return [part for part in now if before.get(part, now[part]) != now[part]]


def write(
    caches: Iterable[Cache] = CACHES, *, same: bool = False, package: Path = PACKAGE, path: Path = NOTED
) -> Iterator[str]:
    sources, notes = Sources(package), json.loads(path.read_text())
    for cache in caches:
        (last, before), now, current = noted(cache, path), fingerprints(cache, sources), number(cache, package)
        parts = changed(before, now)
        if parts and current == last and not same:
            current += 1
            put(package / cache.file, cache.constant, current)
        notes[cache.name] = {"number": current, "code": now}
        yield f"{cache.constant} in {cache.file} is {current}; other code than before: {', '.join(parts) or 'none'}"
    path.write_text(json.dumps(notes, indent=1) + "\n")


def put(path: Path, constant: str, value: int) -> None:
    text = path.read_text()
    path.write_text(re.sub(rf"^{constant} = \d+$", f"{constant} = {value}", text, flags=re.MULTILINE))


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.files.schema")
    parser.add_argument("--write", action="store_true", help="note the fingerprints, and raise the numbers")
    parser.add_argument("--same", action="store_true", help="with --write: what is read is the same, raise no number")
    options = parser.parse_args()
    if options.same and not options.write:
        parser.error("--same is for --write")
    sources = Sources()
    for line in write(same=options.same) if options.write else (shown(cache, sources) for cache in CACHES):
        print(line)
    return 0


def shown(cache: Cache, sources: Sources) -> str:
    lines = []
    for part, print_ in fingerprints(cache, sources).items():
        lines.append(f"{cache.name}, {part}: {print_}")
        for path, names in sorted(reached(cache, part, sources).items()):
            lines.append(f"  {path.relative_to(sources.package)}: {' '.join(sorted(filter(None, names)))}")
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
