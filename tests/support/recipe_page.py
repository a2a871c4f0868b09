"""The recipes of a page: blocks that its readers paste into one shell, in order.

In a recipe, `#> text` is expected output. In the opening line `exit=N` is the status with which
its last command must end, 0 by default; other words are the page's own."""

import dataclasses
import pathlib
import re

BLOCK = re.compile(r"^```(.*)\n((?:.*\n)*?)^```$", re.M)


@dataclasses.dataclass(frozen=True)
class Block:
    """A fenced block: the line of the page where it begins, its opening line, its text."""
    line: int
    opening: str
    text: str

    @property
    def is_recipe(self):
        return self.opening.startswith("sh recipe")

    @property
    def options(self):
        return self.opening.removeprefix("sh recipe").strip()

    @property
    def expected(self):
        return [line[3:] for line in self.text.splitlines() if line.startswith("#> ")]

    @property
    def status(self):
        return int(self.options.removeprefix("exit=")) if self.options.startswith("exit=") else 0

    def faults(self, output, status):
        """What differs from the page. Programs print JSON with different spaces."""
        if status != self.status:
            yield f"line {self.line}: exit {status}, not {self.status}\n{output}"
        for text in self.expected:
            if re.sub(r"\s", "", text) not in re.sub(r"\s", "", output):
                yield f"line {self.line}: did not print {text!r}\n{output}"


def blocks(page, section=None):
    """Every block of the page, or of the section with this heading."""
    text = pathlib.Path(page).read_text(encoding="utf-8")
    start, end = 0, len(text)
    if section is not None:
        start = text.index(f"\n## {section}\n")
        following = re.search(r"^## ", text[start + 4:], re.M)
        end = start + 4 + following.start() if following else end
    return [Block(text.count("\n", 0, match.start()) + 1, match[1], match[2])
            for match in BLOCK.finditer(text, start, end)]
