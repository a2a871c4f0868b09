"""Checks protos against the rules of `buf lint` (categories STANDARD and
COMMENTS), under buf's own names for them. protoc has parsed them before."""

import os
import re
import subprocess
import tempfile

from google.protobuf import descriptor_pb2

PASCAL = re.compile(r"[A-Z][A-Za-z0-9]*\Z")
LOWER_SNAKE = re.compile(r"[a-z][a-z0-9]*(_[a-z0-9]+)*\Z")
UPPER_SNAKE = re.compile(r"[A-Z][A-Z0-9]*(_[A-Z0-9]+)*\Z")
VERSION = re.compile(r"v[1-9][0-9]*((alpha|beta)[0-9]*|p[1-9][0-9]*(alpha|beta)[0-9]*|test.*)?\Z")

# Field numbers of descriptor.proto, of which the paths of comments are made.
FILE_MESSAGE, FILE_ENUM, FILE_SERVICE, FILE_EXTENSION = 4, 5, 6, 7
MESSAGE_FIELD, MESSAGE_NESTED, MESSAGE_ENUM, MESSAGE_EXTENSION, MESSAGE_ONEOF = 2, 3, 4, 6, 8
ENUM_VALUE, SERVICE_METHOD, FILE_SYNTAX = 2, 2, 12


def parse(protoc, root, names):
    """The files as protoc reads them, and the imports that it calls unused."""
    with tempfile.TemporaryDirectory() as folder:
        out = os.path.join(folder, "files.binpb")
        run = subprocess.run(
            [protoc, f"-I{root}", "--include_source_info", f"--descriptor_set_out={out}", *names],
            check=True, capture_output=True, text=True)
        files = descriptor_pb2.FileDescriptorSet()
        with open(out, "rb") as file:
            files.ParseFromString(file.read())
    return files.file, re.findall(r"^(.+?):\d+:\d+: warning: Import (\S+) is unused", run.stderr, re.M)


def upper_snake(name):
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name).upper()


