#!/usr/bin/python3
"""Writes the reference of the configuration file from the comments of its proto.

usage: scripts/configuration_reference.py             prints it
       scripts/configuration_reference.py --write     replaces it in docs/configuration.md
       scripts/configuration_reference.py --check     exits 1 if the page has another one
"""

import pathlib
import subprocess
import sys
import tempfile

from google.protobuf import descriptor_pb2

ROOT = pathlib.Path(__file__).resolve().parents[1]
PROTOS = ROOT / "server/config/protos"
IMPORTS = ROOT / "proto"
PROTO = "idempotency/config/v1/config.proto"
PAGE = ROOT / "docs/configuration.md"
BEGIN = "<!-- The rest is made by scripts/configuration_reference.py --write -->\n"

_FIELD = descriptor_pb2.FieldDescriptorProto
_TYPES = {_FIELD.TYPE_STRING: "text", _FIELD.TYPE_BOOL: "true or false",
          _FIELD.TYPE_UINT32: "number", _FIELD.TYPE_UINT64: "number",
          _FIELD.TYPE_INT64: "number", _FIELD.TYPE_DOUBLE: "number"}


def described():
    """The file's descriptor, and its comments by the path of what they belong to."""
    with tempfile.NamedTemporaryFile() as file:
        subprocess.run(["protoc", f"-I{PROTOS}", f"-I{IMPORTS}", "--include_source_info",
                        f"--descriptor_set_out={file.name}", PROTO], check=True)
        proto = descriptor_pb2.FileDescriptorSet.FromString(file.read()).file[0]
    comments = {tuple(location.path): location.leading_comments
                for location in proto.source_code_info.location}
    return proto, comments


def one_line(comment):
    return " ".join(line.strip() for line in comment.strip().splitlines()).replace("|", r"\|")


def type_of(field):
    if field.type_name == ".google.protobuf.Duration":
        text = "a Duration"
    elif field.type in (_FIELD.TYPE_MESSAGE, _FIELD.TYPE_ENUM):
        name = field.type_name.rsplit(".", 1)[-1]
        kind = "block" if field.type == _FIELD.TYPE_MESSAGE else "one"
        of_proto = field.type_name.startswith(".idempotency.v1.")
        page = "policies.md" if of_proto and kind == "block" else f"#{name.lower()}"
        text = f"[{name}]({page})" if kind == "block" else f"a {name}"
    else:
        text = _TYPES[field.type]
    return f"{text}, repeated" if field.label == _FIELD.LABEL_REPEATED else text


def message_lines(message, path, comments):
    yield f"## {message.name}\n"
    yield comments.get(path, "").strip().replace("\n ", "\n") + "\n"
    yield "| field | value | meaning |"
    yield "|---|---|---|"
    for i, field in enumerate(message.field):
        yield f"| `{field.name}` | {type_of(field)} | {one_line(comments[path + (2, i)])} |"
    yield ""
    for i, enum in enumerate(message.enum_type):
        yield f"A {enum.name}: {one_line(comments[path + (4, i)])}\n"
        yield "| value | meaning |"
        yield "|---|---|"
        for j, value in enumerate(enum.value):
            if value.number != 0:
                yield f"| `{value.name}` | {one_line(comments[path + (4, i, 2, j)])} |"
        yield ""


def reference():
    proto, comments = described()
    lines = []
    for i, message in enumerate(proto.message_type):
        lines += message_lines(message, (4, i), comments)
    return "\n".join(lines).rstrip("\n") + "\n"


def main(arguments):
    page = PAGE.read_text(encoding="utf-8")
    head, _, present = page.partition(BEGIN)
    if arguments == ["--write"]:
        PAGE.write_text(head + BEGIN + "\n" + reference(), encoding="utf-8")
    elif arguments == ["--check"]:
        if present != "\n" + reference():
            print(f"{PAGE.name} is not the proto's: scripts/configuration_reference.py --write")
            return 1
    elif arguments:
        print(__doc__)
        return 2
    else:
        print(reference(), end="")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
