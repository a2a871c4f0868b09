package idempotency

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	pb "example.org/payments/gen/idempotencyv1"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/known/durationpb"
)

// unguardedServices have no effects, and their callers no keys.
var unguardedServices = []string{"/grpc.health.v1.Health/", "/grpc.channelz.v1.Channelz/"}

// supported are the fields of a policy that this guard obeys, or for which its configuration stands.
var supported = []protoreflect.Name{"key", "retention", "reply_retention", "tombstone", "released",
	"lease", "max_lease", "in_flight", "max_wait", "cancel_when_lost"}

// method is a unary method of the server, with the policy of its proto.
type method struct {
	reply                                protoreflect.MessageType
	key                                  pb.Policy_Key
	retention, replyRetention, tombstone *durationpb.Duration
	released                             []codes.Code
}

// methodsOf returns the methods by their full names.
func methodsOf(config *Config) (map[string]*method, error) {
	methods := map[string]*method{}
	for _, service := range config.Services {
		found, err := protoregistry.GlobalFiles.FindDescriptorByName(protoreflect.FullName(service.ServiceName))
		descriptor, ok := found.(protoreflect.ServiceDescriptor)
		if err != nil || !ok {
			return nil, fmt.Errorf("the service %s has no descriptor", service.ServiceName)
		}
		for _, stream := range service.Streams {
			policy, _ := policyOf(descriptor.Methods().ByName(protoreflect.Name(stream.StreamName)))
			if policy.GetKey() == pb.Policy_KEY_REQUIRED || policy.GetKey() == pb.Policy_KEY_OPTIONAL {
				return nil, fmt.Errorf("%s/%s: streams are not guarded", service.ServiceName, stream.StreamName)
			}
		}
		for _, unary := range service.Methods {
			name := fmt.Sprintf("/%s/%s", service.ServiceName, unary.MethodName)
			made, err := config.method(name, descriptor.Methods().ByName(protoreflect.Name(unary.MethodName)))
			if err != nil {
				return nil, fmt.Errorf("%s: %w", name, err)
			}
			methods[name] = made
		}
	}
	for name := range config.Released {
		if methods[name] == nil {
			return nil, fmt.Errorf("Released: %s is of none of the Services", name)
		}
	}
	if len(methods) == 0 {
		return nil, errors.New("Services have no unary methods")
	}
	return methods, nil
}

func policyOf(descriptor protoreflect.MethodDescriptor) (*pb.Policy, pb.Policy_Key) {
	policy, _ := proto.GetExtension(descriptor.Options(), pb.E_Policy).(*pb.Policy)
	key := policy.GetKey()
	options, _ := descriptor.Options().(*descriptorpb.MethodOptions)
	if key == pb.Policy_KEY_UNSPECIFIED && options.GetIdempotencyLevel() != descriptorpb.MethodOptions_IDEMPOTENCY_UNKNOWN {
		key = pb.Policy_KEY_NONE
	}
	return policy, key
}

// method reads the policy of a method, and refuses one that this guard would not obey.
func (c *Config) method(name string, descriptor protoreflect.MethodDescriptor) (*method, error) {
	policy, key := policyOf(descriptor)
	made := &method{key: key, retention: termOf(policy.GetRetention(), c.Retention),
		replyRetention: termOf(policy.GetReplyRetention(), c.ReplyRetention),
		tombstone:      termOf(policy.GetTombstone(), c.Tombstone),
		released:       slices.Clone(c.Released[name])}
	if slices.Contains(c.Unguarded, name) {
		made.key = pb.Policy_KEY_NONE
	}
	if made.key == pb.Policy_KEY_NONE {
		return made, nil
	}
	if err := check(policy); err != nil {
		return nil, err
	}
	if field := redacted(descriptor.Output(), map[protoreflect.FullName]bool{}); field != "" {
		return nil, fmt.Errorf("the field %s of the reply has REPLY_REDACT, which this guard does not obey", field)
	}
	for _, code := range policy.GetReleased() {
		made.released = append(made.released, codes.Code(code)) // of gRPC's own numbers
	}
	for _, code := range made.released {
		if !canBeReleased(code) {
			return nil, fmt.Errorf("%v cannot be released", code)
		}
	}
	if made.retention != nil && made.retention.AsDuration() < c.Lease {
		return nil, fmt.Errorf("the retention is %v, and has to be Lease (%v) at least", made.retention.AsDuration(), c.Lease)
	}
	var err error
	made.reply, err = protoregistry.GlobalTypes.FindMessageByName(descriptor.Output().FullName())
	return made, err
}

func termOf(policy *durationpb.Duration, config time.Duration) *durationpb.Duration {
	if policy == nil && config != 0 {
		return durationpb.New(config)
	}
	return policy
}

// check refuses a policy with a field that this guard does not obey.
func check(policy *pb.Policy) error {
	var refused error
	policy.ProtoReflect().Range(func(field protoreflect.FieldDescriptor, _ protoreflect.Value) bool {
		switch {
		case slices.Contains(supported, field.Name()):
		case field.Name() == "on_lease_expiry" && policy.GetOnLeaseExpiry() == pb.LeaseExpiry_LEASE_EXPIRY_REQUIRE_RECOVERY:
		case field.Name() == "reply" && policy.GetReply() == pb.Policy_REPLY_FULL:
		default:
			refused = fmt.Errorf("its policy sets %s, which this guard does not obey", field.Name())
		}
		return refused == nil
	})
	if len(policy.ProtoReflect().GetUnknown()) > 0 {
		return errors.New("its policy has a field of a newer version")
	}
	return refused
}

// redacted is the name of a field, at any depth, that must not be stored.
func redacted(message protoreflect.MessageDescriptor, seen map[protoreflect.FullName]bool) protoreflect.FullName {
	if message == nil || seen[message.FullName()] {
		return ""
	}
	seen[message.FullName()] = true
	for i := range message.Fields().Len() {
		field := message.Fields().Get(i)
		if proto.GetExtension(field.Options(), pb.E_Reply) == pb.FieldPolicy_REPLY_REDACT {
			return field.FullName()
		}
		if found := redacted(field.Message(), seen); found != "" {
			return found
		}
	}
	return ""
}

// isUnguarded reports whether a call runs without a record.
func (g *Guard) isUnguarded(ctx context.Context, name string, method *method) bool {
	if slices.Contains(g.config.Unguarded, name) {
		return true
	}
	if method == nil {
		return slices.ContainsFunc(unguardedServices, func(service string) bool { return strings.HasPrefix(name, service) })
	}
	return method.key == pb.Policy_KEY_NONE ||
		method.key == pb.Policy_KEY_OPTIONAL && len(metadata.ValueFromIncomingContext(ctx, "idempotency-key")) == 0
}

// releases reports whether a reply states that nothing happened.
func (m *method) releases(reply *pb.Reply) bool {
	code := codes.Code(reply.GetCode())
	return slices.Contains(m.released, code) && !isOverSizeLimit(code, reply.GetMessage())
}
