package idempotency

import (
	"context"
	"strings"

	"github.com/google/uuid"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
)

const (
	maxKeyBytes = 255
)

// keyOf returns the key of a call (docs/keys.md), or the status that refuses the call.
func keyOf(ctx context.Context) (string, error) {
	values := metadata.ValueFromIncomingContext(ctx, "idempotency-key")
	if len(values) == 0 {
		return "", refusal{code: codes.InvalidArgument, reason: "KEY_MISSING",
			message: "send an idempotency-key"}.send(ctx, "")
	}
	first, ok := parsedKey(values[0])
	for _, value := range values[1:] {
		if key, valid := parsedKey(value); !valid || key != first {
			ok = false
		}
	}
	if !ok {
		return "", refusal{code: codes.InvalidArgument, reason: "KEY_INVALID",
			message: "the idempotency-key is malformed, or there are several"}.send(ctx, "")
	}
	return first, nil
}

// parsedKey returns the key of an entry, bare or quoted; UUIDs in lower case.
func parsedKey(value string) (string, bool) {
	key := value
	if strings.HasPrefix(value, `"`) {
		if key = unquoted(value); key == "" {
			return "", false
		}
	} else if strings.ContainsAny(value, `",`) {
		return "", false
	}
	if key == "" || len(key) > maxKeyBytes {
		return "", false
	}
	for _, one := range []byte(key) {
		if one < '!' || one > '~' {
			return "", false
		}
	}
	if len(key) == len(uuid.Nil.String()) && uuid.Validate(key) == nil {
		key = strings.ToLower(key)
	}
	return key, true
}

// unquoted is empty for a malformed string of RFC 8941.
func unquoted(value string) string {
	var key []byte
	for at := 1; at < len(value); at++ {
		switch one := value[at]; {
		case one == '"' && at == len(value)-1:
			return string(key)
		case one == '"':
			return ""
		case one == '\\':
			if at++; at == len(value) || (value[at] != '"' && value[at] != '\\') {
				return ""
			}
		}
		key = append(key, value[at])
	}
	return ""
}
