package idempotency

import (
	"encoding/hex"
	"encoding/json"
	"os"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"
)

// The vectors of docs/fingerprint.md; test.sh makes the descriptors of their messages.
func TestFingerprintVectors(t *testing.T) {
	vectors, descriptors := os.Getenv("FINGERPRINT_VECTORS"), os.Getenv("FINGERPRINT_DESCRIPTORS")
	if vectors == "" || descriptors == "" {
		t.Skip("FINGERPRINT_VECTORS and FINGERPRINT_DESCRIPTORS are not set")
	}
	var set descriptorpb.FileDescriptorSet
	if err := proto.Unmarshal(read(t, descriptors), &set); err != nil {
		t.Fatal(err)
	}
	files, err := protodesc.NewFiles(&set)
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Vectors []struct {
			Name, Method, Message, Wire, Canonical, Digest string
			KeyField                                       string `json:"key_field"`
			Metadata                                       any
		}
	}
	if err := json.Unmarshal(read(t, vectors), &file); err != nil {
		t.Fatal(err)
	}
	tested := 0
	for _, vector := range file.Vectors {
		if vector.KeyField != "" || vector.Metadata != nil {
			continue
		}
		tested++
		descriptor, err := files.FindDescriptorByName(protoreflect.FullName(vector.Message))
		if err != nil {
			t.Fatal(err)
		}
		for _, wire := range []string{vector.Wire, vector.Canonical} {
			request := dynamicpb.NewMessage(descriptor.(protoreflect.MessageDescriptor))
			parser := proto.UnmarshalOptions{Resolver: dynamicpb.NewTypes(files)}
			if err := parser.Unmarshal(decoded(t, wire), request); err != nil {
				t.Fatalf("%s: %v", vector.Name, err)
			}
			fingerprint, err := Fingerprint(vector.Method, request)
			if err != nil {
				t.Fatalf("%s: %v", vector.Name, err)
			}
			if got := hex.EncodeToString(fingerprint.GetDigest()); got != vector.Digest {
				t.Errorf("%s of %s: %s, want %s", vector.Name, wire, got, vector.Digest)
			}
		}
	}
	if tested < 40 {
		t.Errorf("%d vectors were tested", tested)
	}
}

func read(t *testing.T, path string) []byte {
	t.Helper()
	contents, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return contents
}

func decoded(t *testing.T, text string) []byte {
	t.Helper()
	value, err := hex.DecodeString(text)
	if err != nil {
		t.Fatal(err)
	}
	return value
}
