package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
)

const schema = `
CREATE TABLE IF NOT EXISTS idempotency_keys (
  method text NOT NULL,
  key text NOT NULL,
  request_hash bytea NOT NULL,
  created_at timestamptz NOT NULL DEFAULT now(),
  completed_at timestamptz,
  reply bytea,
  PRIMARY KEY (method, key)
)`

const (
	insertKey = `INSERT INTO idempotency_keys (method, key, request_hash) VALUES ($1, $2, $3)
ON CONFLICT DO NOTHING`
	selectReply = `SELECT request_hash, reply FROM idempotency_keys WHERE method = $1 AND key = $2`
	updateReply = `UPDATE idempotency_keys SET reply = $3, completed_at = now()
WHERE method = $1 AND key = $2`
	deleteKey = `DELETE FROM idempotency_keys WHERE method = $1 AND key = $2`
)

// Idempotency is the middleware that a team writes in an afternoon: a row before the handler runs,
// the reply in it afterwards, each in a transaction of its own. It has no lease, so a key whose
// server crashed stays in progress; no token, so nothing stops an attempt that was given up; no
// retention, and no scope of callers.
type Idempotency struct {
	pool *pgxpool.Pool
}

// Intercept passes calls without a key to the handler.
func (idempotency *Idempotency) Intercept(ctx context.Context, request any,
	info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
	key := keyOf(ctx)
	if key == "" {
		return handler(ctx, request)
	}
	hash, err := hashOf(request)
	if err != nil {
		return nil, err
	}
	inserted, err := idempotency.pool.Exec(ctx, insertKey, info.FullMethod, key, hash)
	if err != nil {
		return nil, status.Error(codes.Unavailable, "the table of keys cannot be reached")
	}
	if inserted.RowsAffected() == 0 {
		return idempotency.replay(ctx, info.FullMethod, key, hash)
	}
	return idempotency.run(ctx, request, info.FullMethod, key, handler)
}

func (idempotency *Idempotency) run(ctx context.Context, request any, method, key string,
	handler grpc.UnaryHandler) (any, error) {
	reply, err := handler(ctx, request)
	if err != nil {
		// Retries run the handler again.
		_, _ = idempotency.pool.Exec(ctx, deleteKey, method, key)
		return nil, err
	}
	encoded, err := proto.Marshal(reply.(proto.Message))
	if err != nil {
		return nil, err
	}
	if _, err := idempotency.pool.Exec(ctx, updateReply, method, key, encoded); err != nil {
		return nil, status.Error(codes.Unavailable, "the reply was not recorded")
	}
	return reply, nil
}

func (idempotency *Idempotency) replay(ctx context.Context, method, key string,
	hash []byte) (any, error) {
	var recorded, encoded []byte
	row := idempotency.pool.QueryRow(ctx, selectReply, method, key)
	if err := row.Scan(&recorded, &encoded); errors.Is(err, pgx.ErrNoRows) {
		return nil, status.Error(codes.Aborted, "the first call failed meanwhile: try again")
	} else if err != nil {
		return nil, status.Error(codes.Unavailable, "the table of keys cannot be reached")
	}
	if !bytes.Equal(recorded, hash) {
		return nil, status.Error(codes.InvalidArgument, "the key belongs to another request")
	}
	if encoded == nil {
		return nil, status.Error(codes.Aborted, "the first call is in progress")
	}
	reply, err := newReply(method)
	if err != nil {
		return nil, err
	}
	if err := proto.Unmarshal(encoded, reply); err != nil {
		return nil, err
	}
	return reply, grpc.SetTrailer(ctx, metadata.Pairs("idempotency-replayed", "true"))
}

func keyOf(ctx context.Context) string {
	if keys := metadata.ValueFromIncomingContext(ctx, "idempotency-key"); len(keys) > 0 {
		return keys[0]
	}
	return ""
}

func hashOf(request any) ([]byte, error) {
	encoded, err := proto.MarshalOptions{Deterministic: true}.Marshal(request.(proto.Message))
	if err != nil {
		return nil, err
	}
	hash := sha256.Sum256(encoded)
	return hash[:], nil
}

// newReply makes an empty message of the type that the method returns.
func newReply(method string) (proto.Message, error) {
	name := strings.ReplaceAll(strings.TrimPrefix(method, "/"), "/", ".")
	found, err := protoregistry.GlobalFiles.FindDescriptorByName(protoreflect.FullName(name))
	if err != nil {
		return nil, err
	}
	output := found.(protoreflect.MethodDescriptor).Output()
	kind, err := protoregistry.GlobalTypes.FindMessageByName(output.FullName())
	if err != nil {
		return nil, err
	}
	return kind.New().Interface(), nil
}
