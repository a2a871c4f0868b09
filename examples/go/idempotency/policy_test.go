package idempotency_test

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	pb "example.org/payments/gen/idempotencyv1"
	"example.org/payments/gen/paymentsv1"
	"example.org/payments/idempotency"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"
	"google.golang.org/protobuf/types/known/durationpb"
)

var vaults atomic.Int32

// vault is a service of its own proto, with one method, Open, of the messages of a charge.
type vault struct {
	desc *grpc.ServiceDesc
	name string
	runs atomic.Int32
	err  error
}

// newVault has these options; field options are of its own reply, with which it is not called.
func newVault(t *testing.T, options *descriptorpb.MethodOptions, field *descriptorpb.FieldOptions) *vault {
	t.Helper()
	pkg := fmt.Sprintf("vault.v%d", vaults.Add(1))
	output := ".payments.v1.ChargeReply"
	var messages []*descriptorpb.DescriptorProto
	if field != nil {
		output = "." + pkg + ".Outer"
		messages = []*descriptorpb.DescriptorProto{
			{Name: proto.String("Outer"), Field: []*descriptorpb.FieldDescriptorProto{{Name: proto.String("inner"),
				Number: proto.Int32(1), Type: descriptorpb.FieldDescriptorProto_TYPE_MESSAGE.Enum(),
				Label: descriptorpb.FieldDescriptorProto_LABEL_REPEATED.Enum(), TypeName: proto.String("." + pkg + ".Inner")}}},
			{Name: proto.String("Inner"), Field: []*descriptorpb.FieldDescriptorProto{{Name: proto.String("code"),
				Number: proto.Int32(1), Type: descriptorpb.FieldDescriptorProto_TYPE_STRING.Enum(),
				Label: descriptorpb.FieldDescriptorProto_LABEL_OPTIONAL.Enum(), Options: field}}}}
	}
	file, err := protodesc.NewFile(&descriptorpb.FileDescriptorProto{
		Name: proto.String(pkg + ".proto"), Package: proto.String(pkg), Syntax: proto.String("proto3"),
		Dependency: []string{paymentsv1.File_payments_proto.Path()}, MessageType: messages,
		Service: []*descriptorpb.ServiceDescriptorProto{{Name: proto.String("Vault"),
			Method: []*descriptorpb.MethodDescriptorProto{{Name: proto.String("Open"), Options: options,
				InputType: proto.String(".payments.v1.ChargeRequest"), OutputType: proto.String(output)}}}},
	}, protoregistry.GlobalFiles)
	if err != nil {
		t.Fatal(err)
	}
	if err := protoregistry.GlobalFiles.RegisterFile(file); err != nil {
		t.Fatal(err)
	}
	for i := range file.Messages().Len() {
		if err := protoregistry.GlobalTypes.RegisterMessage(dynamicpb.NewMessageType(file.Messages().Get(i))); err != nil {
			t.Fatal(err)
		}
	}
	made := &vault{name: "/" + pkg + ".Vault/Open"}
	made.desc = &grpc.ServiceDesc{ServiceName: pkg + ".Vault", HandlerType: (*any)(nil),
		Methods: []grpc.MethodDesc{{MethodName: "Open", Handler: made.open}}}
	return made
}

func (v *vault) open(_ any, ctx context.Context, decode func(any) error,
	interceptor grpc.UnaryServerInterceptor) (any, error) {
	request := new(paymentsv1.ChargeRequest)
	if err := decode(request); err != nil {
		return nil, err
	}
	return interceptor(ctx, request, &grpc.UnaryServerInfo{FullMethod: v.name}, func(context.Context, any) (any, error) {
		return &paymentsv1.ChargeReply{ChargeId: fmt.Sprint(v.runs.Add(1))}, v.err
	})
}

func withPolicy(policy *pb.Policy) *descriptorpb.MethodOptions {
	options := new(descriptorpb.MethodOptions)
	proto.SetExtension(options, pb.E_Policy, policy)
	return options
}

