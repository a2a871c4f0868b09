package idempotency

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	pb "example.org/payments/gen/idempotencyv1"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// maxDepth is that of docs/fingerprint.md. Go's own parser reads deeper messages.
const maxDepth = 100

// Fingerprint is version 1 of docs/fingerprint.md, without a key field and without metadata. Equal
// requests get equal fingerprints from each build and in each language; the output of proto.Marshal
// depends on the order of map entries, and that of MarshalOptions.Deterministic on the library.
func Fingerprint(method string, request proto.Message) (*pb.Fingerprint, error) {
	var w backward
	if err := w.message(request.ProtoReflect(), 0); err != nil {
		return nil, fmt.Errorf("fingerprint of %s: %w", method, err)
	}
	slices.Reverse(w.out)
	hash := sha256.New()
	hash.Write(binary.BigEndian.AppendUint32(nil, uint32(len(method))))
	hash.Write([]byte(method))
	hash.Write(w.out)
	return &pb.Fingerprint{Version: 1, Digest: hash.Sum(nil)}, nil
}

// backward writes the canonical form from its end: the length of a message is known then when it
// is written, and nothing is copied again for each level.
type backward struct {
	out []byte // in reverse
}

func (w *backward) bytes(value []byte) {
	start := len(w.out)
	w.out = append(w.out, value...)
	slices.Reverse(w.out[start:])
}

func (w *backward) varint(value uint64) {
	var room [binary.MaxVarintLen64]byte
	w.bytes(protowire.AppendVarint(room[:0], value))
}

func (w *backward) tag(number protowire.Number, wire protowire.Type) {
	w.varint(protowire.EncodeTag(number, wire))
}

// length writes the length of everything since start.
func (w *backward) length(start int) {
	w.varint(uint64(len(w.out) - start))
}

// part is one field of a message: a known one with its value, or an unknown one with its bytes.
type part struct {
	number protowire.Number
	field  protoreflect.FieldDescriptor
	value  protoreflect.Value
	wire   protowire.Type
	raw    []byte
}

func (w *backward) message(message protoreflect.Message, depth int) error {
	if depth > maxDepth {
		return errors.New("the message is nested too deeply")
	}
	parts, err := unknownParts(message.GetUnknown())
	if err != nil {
		return err
	}
	message.Range(func(field protoreflect.FieldDescriptor, value protoreflect.Value) bool {
		switch {
		case excluded(field):
		case undefined(field, value):
			raw := protowire.AppendVarint(nil, uint64(int64(value.Enum())))
			parts = append(parts, part{number: field.Number(), wire: protowire.VarintType, raw: raw})
		default:
			parts = append(parts, part{number: field.Number(), field: field, value: value})
		}
		return true
	})
	sortParts(parts)
	for _, one := range slices.Backward(parts) {
		if err := w.part(one, depth); err != nil {
			return err
		}
	}
	return nil
}

// sortParts sorts by number, known fields before unknown ones.
func sortParts(parts []part) {
	slices.SortStableFunc(parts, func(a, b part) int {
		if order := cmp.Compare(a.number, b.number); order != 0 || (a.field == nil) == (b.field == nil) {
			return order
		}
		if a.field != nil {
			return -1
		}
		return 1
	})
}

func (w *backward) part(one part, depth int) error {
	switch {
	case one.field == nil:
		return w.unknown(one, depth)
	case one.field.IsMap():
		return w.entries(one.field, one.value.Map(), depth)
	case one.field.IsList():
		return w.list(one.field, one.value.List(), depth)
	default:
		return w.single(one.number, one.field, one.value, depth)
	}
}

func (w *backward) list(field protoreflect.FieldDescriptor, list protoreflect.List, depth int) error {
	wire := wireType(field.Kind())
	if wire == protowire.BytesType || wire == protowire.StartGroupType {
		for i := list.Len() - 1; i >= 0; i-- {
			if err := w.single(field.Number(), field, list.Get(i), depth); err != nil {
				return err
			}
		}
		return nil
	}
	// Packed; values that a closed enum does not define follow, as unknown fields.
	for i := list.Len() - 1; i >= 0; i-- {
		if value := list.Get(i); undefined(field, value) {
			w.scalar(field.Kind(), value)
			w.tag(field.Number(), protowire.VarintType)
		}
	}
	start := len(w.out)
	for i := list.Len() - 1; i >= 0; i-- {
		if value := list.Get(i); !undefined(field, value) {
			w.scalar(field.Kind(), value)
		}
	}
	if len(w.out) > start {
		w.length(start)
		w.tag(field.Number(), protowire.BytesType)
	}
	return nil
}

func (w *backward) entries(field protoreflect.FieldDescriptor, entries protoreflect.Map, depth int) error {
	if depth+1 > maxDepth {
		return errors.New("the message is nested too deeply")
	}
	keys := make([]protoreflect.MapKey, 0, entries.Len())
	for key := range entries.Range {
		keys = append(keys, key)
	}
	slices.SortFunc(keys, compareKeys)
	for _, key := range slices.Backward(keys) {
		start := len(w.out)
		if err := w.single(2, field.MapValue(), entries.Get(key), depth+1); err != nil {
			return err
		}
		if err := w.single(1, field.MapKey(), key.Value(), depth+1); err != nil {
			return err
		}
		w.length(start)
		w.tag(field.Number(), protowire.BytesType)
	}
	return nil
}

func compareKeys(a, b protoreflect.MapKey) int {
	switch first := a.Interface().(type) {
	case bool:
		if first == b.Bool() {
			return 0
		}
		if first {
			return 1
		}
		return -1
	case string:
		return strings.Compare(first, b.String())
	case int32, int64:
		return cmp.Compare(a.Int(), b.Int())
	default:
		return cmp.Compare(a.Uint(), b.Uint())
	}
}

