"""Fingerprint version 1, written from docs/fingerprint.md.

A second implementation independent of the guard's, for tests and for ports to other
languages. It reads the wire format itself; of the protobuf package it needs the
descriptors of descriptors.
"""

import hashlib
import struct

from google.protobuf import descriptor_pb2

Field = descriptor_pb2.FieldDescriptorProto

VARINT, FIXED64, LENGTH, GROUP, END_GROUP, FIXED32 = range(6)

EXCLUDE_OPTION = 52411
EXCLUDE = 1

WIRE_TYPES = {
    Field.TYPE_DOUBLE: FIXED64,
    Field.TYPE_FIXED64: FIXED64,
    Field.TYPE_SFIXED64: FIXED64,
    Field.TYPE_FLOAT: FIXED32,
    Field.TYPE_FIXED32: FIXED32,
    Field.TYPE_SFIXED32: FIXED32,
    Field.TYPE_STRING: LENGTH,
    Field.TYPE_BYTES: LENGTH,
    Field.TYPE_MESSAGE: LENGTH,
    Field.TYPE_GROUP: GROUP,
}
SIGNED_FORMATS = {Field.TYPE_SFIXED32: "<i", Field.TYPE_SFIXED64: "<q"}


class Schema:
    """The messages, enums and extensions of a FileDescriptorSet."""

    def __init__(self, descriptor_set_bytes):
        self.messages = {}
        self.enums = {}
        extensions = []
        files = descriptor_pb2.FileDescriptorSet.FromString(descriptor_set_bytes)
        for file in files.file:
            package = "." + file.package if file.package else ""
            proto3 = file.syntax == "proto3"
            extensions += [(field, proto3) for field in file.extension]
            self._add(package, file, file.message_type, proto3, extensions)
        for field, proto3 in extensions:
            self.messages[field.extendee].add(field, proto3)

    def _add(self, scope, holder, messages, proto3, extensions):
        for enum in holder.enum_type:
            self.enums[f"{scope}.{enum.name}"] = Enum(enum, closed=not proto3)
        for message in messages:
            name = f"{scope}.{message.name}"
            self.messages[name] = MessageType(message, proto3)
            extensions += [(field, proto3) for field in message.extension]
            self._add(name, message, message.nested_type, proto3, extensions)

    def message(self, name):
        return self.messages[name if name.startswith(".") else "." + name]


class Enum:
    def __init__(self, enum, closed):
        self.numbers = {value.number for value in enum.value}
        self.closed = closed


class MessageType:
    def __init__(self, message, proto3):
        self.name = message.name
        self.is_map_entry = message.options.map_entry
        self.fields = {}
        for field in message.field:
            self.add(field, proto3)

    def add(self, field, proto3):
        self.fields[field.number] = FieldType(field, proto3)

    def named(self, name):
        return next(field for field in self.fields.values() if field.name == name)


class FieldType:
    def __init__(self, field, proto3):
        self.name = field.name
        self.number = field.number
        self.type = field.type
        self.type_name = field.type_name
        self.repeated = field.label == Field.LABEL_REPEATED
        self.wire_type = WIRE_TYPES.get(field.type, VARINT)
        self.packable = self.repeated and self.wire_type in (VARINT, FIXED32, FIXED64)
        self.is_message = field.type in (Field.TYPE_MESSAGE, Field.TYPE_GROUP)
        self.oneof = field.oneof_index if field.HasField("oneof_index") else None
        self.has_presence = not self.repeated and (
            not proto3 or self.is_message or self.oneof is not None or field.HasField("extendee"))
        options = read_fields(field.options.SerializeToString())
        self.excluded = any(
            number == EXCLUDE_OPTION and value == EXCLUDE for number, _, value in options)


# Reading -------------------------------------------------------------------


def read_varint(data, at):
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return value & (2**64 - 1), at


def read_value(data, at, wire_type, number):
    """A varint's number, or bytes; for a group its contents."""
    if wire_type == VARINT:
        return read_varint(data, at)
    if wire_type == LENGTH:
        size, at = read_varint(data, at)
    elif wire_type == GROUP:
        return read_group(data, at, number)
    else:
        size = 8 if wire_type == FIXED64 else 4
    if at + size > len(data):
        raise ValueError("the message is cut off")
    return data[at:at + size], at + size


