"""Constrained decoding: make a language model write text that provably fits a constraint.

The public names, all of them. ``import guiderail as gr`` is the convention. A name is loaded when it is first used,
so that importing the package costs little.
"""

import lazy_loader as _lazy

_public, __dir__, __all__ = _lazy.attach_stub(__name__, __file__)


def __getattr__(name: str) -> object:
    if name == "__version__":
        from importlib.metadata import PackageNotFoundError, version

        try:
            return version("guiderail")
        except PackageNotFoundError:  # run from a source tree that was never installed
            return "0+unknown"
    if name not in __all__:  # with the name, Python suggests the one that was meant
        from importlib import import_module

        known = import_module(f"{__name__}.support.other_names").LIBRARY
        said = f"; {known[name]}" if name in known else ""
        raise AttributeError(
            f"module {__name__!r} has no attribute {name!r}{said}", name=name, obj=__import__(__name__)
        )
    value = globals()[name] = _public(name)
    return value
