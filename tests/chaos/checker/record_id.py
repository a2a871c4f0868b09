"""The id of a record, from its four parts as in include/grpc_idempotency/record_key.h."""

import hashlib
import re

_UUID7 = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}")


def record_id(namespace, scope, operation, key):
    """32 hexadecimal digits."""
    parts = [part.encode() for part in (namespace, scope, operation, key)]
    digest = hashlib.sha256(b"".join(len(part).to_bytes(4, "big") + part for part in parts))
    if _UUID7.fullmatch(key):
        time = bytearray.fromhex(key.replace("-", "")[:12])
        time[0] &= 0x7F
        return time.hex() + digest.hexdigest()[:20]
    bits = bytearray(digest.digest()[:16])
    bits[0] |= 0x80
    return bits.hex()
