#!/usr/bin/env python3
"""Adopting the guard changes two lines of a server's main() and one line where
a client creates its channel.

Rules of the count. The two programs differ only in the
guard, and the build compiles both. A changed line is one that was added, removed
or replaced by one other; formatting and comments count like code.
- Server: main() of payments_server.cc against payments_server_unguarded.cc.
  GuardOrExit() replaces RegisterService(), and Close() precedes
  Shutdown(): all that a server needs while it exists, not only its start.
  Outside main() the two sources may differ in comments and by one #include.
  payments_guard.cc is not counted: its function has the address of
  idempotencyd and the scope of a call's key, which only an application can
  choose; for any number of protected services there is one of it.
- Client: KeyedChannel() against BareChannel() in payments_client.cc, of which
  --no_key chooses one.

usage: adoption_test.py FOLDER
"""

import difflib
import os
import re
import sys


def body_of(name, text):
    """The lines of a function's body: up to the brace in the first column."""
    found = re.search(rf"^[^\n]*\b{name}\([^{{]*\{{\n(.*?)^\}}", text, re.S | re.M)
    if found is None:
        raise SystemExit(f"there is no {name}()")
    return found.group(1).splitlines()


def changes(before, after):
    """(lines before, lines after) for each place that differs."""
    steps = difflib.SequenceMatcher(None, before, after, autojunk=False).get_opcodes()
    return [(before[a:b], after[c:d]) for kind, a, b, c, d in steps if kind != "equal"]


def count(before, after):
    return sum(max(len(old), len(new)) for old, new in changes(before, after))


def without_main(text):
    main = "\n".join(body_of("main", text))
    return [line for line in text.replace(main, "").splitlines() if not line.startswith("//")]


def main():
    folder = sys.argv[1]
    sources = {}
    for name in ("payments_server", "payments_server_unguarded", "payments_client"):
        with open(os.path.join(folder, f"{name}.cc"), encoding="utf-8") as file:
            sources[name] = file.read()
    bare, guarded = sources["payments_server_unguarded"], sources["payments_server"]
    client = sources["payments_client"]

    in_main = count(body_of("main", bare), body_of("main", guarded))
    outside = changes(without_main(bare), without_main(guarded))
    in_channel = count(body_of("BareChannel", client), body_of("KeyedChannel", client))
    # A third line would be detected.
    with_one_more = count(body_of("main", bare), ["  more();", *body_of("main", guarded)])
    print(f"main(): {in_main} lines, channel: {in_channel}, outside main(): {outside}")
    includes = [line for old, new in outside for line in old + new]
    holds = (in_main == 2 and in_channel == 1 and with_one_more == 3 and len(includes) == 1
             and includes[0].startswith("#include "))
    return 0 if holds else 1


if __name__ == "__main__":
    sys.exit(main())
