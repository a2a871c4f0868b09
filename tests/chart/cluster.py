"""A Kubernetes API that has one Deployment, for what Helm reads from a cluster."""

import contextlib
import http.server
import json
import threading


class _Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):  # pylint: disable=invalid-name
        answer = self.server.answers.get(self.path.split("?")[0])
        body = json.dumps(answer or {"kind": "Status", "apiVersion": "v1", "status": "Failure",
                                     "reason": "NotFound", "code": 404}).encode()
        self.send_response(200 if answer else 404)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        """Nothing is printed."""


def _resources(group_version, *kinds):
    return {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": group_version,
            "resources": [{"name": f"{kind.lower()}s", "kind": kind, "namespaced": True,
                           "verbs": ["get"]} for kind in kinds]}


@contextlib.contextmanager
def cluster_with_deployment(name, version, replicas):
    """The URL of its API."""
    deployment = {"apiVersion": "apps/v1", "kind": "Deployment",
                  "metadata": {"name": name, "namespace": "default"}, "spec": {"replicas": replicas}}
    major, minor, _ = version.split(".")
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    server.answers = {
        "/version": {"major": major, "minor": minor, "gitVersion": f"v{version}"},
        "/api": {"kind": "APIVersions", "versions": ["v1"]},
        "/api/v1": _resources("v1"),
        "/apis": {"kind": "APIGroupList", "apiVersion": "v1", "groups": [
            {"name": "apps", "versions": [{"groupVersion": "apps/v1", "version": "v1"}],
             "preferredVersion": {"groupVersion": "apps/v1", "version": "v1"}}]},
        "/apis/apps/v1": _resources("apps/v1", "Deployment"),
        f"/apis/apps/v1/namespaces/default/deployments/{name}": deployment,
    }
    thread = threading.Thread(target=server.serve_forever, name="kubernetes")
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
