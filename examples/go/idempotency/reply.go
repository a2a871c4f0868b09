package idempotency

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	pb "example.org/payments/gen/idempotencyv1"
	statuspb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/emptypb"
	"google.golang.org/protobuf/types/known/timestamppb"
)

const (
	maxReplyBytes   = 8 << 20
	maxMessageBytes = 1 << 10 // of a reply that is recorded without its content
)

// sentMetadata holds back the metadata of a handler until its reply is recorded.
type sentMetadata struct {
	method          string
	mutex           sync.Mutex
	header, trailer metadata.MD
}

// Method implements grpc.ServerTransportStream.
func (s *sentMetadata) Method() string { return s.method }

// SetHeader implements grpc.ServerTransportStream.
func (s *sentMetadata) SetHeader(md metadata.MD) error {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	for name, values := range md {
		s.header.Append(name, values...) // in lower case
	}
	return nil
}

// SendHeader implements grpc.ServerTransportStream.
func (s *sentMetadata) SendHeader(md metadata.MD) error { return s.SetHeader(md) }

// SetTrailer implements grpc.ServerTransportStream.
func (s *sentMetadata) SetTrailer(md metadata.MD) error {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	for name, values := range md {
		s.trailer.Append(name, values...)
	}
	return nil
}

// reply makes the reply of a handler, as its caller and all retries get it.
func (s *sentMetadata) reply(response any, err error) (*pb.Reply, error) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	reply := &pb.Reply{InitialMetadata: toEntries(s.header), TrailingMetadata: toEntries(s.trailer),
		Content: pb.ReplyContent_REPLY_CONTENT_FULL}
	if err == nil {
		message, ok := response.(proto.Message)
		if !ok {
			return nil, fmt.Errorf("the response is a %T, no message of protobuf", response)
		}
		body, err := proto.Marshal(message)
		if err != nil {
			return nil, fmt.Errorf("serialise the response: %w", err)
		}
		reply.Body = append([]byte{}, body...) // not nil: also an empty body is one
		return reply, nil
	}
	failure, ok := status.FromError(err)
	if !ok {
		failure = status.FromContextError(err) // as gRPC does
	}
	if failure.Code() == codes.OK { // an empty reply would be replayed
		return nil, errors.New("the error of the handler has the code OK")
	}
	message := failure.Proto()
	message.Message = strings.ToValidUTF8(message.GetMessage(), "\uFFFD")
	reply.Code, reply.Message = message.GetCode(), message.GetMessage()
	if len(message.GetDetails()) > 0 {
		details, err := proto.Marshal(message)
		if err != nil {
			return nil, fmt.Errorf("serialise the status: %w", err)
		}
		reply.Details = details
	}
	return reply, nil
}

// pushback is the delay that the handler requests of its caller, for a status that is not recorded.
func (s *sentMetadata) pushback() []string {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if values := s.trailer.Get(pushback); len(values) > 0 {
		return []string{pushback, values[len(values)-1]}
	}
	return nil
}

// recorded is the reply as it is recorded: without its content if it is too large.
func recorded(reply *pb.Reply) *pb.Reply {
	if proto.Size(reply) <= maxReplyBytes {
		return reply
	}
	return withoutContent(reply)
}

func withoutContent(reply *pb.Reply) *pb.Reply {
	message := reply.GetMessage()
	message = strings.ToValidUTF8(message[:min(len(message), maxMessageBytes)], "")
	return &pb.Reply{Code: reply.GetCode(), Message: message, Content: pb.ReplyContent_REPLY_CONTENT_STATUS_ONLY}
}