// startVault guards a vault.
func startVault(t *testing.T, made *vault, adjust func(*idempotency.Config)) *setup {
	t.Helper()
	return startWith(t, func(server *grpc.Server) { server.RegisterService(made.desc, made) },
		func(config *idempotency.Config) {
			config.Services = []*grpc.ServiceDesc{made.desc}
			if adjust != nil {
				adjust(config)
			}
		})
}

func (v *vault) call(s *setup, key string) error {
	ctx := s.t.Context()
	if key != "" {
		ctx = metadata.AppendToOutgoingContext(ctx, "idempotency-key", key)
	}
	return s.client.Invoke(ctx, v.name, order(500), new(paymentsv1.ChargeReply))
}

func (v *vault) record(s *setup, key string) *pb.Record {
	s.t.Helper()
	got, err := s.service.Get(s.t.Context(), &pb.GetRequest{RecordKey: &pb.RecordKey{
		Namespace: "payments", Scope: "tenant-1", Operation: v.name, Key: key}})
	if err != nil {
		s.t.Fatal(err)
	}
	return got.GetRecord()
}

func TestTheTermsOfARecordAreThoseOfThePolicy(t *testing.T) {
	t.Parallel()
	const day = 24 * time.Hour
	made := newVault(t, withPolicy(&pb.Policy{Retention: durationpb.New(7 * day), ReplyRetention: durationpb.New(time.Minute),
		Tombstone: durationpb.New(day), OnLeaseExpiry: pb.LeaseExpiry_LEASE_EXPIRY_REQUIRE_RECOVERY}), nil)
	s := startVault(t, made, func(config *idempotency.Config) { config.Retention = time.Hour })
	if err := made.call(s, "order-1"); err != nil {
		t.Fatal(err)
	}
	record := made.record(s, "order-1")
	if kept := record.GetExpiresAt().AsTime().Sub(record.GetCreatedAt().AsTime()); kept != 7*day {
		t.Error(kept)
	}
	s.advance(25 * time.Hour)
	s.refused(answer{err: made.call(s, "order-1")}, codes.FailedPrecondition, "REPLY_NOT_KEPT", "")
	s.advance(6 * day)
	s.refused(answer{err: made.call(s, "order-1")}, codes.FailedPrecondition, "KEY_EXPIRED", "")
	if runs := made.runs.Load(); runs != 1 {
		t.Errorf("%d runs", runs)
	}
}

func TestTheTermsOfTheConfigurationAreForMethodsWithoutAny(t *testing.T) {
	t.Parallel()
	s := start(t, func(config *idempotency.Config) {
		config.Retention = 48 * time.Hour
		config.ReplyRetention = time.Minute
		config.Tombstone = time.Hour
	})
	s.charge("order-1")
	record := s.record("order-1")
	if kept := record.GetExpiresAt().AsTime().Sub(record.GetCreatedAt().AsTime()); kept != 48*time.Hour {
		t.Error(kept)
	}
	s.advance(25 * time.Hour)
	s.refused(s.charge("order-1"), codes.FailedPrecondition, "REPLY_NOT_KEPT", "")
	s.advance(23 * time.Hour)
	s.refused(s.charge("order-1"), codes.FailedPrecondition, "KEY_EXPIRED", "")
	s.ran(1)
}

func TestACodeThatThePolicyReleasesRunsAgain(t *testing.T) {
	t.Parallel()
	made := newVault(t, withPolicy(&pb.Policy{Released: []pb.StatusCode{pb.StatusCode_STATUS_CODE_ABORTED}}), nil)
	made.err = status.Error(codes.Aborted, "the vault is closed")
	s := startVault(t, made, nil)
	for range 2 {
		if err := made.call(s, "order-1"); status.Code(err) != codes.Aborted {
			t.Error(err)
		}
	}
	if runs := made.runs.Load(); runs != 2 {
		t.Errorf("%d runs", runs)
	}
}