def read_group(data, at, number):
    start = at
    while True:
        tag, after = read_varint(data, at)
        if tag & 7 == END_GROUP:
            if tag >> 3 != number:
                raise ValueError("a group ends that has not begun")
            return data[start:at], after
        _, at = read_value(data, after, tag & 7, tag >> 3)


def read_fields(data):
    """(number, wire type, value) of each field, in their order."""
    fields = []
    at = 0
    while at < len(data):
        tag, at = read_varint(data, at)
        value, at = read_value(data, at, tag & 7, tag >> 3)
        fields.append((tag >> 3, tag & 7, value))
    return fields


def unpack(field, data):
    values = []
    at = 0
    while at < len(data):
        value, at = read_value(data, at, field.wire_type, field.number)
        values.append(value)
    return values


class Message:
    """A message as protobuf interprets it.

    `values` maps a field's number to the list of its values. Messages are
    kept as bytes: joining two encodings merges the encoded messages.
    """

    def __init__(self, schema, message_type, data):
        self.schema = schema
        self.type = message_type
        self.values = {}
        self.unknown = []
        for number, wire_type, value in read_fields(data):
            self._take(number, wire_type, value)

    def _take(self, number, wire_type, value):
        field = self.type.fields.get(number)
        if field is not None and wire_type == field.wire_type:
            self._take_known(field, value)
        elif field is not None and field.packable and wire_type == LENGTH:
            for element in unpack(field, value):
                self._take_known(field, element)
        else:
            self.unknown.append((number, wire_type, value))

    def _take_known(self, field, value):
        if field.wire_type == VARINT:
            as_it_came, value = value, number_of(field, value)
            if field.type == Field.TYPE_ENUM:
                enum = self.schema.enums[field.type_name]
                if enum.closed and value not in enum.numbers:
                    self.unknown.append((field.number, VARINT, as_it_came))
                    return
        if field.repeated:
            self.values.setdefault(field.number, []).append(value)
            return
        if field.oneof is not None:
            for other in self.type.fields.values():
                if other.oneof == field.oneof and other.number != field.number:
                    self.values.pop(other.number, None)
        if field.is_message and field.number in self.values:
            value = self.values[field.number][0] + value
        self.values[field.number] = [value]


