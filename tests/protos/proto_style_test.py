#!/usr/bin/env python3
"""The project's public protos follow every rule, and each rule finds the fault that was
made for it.

usage: proto_style_test.py PROTOC PROTO_ROOT TESTDATA_ROOT
"""

import os
import sys

import proto_style

# google.rpc's messages, field for field, under a package of this project: no file imports them,
# and their comments are at google.rpc.
COPIES = {"idempotency/wire/rpc_status.proto"}

# A fault in testdata/ is marked on its own line: `// broken: RULE, RULE`.
MARK = "// broken: "


def protos_of(root):
    for folder, _, files in os.walk(root):
        for name in files:
            if name.endswith(".proto"):
                yield os.path.relpath(os.path.join(folder, name), root)


def faults_of(protoc, root, names):
    return proto_style.Style().check(*proto_style.parse(protoc, root, sorted(names)))


def marked_in(root, name):
    with open(os.path.join(root, name), encoding="utf-8") as file:
        for line in file:
            if MARK in line:
                yield from ((name, rule.strip()) for rule in line.split(MARK)[1].split(","))


def main():
    protoc, root, testdata = sys.argv[1:]
    ours = set(protos_of(root)) - COPIES
    wrong = [f"{name}: {rule}: {what}" for name, rule, what in faults_of(protoc, root, ours)]
    if len(ours) < 3:
        wrong.append(f"only {len(ours)} protos found in {root}")
    broken = set(protos_of(testdata))
    found = sorted((name, rule) for name, rule, _ in faults_of(protoc, testdata, broken))
    marked = sorted(pair for name in broken for pair in marked_in(testdata, name))
    for pair in sorted(set(found) | set(marked)):
        if found.count(pair) != marked.count(pair):
            wrong.append(f"testdata: {pair}: found {found.count(pair)}, marked {marked.count(pair)}")
    print("\n".join(wrong) or f"{len(ours)} protos keep to the rules; {len(found)} planted faults found")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
