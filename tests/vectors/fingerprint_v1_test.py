#!/usr/bin/env python3
"""Checks fingerprint_v1.py against the vectors, and the C++ against it.

usage: fingerprint_v1_test.py VECTORS_JSON DESCRIPTOR_SET SAMPLES_PROGRAM [SEED]
"""

import json
import os
import subprocess
import sys

import fingerprint_v1 as v1

SAMPLES = 5000


def main(vectors_path, descriptor_set_path, samples_program, seed=None):
    with open(descriptor_set_path, "rb") as file:
        schema = v1.Schema(file.read())
    with open(vectors_path, encoding="utf-8") as file:
        vectors = json.load(file)["vectors"]
    failures = [failure for vector in vectors for failure in check_vector(schema, vector)]
    print(f"{len(vectors)} vectors")

    seed = seed or str(int.from_bytes(os.urandom(4), "big"))
    print(f"{SAMPLES} random requests, seed {seed}")
    lines = subprocess.run([samples_program, seed, str(SAMPLES)], check=True, timeout=60,
                           stdout=subprocess.PIPE, text=True).stdout.splitlines()
    if len(lines) != SAMPLES:
        failures.append(f"{len(lines)} samples came")
    failures += [failure for line in lines for failure in check_sample(schema, json.loads(line))]

    for failure in failures[:20]:
        print(failure, file=sys.stderr)
    return 1 if failures else 0


def parts_of(sample):
    metadata = {name.encode(): [bytes.fromhex(value) for value in values]
                for name, values in sample.get("metadata", {}).items()}
    return sample["method"].encode(), v1.metadata_suffix(metadata), sample.get("key_field", "")


def check_vector(schema, vector):
    method, suffix, key_field = parts_of(vector)
    if suffix.hex() != vector.get("suffix", ""):
        yield f"{vector['name']}: suffix {suffix.hex()}"
    for source in ("wire", "canonical"):
        form = v1.canonical(schema, vector["message"], bytes.fromhex(vector[source]), key_field)
        if form.hex() != vector["canonical"]:
            yield f"{vector['name']}: canonical form of {source}: {form.hex()}"
        if (digest := v1.digest(method, form, suffix)) != vector["digest"]:
            yield f"{vector['name']}: digest of {source}: {digest}"


def check_sample(schema, sample):
    method, suffix, key_field = parts_of(sample)
    form = v1.canonical(schema, sample["message"], bytes.fromhex(sample["wire"]), key_field)
    if v1.digest(method, form, suffix) != sample["digest"]:
        yield f"not the same: {json.dumps(sample)}, canonical form {form.hex()}"


if __name__ == "__main__":
    if len(sys.argv) not in (4, 5):
        sys.exit(__doc__)
    sys.exit(main(*sys.argv[1:]))