def number_of(field, varint):
    """The value of a varint for a field: the number itself."""
    low32 = varint & (2**32 - 1)
    if field.type == Field.TYPE_BOOL:
        return int(varint != 0)
    if field.type == Field.TYPE_UINT32:
        return low32
    if field.type in (Field.TYPE_INT32, Field.TYPE_ENUM):
        return low32 - 2**32 if low32 >= 2**31 else low32
    if field.type == Field.TYPE_INT64:
        return varint - 2**64 if varint >= 2**63 else varint
    if field.type in (Field.TYPE_SINT32, Field.TYPE_SINT64):
        bits = low32 if field.type == Field.TYPE_SINT32 else varint
        return -(bits // 2) - 1 if bits % 2 else bits // 2
    return varint


# Writing -------------------------------------------------------------------


def varint(value):
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def tag(number, wire_type):
    return varint(number << 3 | wire_type)


def with_length(data):
    return varint(len(data)) + data


def scalar(field, value):
    """A number, a string or bytes, without the tag."""
    if field.wire_type == LENGTH:
        return with_length(value)
    if field.wire_type == VARINT:
        if field.type in (Field.TYPE_SINT32, Field.TYPE_SINT64):
            return varint(2 * value if value >= 0 else -2 * value - 1)
        return varint(value & (2**64 - 1))
    if field.type == Field.TYPE_FLOAT:
        is_nan = value[3] & 0x7F == 0x7F and value[2] & 0x80 and (value[2] & 0x7F or value[1] or
                                                                  value[0])
        return bytes.fromhex("0000c07f") if is_nan else value
    if field.type == Field.TYPE_DOUBLE:
        number = struct.unpack("<d", value)[0]
        return bytes.fromhex("000000000000f87f") if number != number else value
    return value


def is_default(value):
    return value == 0 if isinstance(value, int) else not value.strip(b"\0")


class Canonical:
    """Writes canonical forms of messages of one schema."""

    def __init__(self, schema):
        self.schema = schema

    def message(self, message_type, data, key_field=()):
        message = Message(self.schema, message_type, data)
        parts = {}
        for number, values in message.values.items():
            field = message_type.fields[number]
            if not field.excluded:
                parts[number] = self.field(field, values, key_field)
        for number, wire_type, value in message.unknown:
            parts[number] = parts.get(number, b"") + self.unknown(number, wire_type, value)
        return b"".join(parts[number] for number in sorted(parts))

    def field(self, field, values, key_field):
        if key_field and field.name == key_field[0]:
            return self.without_key(field, values[0], key_field[1:])
        if field.packable:
            return tag(field.number, LENGTH) + with_length(b"".join(
                scalar(field, value) for value in values))
        if field.is_message and self.schema.message(field.type_name).is_map_entry:
            return self.map(field, values)
        if not field.repeated and not field.has_presence:
            # Strings have no default but the empty one.
            empty = not values[0] if field.wire_type == LENGTH else is_default(values[0])
            if empty:
                return b""
        return b"".join(self.element(field, value) for value in values)

    def without_key(self, field, value, rest):
        if not rest:
            return b""
        contents = self.message(self.schema.message(field.type_name), value, rest)
        return self.wrapped(field, contents) if contents else b""

    def element(self, field, value):
        if field.is_message:
            return self.wrapped(field, self.message(self.schema.message(field.type_name), value))
        return tag(field.number, field.wire_type) + scalar(field, value)

    @staticmethod
    def wrapped(field, contents):
        if field.type == Field.TYPE_GROUP:
            return tag(field.number, GROUP) + contents + tag(field.number, END_GROUP)
        return tag(field.number, LENGTH) + with_length(contents)

    def map(self, field, entries):
        entry_type = self.schema.message(field.type_name)
        key_field, value_field = entry_type.fields[1], entry_type.fields[2]
        by_key = {}
        for data in entries:
            entry = Message(self.schema, entry_type, data)
            key = entry.values.get(1, [self.default(key_field)])[0]
            value = entry.values.get(2, [self.default(value_field)])[0]
            sort_key = key
            if key_field.wire_type in (FIXED32, FIXED64):
                fmt = SIGNED_FORMATS.get(key_field.type)
                sort_key = (struct.unpack(fmt, key)[0] if fmt else int.from_bytes(key, "little"))
            by_key[sort_key] = self.element(key_field, key) + self.element(value_field, value)
        return b"".join(
            tag(field.number, LENGTH) + with_length(by_key[key]) for key in sorted(by_key))

    @staticmethod
    def default(field):
        return {VARINT: 0, FIXED32: bytes(4), FIXED64: bytes(8)}.get(field.wire_type, b"")

    def unknown(self, number, wire_type, value):
        start = tag(number, wire_type)
        if wire_type == VARINT:
            return start + varint(value)
        if wire_type == LENGTH:
            return start + with_length(value)
        if wire_type == GROUP:
            fields = sorted(read_fields(value), key=lambda field: field[0])
            contents = b"".join(self.unknown(*field) for field in fields)
            return start + contents + tag(number, END_GROUP)
        return start + value


# The fingerprint -----------------------------------------------------------


def length(data):
    return len(data).to_bytes(4, "big")


def canonical(schema, message_name, wire, key_field=""):
    path = tuple(key_field.split(".")) if key_field else ()
    return Canonical(schema).message(schema.message(message_name), wire, path)


def metadata_suffix(metadata):
    """`metadata` maps names to lists of values, both as bytes."""
    out = b"\0" if metadata else b""
    for name in sorted(metadata):
        values = metadata[name]
        out += length(name) + name + len(values).to_bytes(4, "big")
        out += b"".join(length(value) + value for value in values)
    return out


def digest(method, canonical_form, suffix=b""):
    return hashlib.sha256(length(method) + method + canonical_form + suffix).hexdigest()
