#!/usr/bin/env python3
"""Checks the documents against the code.

- Each C++, proto and CMake block of the PAGEs names a source and a marker, and is equal to the
  part of that source between the comments `[page:name]` and `[page:end]` (which the
  build compiles).
- The table of docs/errors.md has exactly the reasons of the catalogue that are returned,
  with their status codes.
- Every file that a Markdown page links to exists, and every heading.

usage: readme_test.py PROJECT_ROOT PAGE...   (pages from the root)
"""

import os
import re
import sys

CATALOGUE = "include/grpc_idempotency/errors.h"
TABLE = "docs/errors.md"


def read(*path):
    with open(os.path.join(*path), encoding="utf-8") as file:
        return file.read()


def snippet_faults(root, page):
    text = read(root, page)
    blocks = re.findall(r"<!-- (\S+) (\w+):(\w+) -->\n```(?:cpp|proto|cmake)\n(.*?)```", text, re.S)
    if not blocks or len(blocks) != len(re.findall("```(?:cpp|proto|cmake)", text)):
        yield f"{page}: a C++, proto or CMake block does not name its source, or the page has no such block"
    for source, of, name, shown in blocks:
        part = re.search(rf"(?://|#) \[{of}:{name}\]\n(.*?)(?://|#) \[{of}:end\]", read(root, source), re.S)
        if part is None:
            yield f"{source}: no part [{of}:{name}]"
        elif part.group(1) != shown:
            yield f"{page}: the block {of}:{name} differs from {source}"


def reason_faults(root):
    header = read(root, CATALOGUE)
    catalogue = dict(re.findall(r"^  // ([A-Z_]+), ([A-Z_]+).*\n(?:  //.*\n)+  k\w+,", header, re.M))
    enumerators = re.findall(r"^  k\w+,", header, re.M)
    if len(enumerators) != len(catalogue):
        yield f"{CATALOGUE}: {len(enumerators)} reasons, {len(catalogue)} with a name, a code and advice"
    table = dict(re.findall(r"^\| `([A-Z_]+)` \| ([A-Z_]+)", read(root, TABLE), re.M))
    for reason in sorted(set(catalogue) ^ set(table)):
        yield f"{reason} is not in both {CATALOGUE} and {TABLE}"
    for reason in sorted(set(catalogue) & set(table)):
        # RESERVATION_LOST is listed with the guard's code first.
        if reason != "RESERVATION_LOST" and catalogue[reason] != table[reason]:
            yield f"{reason}: {catalogue[reason]} in {CATALOGUE}, {table[reason]} in {TABLE}"
    if len(catalogue) < 10:
        yield f"{CATALOGUE}: the catalogue could not be read"


def anchors(page):
    """Those of a page's headings, as GitHub forms them."""
    found = {}
    for heading in re.findall(r"^#+ (.*)$", re.sub(r"^```.*?^```$", "", page, flags=re.M | re.S), re.M):
        anchor = re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
        found[anchor] = found.get(anchor, 0) + 1
    return {anchor if nth == 0 else f"{anchor}-{nth}" for anchor, times in found.items() for nth in range(times)}


def link_faults(root):
    for folder, _, files in os.walk(root):
        if "/build" in folder or "/.git" in folder:
            continue
        for name in (f for f in files if f.endswith(".md")):
            page = os.path.join(folder, name)
            for target, anchor in re.findall(r"\]\(([^)#:]*)(?:#([^)]*))?\)", read(page)):
                path = os.path.join(folder, target) if target else page
                if not os.path.exists(path):
                    yield f"{page}: link to {target}, which is not there"
                elif anchor and path.endswith(".md") and anchor not in anchors(read(path)):
                    yield f"{page}: link to {target}#{anchor}, a heading that is not there"


def main():
    root, *pages = sys.argv[1:]
    faults = [fault for page in pages for fault in snippet_faults(root, page)]
    faults += [*reason_faults(root), *link_faults(root)]
    print("\n".join(faults) or "documents and code agree")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
