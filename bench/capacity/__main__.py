"""Checks the model against a measured point, and writes the plan into docs/scaling.md.

  scripts/bench.sh --capacity       measures the figures
  python3 -m bench.capacity         the plan, from them; --print: only to the terminal
"""

import argparse
import pathlib
import sys

from bench.comparison.report import with_block

from .chart import chart
from .figures import DEFAULT, load
from .report import caption, page, verification


def main():
    parser = argparse.ArgumentParser(prog="python3 -m bench.capacity",
                                     description=__doc__.splitlines()[0])
    parser.add_argument("--figures", type=pathlib.Path, default=DEFAULT)
    parser.add_argument("--docs", type=pathlib.Path, default=pathlib.Path("docs"))
    parser.add_argument("--print", action="store_true", help="write nothing")
    options = parser.parse_args()
    figures = load(options.figures)
    print(verification(figures))
    text, rows = page(figures)
    if options.print:
        print(text)
        return 0
    path = options.docs / "scaling.md"
    path.write_text(with_block(path.read_text(), "capacity", text, "bench/capacity"))
    (options.docs / "scaling.svg").write_text(chart(rows, caption(figures)))
    print(f"wrote {path} and {options.docs}/scaling.svg")
    return 0


if __name__ == "__main__":
    sys.exit(main())