// single writes one value with its tag.
func (w *backward) single(number protowire.Number, field protoreflect.FieldDescriptor, value protoreflect.Value,
	depth int) error {
	start := len(w.out)
	switch field.Kind() {
	case protoreflect.MessageKind:
		if err := w.message(value.Message(), depth+1); err != nil {
			return err
		}
		w.length(start)
	case protoreflect.GroupKind:
		w.tag(number, protowire.EndGroupType)
		if err := w.message(value.Message(), depth+1); err != nil {
			return err
		}
	default:
		w.scalar(field.Kind(), value)
	}
	w.tag(number, wireType(field.Kind()))
	return nil
}

func (w *backward) scalar(kind protoreflect.Kind, value protoreflect.Value) {
	switch kind {
	case protoreflect.BoolKind:
		w.varint(protowire.EncodeBool(value.Bool()))
	case protoreflect.EnumKind:
		w.varint(uint64(int64(value.Enum())))
	case protoreflect.Int32Kind, protoreflect.Int64Kind:
		w.varint(uint64(value.Int()))
	case protoreflect.Uint32Kind, protoreflect.Uint64Kind:
		w.varint(value.Uint())
	case protoreflect.Sint32Kind, protoreflect.Sint64Kind:
		w.varint(protowire.EncodeZigZag(value.Int()))
	case protoreflect.Fixed32Kind:
		w.bytes(binary.LittleEndian.AppendUint32(nil, uint32(value.Uint())))
	case protoreflect.Sfixed32Kind:
		w.bytes(binary.LittleEndian.AppendUint32(nil, uint32(value.Int())))
	case protoreflect.Fixed64Kind:
		w.bytes(binary.LittleEndian.AppendUint64(nil, value.Uint()))
	case protoreflect.Sfixed64Kind:
		w.bytes(binary.LittleEndian.AppendUint64(nil, uint64(value.Int())))
	case protoreflect.FloatKind:
		bits := math.Float32bits(float32(value.Float()))
		if math.IsNaN(value.Float()) {
			bits = 0x7FC00000
		}
		w.bytes(binary.LittleEndian.AppendUint32(nil, bits))
	case protoreflect.DoubleKind:
		bits := math.Float64bits(value.Float())
		if math.IsNaN(value.Float()) {
			bits = 0x7FF8000000000000
		}
		w.bytes(binary.LittleEndian.AppendUint64(nil, bits))
	case protoreflect.StringKind:
		w.bytes([]byte(value.String()))
		w.varint(uint64(len(value.String())))
	case protoreflect.BytesKind:
		w.bytes(value.Bytes())
		w.varint(uint64(len(value.Bytes())))
	}
}

func wireType(kind protoreflect.Kind) protowire.Type {
	switch kind {
	case protoreflect.Fixed32Kind, protoreflect.Sfixed32Kind, protoreflect.FloatKind:
		return protowire.Fixed32Type
	case protoreflect.Fixed64Kind, protoreflect.Sfixed64Kind, protoreflect.DoubleKind:
		return protowire.Fixed64Type
	case protoreflect.StringKind, protoreflect.BytesKind, protoreflect.MessageKind:
		return protowire.BytesType
	case protoreflect.GroupKind:
		return protowire.StartGroupType
	default:
		return protowire.VarintType
	}
}

// excluded reports whether the field's proto excludes it.
func excluded(field protoreflect.FieldDescriptor) bool {
	return proto.GetExtension(field.Options(), pb.E_Fingerprint) == pb.FieldPolicy_FINGERPRINT_EXCLUDE
}

// undefined reports whether value is one that the closed enum of proto2 does not define. Go keeps it
// in the field; for the canonical form it is an unknown field.
func undefined(field protoreflect.FieldDescriptor, value protoreflect.Value) bool {
	if field.Kind() != protoreflect.EnumKind || !field.Enum().IsClosed() {
		return false
	}
	number, single := value.Interface().(protoreflect.EnumNumber)
	return single && field.Enum().Values().ByNumber(number) == nil
}

func unknownParts(raw []byte) ([]part, error) {
	var parts []part
	for len(raw) > 0 {
		number, wire, size := protowire.ConsumeTag(raw)
		if size < 0 {
			return nil, fmt.Errorf("an unknown field: %w", protowire.ParseError(size))
		}
		raw = raw[size:]
		if size = protowire.ConsumeFieldValue(number, wire, raw); size < 0 {
			return nil, fmt.Errorf("the unknown field %d: %w", number, protowire.ParseError(size))
		}
		parts = append(parts, part{number: number, wire: wire, raw: raw[:size]})
		raw = raw[size:]
	}
	return parts, nil
}

func (w *backward) unknown(one part, depth int) error {
	switch one.wire {
	case protowire.VarintType:
		value, _ := protowire.ConsumeVarint(one.raw)
		w.varint(value)
	case protowire.BytesType:
		value, _ := protowire.ConsumeBytes(one.raw)
		w.bytes(value)
		w.varint(uint64(len(value)))
	case protowire.StartGroupType:
		if depth+1 > maxDepth {
			return errors.New("the message is nested too deeply")
		}
		contents, _ := protowire.ConsumeGroup(one.number, one.raw)
		parts, err := unknownParts(contents)
		if err != nil {
			return err
		}
		sortParts(parts)
		w.tag(one.number, protowire.EndGroupType)
		for _, inner := range slices.Backward(parts) {
			if err := w.unknown(inner, depth+1); err != nil {
				return err
			}
		}
	default:
		w.bytes(one.raw)
	}
	w.tag(one.number, one.wire)
	return nil
}
