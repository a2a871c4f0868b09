"""usage: caller.py ADDRESS METHOD JSON: one unary call of idempotency.v1.IdempotencyService."""

import importlib
import pathlib
import subprocess
import sys
import tempfile

import grpc
from google.protobuf import json_format

PROTOS = pathlib.Path(__file__).resolve().parents[2] / "proto"
SERVICE = "idempotency.v1.IdempotencyService"


def messages():
    """The generated module of the service's messages."""
    with tempfile.TemporaryDirectory() as folder:
        protos = sorted(str(path) for path in (PROTOS / "idempotency/v1").glob("*.proto"))
        subprocess.run(["protoc", f"-I{PROTOS}", f"--python_out={folder}", *protos], check=True)
        sys.path.insert(0, folder)
        return importlib.import_module("idempotency.v1.idempotency_service_pb2")


def main(address, method, text):
    pb = messages()
    request = json_format.Parse(text, getattr(pb, f"{method}Request")())
    with grpc.insecure_channel(address) as channel:
        call = channel.unary_unary(f"/{SERVICE}/{method}",
                                   getattr(pb, f"{method}Request").SerializeToString,
                                   getattr(pb, f"{method}Response").FromString)
        response = call(request, timeout=30, wait_for_ready=True)
    print(json_format.MessageToJson(response, preserving_proto_field_name=True))


if __name__ == "__main__":
    main(*sys.argv[1:])