class Style:
    """Gathers (file, rule, what) for every rule that is broken."""

    def __init__(self):
        self.faults = []
        self._file = None
        self._comments = {}
        self._rpc_types = {}

    def check(self, files, unused):
        for name, imported in unused:
            self.faults.append((name, "IMPORT_USED", imported))
        for file in files:
            self._check_file(file)
        for message, users in self._rpc_types.items():
            for name, rpc in users[1:]:
                self.faults.append((name, "RPC_REQUEST_RESPONSE_UNIQUE", f"{rpc}: {message}"))
        return self.faults

    def _must(self, holds, rule, what):
        if not holds:
            self.faults.append((self._file.name, rule, what))

    def _commented(self, path, kind, what):
        location = self._comments.get(tuple(path))
        text = location.leading_comments if location is not None else ""
        self._must(text.strip(), f"COMMENT_{kind}", what)

    def _check_file(self, file):
        self._file = file
        self._comments = {tuple(place.path): place for place in file.source_code_info.location}
        folder, base = os.path.split(file.name)
        parts = file.package.split(".")
        self._must(file.package, "PACKAGE_DEFINED", file.name)
        self._must((FILE_SYNTAX,) in self._comments, "SYNTAX_SPECIFIED", file.name)
        self._must(all(LOWER_SNAKE.match(part) for part in parts), "PACKAGE_LOWER_SNAKE_CASE", file.package)
        self._must(VERSION.match(parts[-1]), "PACKAGE_VERSION_SUFFIX", file.package)
        self._must(folder == "/".join(parts), "PACKAGE_DIRECTORY_MATCH", file.package)
        self._must(LOWER_SNAKE.match(base[: -len(".proto")]), "FILE_LOWER_SNAKE_CASE", file.name)
        self._must(not file.public_dependency, "IMPORT_NO_PUBLIC", file.name)
        self._must(not file.weak_dependency, "IMPORT_NO_WEAK", file.name)
        for i, message in enumerate(file.message_type):
            self._check_message(message, [FILE_MESSAGE, i])
        for i, enum in enumerate(file.enum_type):
            self._check_enum(enum, [FILE_ENUM, i])
        for i, service in enumerate(file.service):
            self._check_service(service, [FILE_SERVICE, i])
        for i, extension in enumerate(file.extension):
            self._check_field(extension, [FILE_EXTENSION, i], extension.name)

    def _check_message(self, message, path):
        # The entries of a map are protoc's, not ours.
        if message.options.map_entry:
            return
        self._must(PASCAL.match(message.name), "MESSAGE_PASCAL_CASE", message.name)
        self._commented(path, "MESSAGE", message.name)
        for i, field in enumerate(message.field):
            self._check_field(field, [*path, MESSAGE_FIELD, i], f"{message.name}.{field.name}")
        for i, extension in enumerate(message.extension):
            self._check_field(extension, [*path, MESSAGE_EXTENSION, i], f"{message.name}.{extension.name}")
        synthetic = {field.oneof_index for field in message.field if field.proto3_optional}
        for i, oneof in enumerate(message.oneof_decl):
            if i in synthetic:
                continue
            self._must(LOWER_SNAKE.match(oneof.name), "ONEOF_LOWER_SNAKE_CASE", oneof.name)
            self._commented([*path, MESSAGE_ONEOF, i], "ONEOF", f"{message.name}.{oneof.name}")
        for i, nested in enumerate(message.nested_type):
            self._check_message(nested, [*path, MESSAGE_NESTED, i])
        for i, enum in enumerate(message.enum_type):
            self._check_enum(enum, [*path, MESSAGE_ENUM, i])

    def _check_field(self, field, path, what):
        required = field.label == descriptor_pb2.FieldDescriptorProto.LABEL_REQUIRED
        self._must(LOWER_SNAKE.match(field.name), "FIELD_LOWER_SNAKE_CASE", what)
        self._must(not required, "FIELD_NOT_REQUIRED", what)
        self._commented(path, "FIELD", what)

    def _check_enum(self, enum, path):
        self._must(PASCAL.match(enum.name), "ENUM_PASCAL_CASE", enum.name)
        self._must(not enum.options.allow_alias, "ENUM_NO_ALLOW_ALIAS", enum.name)
        self._commented(path, "ENUM", enum.name)
        first = enum.value[0]
        self._must(first.number == 0, "ENUM_FIRST_VALUE_ZERO", enum.name)
        prefix = upper_snake(enum.name) + "_"
        for i, value in enumerate(enum.value):
            self._must(UPPER_SNAKE.match(value.name), "ENUM_VALUE_UPPER_SNAKE_CASE", value.name)
            self._must(value.name.startswith(prefix), "ENUM_VALUE_PREFIX", value.name)
            unspecified = value.number != 0 or value.name.endswith("_UNSPECIFIED")
            self._must(unspecified, "ENUM_ZERO_VALUE_SUFFIX", value.name)
            self._commented([*path, ENUM_VALUE, i], "ENUM_VALUE", value.name)

    def _check_service(self, service, path):
        self._must(PASCAL.match(service.name), "SERVICE_PASCAL_CASE", service.name)
        self._must(service.name.endswith("Service"), "SERVICE_SUFFIX", service.name)
        self._commented(path, "SERVICE", service.name)
        for i, rpc in enumerate(service.method):
            self._must(PASCAL.match(rpc.name), "RPC_PASCAL_CASE", rpc.name)
            self._commented([*path, SERVICE_METHOD, i], "RPC", rpc.name)
            for message, kind in ((rpc.input_type, "Request"), (rpc.output_type, "Response")):
                short = message.rsplit(".", 1)[-1]
                expected = {rpc.name + kind, service.name + rpc.name + kind}
                self._must(short in expected, f"RPC_{kind.upper()}_STANDARD_NAME", f"{rpc.name}: {short}")
                self._rpc_types.setdefault(message, []).append((self._file.name, rpc.name))
