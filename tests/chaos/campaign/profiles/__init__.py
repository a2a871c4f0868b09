"""What a run is made of beside its length: one module for each --profile, with a `PROFILE`."""

import importlib
import pkgutil

from .profile import Profile


def names():
    return sorted(module.name.replace("_", "-") for module in pkgutil.iter_modules(__path__)
                  if module.name != "profile" and not module.name.endswith("_test"))


def load(name):
    """The Profile of that name; ValueError for another."""
    if name not in names():
        raise ValueError(f"no profile {name}: there are {', '.join(names())}")
    return importlib.import_module(f"{__name__}.{name.replace('-', '_')}").PROFILE