func TestMethodsThatNeedNoKey(t *testing.T) {
	t.Parallel()
	level := descriptorpb.MethodOptions_NO_SIDE_EFFECTS
	for name, options := range map[string]*descriptorpb.MethodOptions{
		"KEY_NONE":        withPolicy(&pb.Policy{Key: pb.Policy_KEY_NONE, KeyField: "account"}),
		"KEY_OPTIONAL":    withPolicy(&pb.Policy{Key: pb.Policy_KEY_OPTIONAL}),
		"NO_SIDE_EFFECTS": {IdempotencyLevel: &level},
	} {
		made := newVault(t, options, nil)
		s := startVault(t, made, nil)
		for range 2 {
			if err := made.call(s, ""); err != nil {
				t.Error(name, err)
			}
		}
		if runs := made.runs.Load(); runs != 2 {
			t.Errorf("%s: %d runs", name, runs)
		}
	}
	made := newVault(t, withPolicy(&pb.Policy{Key: pb.Policy_KEY_OPTIONAL}), nil)
	s := startVault(t, made, nil)
	for range 2 {
		if err := made.call(s, "order-1"); err != nil {
			t.Error(err)
		}
	}
	if runs := made.runs.Load(); runs != 1 {
		t.Errorf("%d runs", runs)
	}
}

func TestOtherServicesOfTheServer(t *testing.T) {
	t.Parallel()
	other := newVault(t, nil, nil)
	s := startWith(t, func(server *grpc.Server) {
		healthpb.RegisterHealthServer(server, health.NewServer())
		server.RegisterService(other.desc, other)
	}, nil)
	if _, err := healthpb.NewHealthClient(s.client).Check(t.Context(), &healthpb.HealthCheckRequest{}); err != nil {
		t.Error(err)
	}
	if err := other.call(s, "order-1"); status.Code(err) != codes.Internal || other.runs.Load() != 0 { // unguarded by mistake
		t.Error(err)
	}
}

func TestAPolicyThatIsNotObeyedIsRefused(t *testing.T) {
	t.Parallel()
	redacting := new(descriptorpb.FieldOptions)
	proto.SetExtension(redacting, pb.E_Reply, pb.FieldPolicy_REPLY_REDACT)
	for name, made := range map[string]*vault{
		"REPLY_REDACT":         newVault(t, nil, redacting),
		"reply":                newVault(t, withPolicy(&pb.Policy{Reply: pb.Policy_REPLY_STATUS_ONLY}), nil),
		"key_field":            newVault(t, withPolicy(&pb.Policy{KeyField: "account"}), nil),
		"fingerprint_metadata": newVault(t, withPolicy(&pb.Policy{FingerprintMetadata: []string{"x-version"}}), nil),
		"recorded":             newVault(t, withPolicy(&pb.Policy{Recorded: []pb.StatusCode{pb.StatusCode_STATUS_CODE_ABORTED}}), nil),
		"indefinite":           newVault(t, withPolicy(&pb.Policy{Indefinite: []pb.StatusCode{pb.StatusCode_STATUS_CODE_NOT_FOUND}}), nil),
		"fail_open":            newVault(t, withPolicy(&pb.Policy{FailOpen: true}), nil),
		"on_lease_expiry":      newVault(t, withPolicy(&pb.Policy{OnLeaseExpiry: pb.LeaseExpiry_LEASE_EXPIRY_TAKE_OVER}), nil),
		"Unavailable":          newVault(t, withPolicy(&pb.Policy{Released: []pb.StatusCode{pb.StatusCode_STATUS_CODE_UNAVAILABLE}}), nil),
		"retention":            newVault(t, withPolicy(&pb.Policy{Retention: durationpb.New(time.Second)}), nil),
		"descriptor":           {desc: &grpc.ServiceDesc{ServiceName: "no.such.Service"}},
	} {
		config := idempotency.Config{
			Service:   pb.NewIdempotencyServiceClient(nil),
			Namespace: "payments",
			Services:  []*grpc.ServiceDesc{made.desc},
			Scope:     func(context.Context) (string, error) { return "tenant-1", nil },
		}
		if _, err := idempotency.New(config); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
		config.Unguarded = []string{made.name}
		if _, err := idempotency.New(config); err != nil && name != "descriptor" {
			t.Errorf("%s, without a guard: %v", name, err)
		}
	}
}
