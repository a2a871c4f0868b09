"""The measured figures that the model starts from: bench/capacity/figures.json."""

import dataclasses
import json
import pathlib

# Of the daemon (kMaxBatch).
LARGEST_BATCH = 256

DEFAULT = pathlib.Path(__file__).with_name("figures.json")


class BadFigure(ValueError):
    """A figure that the model cannot use."""


@dataclasses.dataclass(frozen=True)
class Engine:
    """A store on the measured machine."""

    name: str
    # [operations in a batch, microseconds for their reservation and completion], rising in both.
    batch_us: tuple
    # How many batches at once count in full: two connections do not do twice the work of one.
    parallel: float

    def cycle_us(self, batch):
        """The time of a batch, by interpolation; beyond the last size, by the last step."""
        points = self.batch_us
        if batch <= points[0][0]:
            return points[0][1]
        for (low, low_us), (high, high_us) in zip(points, points[1:]):
            if batch <= high or high == points[-1][0]:
                return low_us + (high_us - low_us) * (batch - low) / (high - low)
        raise BadFigure(f"{self.name}: a single batch size")

    def rate(self, batch):
        """Cycles per second in batches of this size, as many at once as count."""
        return 1e6 * self.parallel * batch / self.cycle_us(batch)

    def batch_for(self, cycles_per_s):
        """The smallest batch with which the store keeps up; the largest one if none does."""
        for batch in range(1, LARGEST_BATCH):
            if self.rate(batch) >= cycles_per_s:
                return batch
        return LARGEST_BATCH


class Figures:
    """Every figure has a value and the command that makes it."""

    def __init__(self, document):
        self._figures = document["figures"]
        self.run = document["run"]
        for name, figure in self._figures.items():
            if not figure.get("command"):
                raise BadFigure(f"{name} names no command that makes it")
            _check(name, figure["value"])
        self.engines = {name: self._engine(name) for name in ("postgres", "sqlite")}

    def _engine(self, name):
        points = tuple(tuple(point) for point in self[f"{name}_batch_us"])
        if len(points) < 2 or list(points) != sorted(points) or (
                [us for _, us in points] != sorted(us for _, us in points)):
            raise BadFigure(f"{name}_batch_us: at least two points, rising in size and time")
        return Engine(name, points, max(1.0, self[f"{name}_parallel"]))

    def __getitem__(self, name):
        if name not in self._figures:
            raise BadFigure(f"no figure {name}: run `scripts/bench.sh --capacity`")
        return self._figures[name]["value"]

    def get(self, name):
        """None if it was not measured."""
        return self[name] if name in self._figures else None

    def rows(self):
        """Name, figure."""
        return self._figures.items()


def _check(name, value):
    numbers = [value] if isinstance(value, (int, float)) else [n for pair in value for n in pair]
    if not numbers or any(not number > 0 for number in numbers):
        raise BadFigure(f"{name} is not above 0: {value}")


def load(path=DEFAULT):
    return Figures(json.loads(pathlib.Path(path).read_text()))
