"""The configurations of tests/envoy/golden: for each file, the flags that write it.

`python3 -m tests.envoy.golden` writes them again after a change of the command; read the
difference."""

import pathlib
import subprocess
import tempfile

from . import envoy

ROOT = pathlib.Path(__file__).resolve().parents[2]
FOLDER = ROOT / "tests/envoy/golden"

PROCESSOR = "--processor=127.0.0.1:7413"
UPSTREAM = "--upstream=127.0.0.1:9000"
# Relative: a test runs Envoy in a folder that has them.
TLS = ("--tls_cert=envoy.crt", "--tls_key=envoy.key", "--tls_client_ca=ca.crt")
PROCESSOR_TLS = ("--processor_tls_ca=ca.crt", "--processor_tls_cert=envoy.crt",
                 "--processor_tls_key=envoy.key")

# {descriptors} is the descriptor set of shop.proto beside this file.
CASES = {
    "methods.yaml": ("--methods=payments.v1.Payments/Charge,payments.v1.*/Create*", UPSTREAM,
                     PROCESSOR),
    "methods_1.37.yaml": ("--methods=payments.v1.Payments/Charge", "--envoy_version=1.37", UPSTREAM,
                          PROCESSOR),
    "descriptors.yaml": ("--descriptors={descriptors}", "--skip_streaming", "--deadline=1500ms",
                         UPSTREAM, PROCESSOR),
    "http.yaml": ("--http_routes=POST /v1/payments,POST|PATCH /v1/payments/{id}/refunds/*",
                  "--strip_headers=x-tenant", UPSTREAM, PROCESSOR),
    "tls.yaml": ("--methods=payments.v1.Payments/Charge", "--listen=0.0.0.0:8443",
                 "--upstream=payments.example:9000", "--upstream_tls_ca=ca.crt",
                 "--processor=idempotencyd.example:7413", *TLS, *PROCESSOR_TLS),
    "istio.yaml": ("--format=istio", "--descriptors={descriptors}", "--skip_streaming",
                   "--methods=payments.v1.*/Create*", "--workload=app=payments,track=stable",
                   "--kubernetes_namespace=shop", "--upstream=127.0.0.1:9000",
                   "--processor=idempotencyd.idempotency.svc.cluster.local:7413"),
    "istio_own_tls.yaml": ("--format=istio", "--methods=payments.v1.Payments/Charge",
                           "--workload=app=payments", UPSTREAM,
                           "--processor=idempotencyd.example:7413", *PROCESSOR_TLS),
    "envoy_gateway.yaml": ("--format=envoy-gateway", "--descriptors={descriptors}",
                           "--skip_streaming", "--methods=payments.v1.*/Create*",
                           "--http_routes=POST|PATCH /v1/payments", "--strip_headers=x-tenant",
                           "--kubernetes_namespace=shop", "--gateway=edge",
                           "--hostnames=pay.example,pay.internal.example",
                           "--deadline=90500ms", "--upstream=payments:9000",
                           "--processor=idempotencyd.idempotency:7413"),
}


def descriptors(folder):
    """The descriptor set of shop.proto, written to the folder."""
    file = pathlib.Path(folder) / "shop.binpb"
    subprocess.run(["protoc", f"-I{ROOT / 'tests/envoy'}", f"-I{ROOT / 'proto'}",
                    "--include_imports", f"--descriptor_set_out={file}", "shop.proto"], check=True)
    return file


def written(case, folder):
    """What the command writes for a case."""
    arguments = [one.replace("{descriptors}", str(descriptors(folder))) for one in CASES[case]]
    status, out, err = envoy.ctl(*arguments)
    if status != 0:
        raise AssertionError(f"{case}: {err}")
    return out


def main():
    with tempfile.TemporaryDirectory() as folder:
        for case in CASES:
            (FOLDER / case).write_text(written(case, folder))


if __name__ == "__main__":
    main()
