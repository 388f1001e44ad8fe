"""Are the packages of the extra `daemon` installed? The core does without them."""

from __future__ import annotations

from agentctl.errors import MissingProgram

PACKAGES = ("starlette", "uvicorn")


def require() -> None:
    """Raise MissingProgram if a package is not installed."""
    missing = [name for name in PACKAGES if not is_there(name)]
    if missing:
        raise MissingProgram(
            f"the daemon needs packages that are not installed ({', '.join(missing)}): pip install 'agentctl[daemon]'"
        )


def is_there(name: str) -> bool:
    from importlib.util import find_spec

    try:
        return find_spec(name) is not None
    except ImportError:
        return False