// replay answers with a recorded reply, as its content requires (rule 2).
func replay(ctx context.Context, method *method, record string, replay *pb.Replay) (any, error) {
	reply := replay.GetReply()
	marks := append(entries(record, replay.GetExpiresAt()), "idempotency-replayed", "true")
	switch reply.GetContent() {
	case pb.ReplyContent_REPLY_CONTENT_UNSPECIFIED, pb.ReplyContent_REPLY_CONTENT_FULL:
	case pb.ReplyContent_REPLY_CONTENT_REDACTED:
		marks = append(marks, "idempotency-content", "redacted")
	default:
		if reply.GetCode() == 0 { // an empty reply would be a wrong one
			return nil, refusal{code: codes.FailedPrecondition, reason: "REPLY_NOT_KEPT",
				message:  "the operation has run; its reply is not kept",
				metadata: map[string]string{"original_code": "0"}}.send(ctx, record)
		}
		if reply.GetContent() == pb.ReplyContent_REPLY_CONTENT_STATUS_ONLY {
			marks = append(marks, "idempotency-content", "status-only")
		}
	}
	return answer(ctx, method, reply, marks...)
}

// answer ends a call with a reply and further trailers.
func answer(ctx context.Context, method *method, reply *pb.Reply, trailers ...string) (any, error) {
	// Both fail only if the call has ended: nobody is there to get them.
	_ = grpc.SetHeader(ctx, toMetadata(reply.GetInitialMetadata()))
	_ = grpc.SetTrailer(ctx, metadata.Join(toMetadata(reply.GetTrailingMetadata()), metadata.Pairs(trailers...)))
	if reply.GetCode() == 0 {
		if !isProto(ctx) {
			body := method.reply.New().Interface()
			return body, proto.Unmarshal(reply.GetBody(), body)
		}
		// Unknown fields are written as they are: the caller gets the recorded bytes.
		body := new(emptypb.Empty)
		body.ProtoReflect().SetUnknown(reply.GetBody())
		return body, nil
	}
	if len(reply.GetDetails()) > 0 {
		failure := new(statuspb.Status)
		if err := proto.Unmarshal(reply.GetDetails(), failure); err == nil && failure.GetCode() == reply.GetCode() {
			return nil, status.FromProto(failure).Err()
		}
	}
	return nil, status.Error(codes.Code(reply.GetCode()), reply.GetMessage())
}

// isProto reports whether the call's codec is that of protobuf. Another one, such as JSON, writes no
// unknown fields.
func isProto(ctx context.Context) bool {
	for _, contentType := range metadata.ValueFromIncomingContext(ctx, "content-type") {
		subtype := strings.ToLower(strings.TrimPrefix(contentType, "application/grpc"))
		subtype, _, _ = strings.Cut(strings.TrimLeft(subtype, "+;"), ";")
		return subtype == "" || subtype == "proto"
	}
	return true
}

// entries are the trailers of a status that is recorded.
func entries(record string, expires *timestamppb.Timestamp) []string {
	return []string{"idempotency-record", record, "idempotency-expires", expires.AsTime().Format(time.RFC3339)}
}

// toEntries leaves out the entries with which Complete would be refused, after the effect (rule 4).
func toEntries(md metadata.MD) []*pb.MetadataEntry {
	var entries []*pb.MetadataEntry
	for _, name := range slices.Sorted(maps.Keys(md)) {
		if isReserved(name) || !isName(name) {
			continue
		}
		for _, value := range md[name] {
			if !strings.HasSuffix(name, "-bin") && !isPrintable(value) {
				continue
			}
			entries = append(entries, &pb.MetadataEntry{Key: name, Value: []byte(value)})
		}
	}
	return entries
}

func toMetadata(entries []*pb.MetadataEntry) metadata.MD {
	md := metadata.MD{}
	for _, entry := range entries {
		if !isReserved(entry.GetKey()) {
			md.Append(entry.GetKey(), string(entry.GetValue()))
		}
	}
	return md
}

// isReserved reports whether an entry is of gRPC or of the guard, not of the handler.
func isReserved(name string) bool {
	return strings.HasPrefix(name, "grpc-") || strings.HasPrefix(name, "idempotency-")
}

func isName(name string) bool {
	return name != "" && strings.Trim(name, "abcdefghijklmnopqrstuvwxyz0123456789-_.") == ""
}

func isPrintable(value string) bool {
	return !strings.ContainsFunc(value, func(r rune) bool { return r < ' ' || r > '~' })
}
