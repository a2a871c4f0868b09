"""The builds of the daemon that take part in a run."""

import dataclasses
import pathlib


@dataclasses.dataclass(frozen=True)
class Build:
    program: pathlib.Path
    # For people.
    what: str


class Builds:
    """`current`, and those that tests/chaos/build_previous.sh left in `previous`:

    `other`    of the same schema; None without one, and `no_other` is the reason
    `earlier`  supports the schema only up to the version before the newest; None without one
    """

    def __init__(self, current, previous):
        self.current = Build(pathlib.Path(current).resolve(), "this build")
        self.other = self._find(previous, "other")
        self.earlier = self._find(previous, "earlier")
        self.no_other = ("earlier builds are left out (--no-previous, --smoke), or they have no "
                         "such store" if previous is None else
                         f"there is none in {previous}: tests/chaos/build_previous.sh makes it")

    @staticmethod
    def _find(previous, name):
        if previous is None:
            return None
        folder = pathlib.Path(previous) / name
        program = folder / "bin" / "idempotencyd"
        if not program.exists():
            return None
        return Build(program.resolve(), (folder / "what").read_text(encoding="utf-8").strip())

    def to_json(self):
        return {name: build.what for name, build in
                (("other", self.other), ("earlier", self.earlier)) if build is not None}
