"""The Helm chart, rendered for several sets of values: its objects, their security, and each
argument against the flags that idempotencyd has."""

import functools
import json
import os
import pathlib
import re
import subprocess
import tarfile
import tempfile
import unittest

import yaml

from tests.support import schema_packages

from .chart import CHART, KUBERNETES, ROOT, rendered, run

BIN = pathlib.Path(os.environ["IDEMPOTENCY_BUILD"]) / "bin"
NAME = "shop-grpc-idempotency"
URL = "postgresql://idempotency@db:5432/idempotency"

CONFIG = """identities { name: "payments" certificates { uri: "spiffe://example.org/payments" } }
rules { identity: "payments" namespaces: "payments" permissions: [WRITE, READ] }
"""
LOCAL = """identities { name: "this-pod" local: true }
"""
ISSUER = """token_issuers { issuer: "https://issuer.example" audience: "idempotency" keys_file: "keys.json" }
"""
EXTERNAL_PROCESSOR = """external_processor {
  namespace: "payments"
  proxies: "payments"
  on_unknown_outcome: LEASE_EXPIRY_REQUIRE_RECOVERY
  scope { shared: "everyone" }
  http_routes { path: "/v1/payments" methods: "POST" }
}
"""
# RFC 8037, A.2.
KEYS = """{"keys": [{"kty": "OKP", "crv": "Ed25519", "alg": "EdDSA", "kid": "1", "use": "sig",
  "x": "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}]}
"""

MINIMAL = {"store": {"url": URL}, "tls": {"insecure": True}, "config": {"text": CONFIG}}
TLS = {
    "config": {"text": CONFIG},
    "store": {"url": URL + "?sslmode=verify-full&sslrootcert=/etc/idempotency/postgres/ca.crt",
              "passwordSecret": {"name": "db-password"}, "caSecret": {"name": "db-ca"}},
    "tls": {"existingSecret": "server-tls", "clientCaSecret": {"name": "clients-ca"}},
}
SCALED = {**MINIMAL, "autoscaling": {"enabled": True, "minReplicas": 3, "maxReplicas": 9}}
EVERYTHING = {
    **TLS,
    "store": {**TLS["store"], "maintenance": {
        "url": "postgresql://maintenance@db:5432/idempotency",
        "passwordSecret": {"name": "maintenance-password"}}},
    "config": {"text": CONFIG + ISSUER + EXTERNAL_PROCESSOR, "files": {"keys.json": KEYS}},
    "extProc": {"enabled": True},
    "tls": {**TLS["tls"], "probeSecret": "probe-tls"},
    "image": {"repository": "registry.example/idempotencyd", "digest": "sha256:" + "a" * 64},
    "imagePullSecrets": [{"name": "registry"}],
    "keyring": {"existingSecret": "seals"},
    "console": {"enabled": True},
    "migrate": {"url": "postgresql://owner@db:5432/idempotency",
                "passwordSecret": {"name": "owner-password"}, "grantTo": "idempotency",
                "createRoles": True},
    "autoscaling": {"enabled": True},
    "serviceMonitor": {"enabled": True, "labels": {"release": "prometheus"}},
    "prometheusRule": {"enabled": True, "labels": {"release": "prometheus"},
                       "runbookBaseUrl": "https://wiki.example/idempotency/"},
    "dashboard": {"enabled": True, "annotations": {"grafana_folder": "Services"}},
    "networkPolicy": {"database": [{"ipBlock": {"cidr": "10.1.2.3/32"}}]},
    "service": {"headless": False, "port": 7500, "metricsPort": 9500, "extProcPort": 7600,
                "annotations": {"a": "b"}},
    "serviceAccount": {"annotations": {"a": "b"}},
    "extraFlags": ["--queue_mib=512", "--max_connections=1000"],
    "logLevel": "debug",
    "podAnnotations": {"a": "b"}, "podLabels": {"team": "payments"},
    "nodeSelector": {"disk": "ssd"}, "tolerations": [{"operator": "Exists"}],
    "affinity": {"podAntiAffinity": {}}, "priorityClassName": "high",
    "topologySpreadConstraints": [{"maxSkew": 2, "topologyKey": "zone",
                                   "whenUnsatisfiable": "DoNotSchedule"}],
}
NONE = {**MINIMAL, "config": {"existingConfigMap": "rules"}, "migrate": {"enabled": False}, "podDisruptionBudget": {"enabled": False},
        "networkPolicy": {"enabled": False}, "serviceAccount": {"create": False}}
REDIS = {
    **TLS,
    "store": {"url": "rediss+cluster://app@redis-0:6379,redis-1:6379?wait_replicas=1"
                     "&tls_ca=/etc/idempotency/redis/ca.crt",
              "passwordSecret": {"name": "redis-password"}, "caSecret": {"name": "redis-ca"}},
}
SETS = {"redis": REDIS, "minimal": MINIMAL, "tls": TLS, "scaled": SCALED, "everything": EVERYTHING, "none": NONE}

# What is refused, and a part of the reason.
REFUSED = [
    ({}, "store.url is missing"),
    ({"store": {"url": URL}}, "tls.existingSecret is missing"),
    ({**MINIMAL, "config": {}}, "config.text is missing"),
    ({**MINIMAL, "extProc": {"enabled": True}}, "needs the section `external_processor`"),
    ({**MINIMAL, "extProc": {"port": 7413}}, "extProc"),
    ({**MINIMAL, "config": {"text": CONFIG, "existingConfigMap": "rules"}}, "excludes config.text"),
    ({**TLS, "tls": {"existingSecret": "a", "insecure": True}}, "exclude each other"),
    *[({**MINIMAL, "config": {"text": CONFIG + LOCAL.replace("local: true", local)}},
       "an identity with `local: true`") for local in ("local: true", "local:1", "local : True")],
    ({**MINIMAL, "tls": {"insecure": True, "probeSecret": "a"}}, "need tls.existingSecret"),
    ({**MINIMAL, "terminationGracePeriodSeconds": 25}, "longer than drainTimeoutSeconds"),
    ({**SCALED, "autoscaling": {"enabled": True, "minReplicas": 3, "maxReplicas": 2}},
     "lower than autoscaling.minReplicas"),
    # By the schema.
    ({**MINIMAL, "config": {"text": CONFIG, "files": {"../keys": ""}}}, "config.files"),
    ({**MINIMAL, "config": CONFIG}, "config"),
    ({**MINIMAL, "keyring": {"secret": "word"}}, "keyring"),
    ({**MINIMAL, "console": {"address": "0.0.0.0:7412"}}, "console"),
    ({**MINIMAL, "store": {"url": "postgresql://user:secret@db/x"}}, "store.url"),
    *[({**MINIMAL, "store": {"url": "postgresql://user@db/x" + parameters}}, "store.url")
      for parameters in ("?password=secret", "?sslmode=require&password=secret",
                         "?sslpassword=secret", "?p%61ssword=secret")],
    ({**MINIMAL, "store": {"url": "mysql://db"}}, "store.url"),
    ({**MINIMAL, "store": {"url": URL, "sentinelPasswordSecret": {"name": "a"}}},
     "needs a store.url of redis+sentinel"),
    ({**MINIMAL, "networkPolicy": {"databasePorts": [0]}}, "databasePorts"),
    ({**MINIMAL, "store": {"url": "redis://:secret@db"}}, "store.url"),
    ({**MINIMAL, "store": {"url": "redis://db", "maintenance": {"url": URL}}},
     "store.maintenance is for Postgres"),
    ({**MINIMAL, "store": {"url": URL, "password": "secret"}}, "password"),
    ({**MINIMAL, "replicas": 0}, "replicas"),
    ({**MINIMAL, "replicas": "2"}, "replicas"),
    ({**MINIMAL, "replica": 2}, "replica"),
    ({**MINIMAL, "logLevel": "loud"}, "logLevel"),
    ({**MINIMAL, "prometheusRule": {"enabled": "yes"}}, "prometheusRule"),
    ({**MINIMAL, "prometheusRule": {"runbookBaseUrl": "wiki"}}, "runbookBaseUrl"),
    ({**MINIMAL, "dashboard": {"labels": {"grafana_dashboard": 1}}}, "dashboard"),
    ({**MINIMAL, "extraFlags": ["queue_mib=2"]}, "extraFlags"),
    ({**MINIMAL, "image": {"digest": "abc"}}, "digest"),
]


def pods_of(objects):
    """(object, pod spec) of everything that starts a container."""
    for one in objects.values():
        if one["kind"] == "Pod":
            yield one, one["spec"]
        elif one["kind"] in ("Deployment", "Job"):
            yield one, one["spec"]["template"]["spec"]


def commands_of(pod):
    """Each command line of idempotencyd in a pod."""
    for container in pod["containers"]:
        yield container["command"] + container["args"]
        for probe in ("readinessProbe", "livenessProbe", "startupProbe"):
            if "exec" in container.get(probe, {}):
                yield container[probe]["exec"]["command"]


@functools.cache
def help_of(command):
    return subprocess.run([BIN / "idempotencyd", command, "--help"], check=True,
                          capture_output=True, text=True).stdout


class ChartTest(unittest.TestCase):

    @classmethod
    def setUpClass(cls):
        cls.objects = {name: rendered(values) for name, values in SETS.items()}

    def deployment(self, name):
        return self.objects[name][("Deployment", NAME)]["spec"]

    def container(self, name):
        return self.deployment(name)["template"]["spec"]["containers"][0]

    def kinds(self, name):
        return sorted(kind for kind, _ in self.objects[name])

    def test_lints(self):
        for name, values in [("defaults", {}), *SETS.items()]:
            with self.subTest(name):
                status, out, err = run("lint", "--strict", "--kube-version", KUBERNETES, CHART,
                                       values=values)
                self.assertEqual(status, 0, out + err)

    def test_refuses_what_does_not_fit(self):
        for values, reason in REFUSED:
            with self.subTest(reason), self.assertRaisesRegex(AssertionError, re.escape(reason)):
                rendered(values)

    def test_renders_the_objects_that_are_enabled(self):
        always = ["Deployment", "Pod", "Service"]
        usual = [*always, "ConfigMap", "Job", "NetworkPolicy", "PodDisruptionBudget", "ServiceAccount"]
        self.assertEqual(self.kinds("none"), always)
        self.assertEqual(self.kinds("minimal"), sorted(usual))
        self.assertEqual(self.kinds("scaled"), sorted([*usual, "HorizontalPodAutoscaler"]))
        self.assertEqual(self.kinds("everything"),
                         sorted([*usual, "HorizontalPodAutoscaler", "ServiceMonitor", "ConfigMap",
                                 "PrometheusRule"]))

    def test_releases_of_one_name_in_two_namespaces_are_two_jobs(self):
        """The rules count over a job, and the operator names it after the Service alone."""
        endpoint, = self.objects["everything"][("ServiceMonitor", NAME)]["spec"]["endpoints"]
        relabeling, = endpoint["relabelings"]
        self.assertEqual(relabeling, {
            "sourceLabels": ["__meta_kubernetes_namespace", "__meta_kubernetes_service_name"],
            "separator": "/", "targetLabel": "job"})

    def test_the_rules_are_those_of_the_file(self):
        rule = self.objects["everything"][("PrometheusRule", NAME)]
        self.assertEqual(rule["metadata"]["labels"]["release"], "prometheus")
        expected = (ROOT / "deploy/prometheus/idempotencyd.rules.yaml").read_text()
        plain = rendered({**MINIMAL, "prometheusRule": {"enabled": True}})
        self.assertEqual(plain[("PrometheusRule", NAME)]["spec"], yaml.safe_load(expected))
        moved = expected.replace(" docs/runbook.md", " https://wiki.example/idempotency/docs/runbook.md")
        self.assertNotEqual(moved, expected)
        self.assertEqual(rule["spec"]["groups"], yaml.safe_load(moved)["groups"])

    def test_the_dashboard_is_that_of_the_file(self):
        dashboard = self.objects["everything"][("ConfigMap", NAME + "-dashboard")]
        self.assertEqual(dashboard["metadata"]["labels"]["grafana_dashboard"], "1")
        self.assertEqual(dashboard["metadata"]["annotations"], {"grafana_folder": "Services"})
        self.assertEqual(dashboard["data"]["idempotencyd.json"].rstrip("\n"),
                         (ROOT / "deploy/grafana/idempotencyd.json").read_text().rstrip("\n"))

    def test_a_packaged_chart_has_the_rules_and_the_dashboard(self):
        """The files are links into deploy/: an archive has their content."""
        with tempfile.TemporaryDirectory() as folder:
            status, out, err = run("package", CHART, "--destination", folder)
            self.assertEqual(status, 0, out + err)
            archive, = pathlib.Path(folder).iterdir()
            with tarfile.open(archive) as files:
                for name in ("prometheus/idempotencyd.rules.yaml", "grafana/idempotencyd.json"):
                    source = ROOT / "deploy" / name
                    member = files.getmember(f"grpc-idempotency/files/{source.name}")
                    self.assertTrue(member.isfile())
                    self.assertEqual(files.extractfile(member).read(), source.read_bytes())

    def test_every_argument_is_a_flag_of_idempotencyd(self):
        seen = set()
        for name, objects in self.objects.items():
            for one, pod in pods_of(objects):
                for program, command, *arguments in commands_of(pod):
                    seen.add(command)
                    self.assertEqual(program, "idempotencyd")
                    for argument in arguments:
                        flag = argument.split("=")[0]
                        self.assertRegex(help_of(command), rf"(?m)^\s*{re.escape(flag)}(=|\s|$|\[)",
                                         f"{name}, {one['kind']}: {command} {argument}")
        self.assertEqual(seen, {"serve", "migrate", "health"})

    def test_pods_are_restricted(self):
        """The level `restricted` of the Pod Security Standards, and a file system to read only."""
        for name, objects in self.objects.items():
            for one, pod in pods_of(objects):
                with self.subTest(f"{name}, {one['kind']}"):
                    security = pod["securityContext"]
                    self.assertTrue(security["runAsNonRoot"])
                    self.assertGreater(security["runAsUser"], 0)
                    self.assertEqual(security["seccompProfile"], {"type": "RuntimeDefault"})
                    self.assertFalse(pod["automountServiceAccountToken"])
                    self.assertFalse({"hostNetwork", "hostPID", "hostIPC"} & set(pod))
                    for volume in pod.get("volumes", []):
                        self.assertTrue({"secret", "configMap"} & set(volume), volume)
                    for container in pod["containers"]:
                        self.assertEqual(container["securityContext"],
                                         {"allowPrivilegeEscalation": False,
                                          "readOnlyRootFilesystem": True,
                                          "capabilities": {"drop": ["ALL"]}})
                        self.assertIn("memory", container["resources"]["limits"])

    def test_every_mount_has_its_volume(self):
        for name, objects in self.objects.items():
            for one, pod in pods_of(objects):
                volumes = [volume["name"] for volume in pod.get("volumes", [])]
                mounts = [mount["name"] for mount in pod["containers"][0].get("volumeMounts", [])]
                self.assertEqual(sorted(volumes), sorted(mounts), f"{name}, {one['kind']}")

    def test_files_that_flags_name_are_mounted(self):
        for name, objects in self.objects.items():
            for one, pod in pods_of(objects):
                folders = [mount["mountPath"] + "/"
                           for mount in pod["containers"][0].get("volumeMounts", [])]
                for words in commands_of(pod):
                    for file in re.findall(r"=(/etc/idempotency/[^&\s]+)", " ".join(words)):
                        self.assertTrue(file.startswith(tuple(folders)),
                                        f"{name}, {one['kind']}: {file}")

    def test_no_secret_stands_in_an_object(self):
        for name, objects in self.objects.items():
            self.assertNotIn("Secret", self.kinds(name))
            self.assertNotRegex(yaml.safe_dump_all(objects.values()), r"\w+://[^\s/:@]+:[^\s/@]+@")
        variable, = self.container("tls")["env"]
        self.assertEqual(variable["valueFrom"]["secretKeyRef"],
                         {"name": "db-password", "key": "password"})
        self.assertNotIn("env", self.container("minimal"))

    def test_readiness_is_the_health_of_grpc_and_liveness_is_not(self):
        self.assertEqual(self.container("minimal")["readinessProbe"]["grpc"], {"port": 7411})
        self.assertEqual(self.container("tls")["readinessProbe"]["exec"]["command"][:4],
                         ["idempotencyd", "health", "--address=127.0.0.1:7411", "--tls"])
        for name in SETS:
            # The health of gRPC includes the store's: a restart would not mend it.
            self.assertEqual(self.container(name)["livenessProbe"]["tcpSocket"], {"port": "grpc"})

    def test_the_configuration_is_mounted_as_it_is_and_valid(self):
        for name in SETS:
            volume, = [volume for volume in self.deployment(name)["template"]["spec"]["volumes"]
                       if "configMap" in volume]
            file, = [argument.removeprefix("--config=") for argument in self.container(name)["args"]
                     if argument.startswith("--config=")]
            mount, = [mount for mount in self.container(name)["volumeMounts"]
                      if mount["name"] == volume["name"]]
            # Not a subPath, which would not change with the ConfigMap.
            self.assertEqual(mount, {"name": "config", "readOnly": True,
                                     "mountPath": os.path.dirname(file)})
            if name == "none":
                self.assertEqual(volume["configMap"], {"name": "rules"})
                continue
            data = self.objects[name][("ConfigMap", volume["configMap"]["name"])]["data"]
            with tempfile.TemporaryDirectory() as folder:
                for key, content in data.items():
                    pathlib.Path(folder, key).write_text(content)
                done = subprocess.run(
                    [BIN / "idempotencyd", "check-config",
                     f"--config={folder}/{os.path.basename(file)}"],
                    capture_output=True, text=True, check=False)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn(CONFIG, data["idempotencyd.textproto"])

    def test_the_key_ring_is_a_secret(self):
        self.assertNotIn("--keyring", " ".join(self.container("tls")["args"]))
        self.assertIn("--keyring=/etc/idempotency/keyring/keyring",
                      self.container("everything")["args"])
        volume, = [volume["secret"] for volume
                   in self.deployment("everything")["template"]["spec"]["volumes"]
                   if volume["name"] == "keyring"]
        self.assertEqual(volume, {"secretName": "seals", "defaultMode": 0o440,
                                  "items": [{"key": "keyring", "path": "keyring"}]})

    def test_the_console_is_off_or_on_the_pods_own_loopback(self):
        self.assertNotIn("--console", " ".join(self.container("tls")["args"]))
        self.assertIn("--console=127.0.0.1:7412", self.container("everything")["args"])
        self.assertNotIn(7412, [port["containerPort"] for port in self.container("everything")["ports"]])

    def test_the_external_processor_is_off_or_has_a_port_of_the_service(self):
        self.assertNotIn("--ext_proc", " ".join(self.container("tls")["args"]))
        ports = self.objects["tls"][("Service", NAME)]["spec"]["ports"]
        self.assertEqual([port["name"] for port in ports], ["grpc", "metrics"])
        self.assertIn("--ext_proc=0.0.0.0:7413", self.container("everything")["args"])
        self.assertIn({"name": "grpc-ext-proc", "containerPort": 7413},
                      self.container("everything")["ports"])
        headless = rendered({**EVERYTHING, "service": {}})
        for objects, port in [(self.objects["everything"], 7600), (headless, 7413)]:
            self.assertIn({"name": "grpc-ext-proc", "port": port, "targetPort": "grpc-ext-proc"},
                          objects[("Service", NAME)]["spec"]["ports"])

    def test_replicas_that_are_not_ready_have_addresses_only_where_it_is_chosen(self):
        def published(service):
            spec = rendered({**MINIMAL, "service": service})[("Service", NAME)]["spec"]
            return spec.get("publishNotReadyAddresses", False)
        self.assertFalse(published({}))
        self.assertTrue(published({"publishNotReadyAddresses": True}))
        self.assertFalse(published({"headless": False, "publishNotReadyAddresses": True}))

    def test_plaintext_is_served_only_where_it_is_chosen(self):
        self.assertIn("--allow_plaintext", self.container("minimal")["args"])
        for name in ("tls", "everything"):
            self.assertNotIn("--allow_plaintext", self.container(name)["args"])

    def test_an_identity_of_the_pod_itself_is_served_with_tls_alone(self):
        rendered({**TLS, "config": {"text": CONFIG + LOCAL}})
        for harmless in ("#" + LOCAL, "  # " + LOCAL, LOCAL.replace("true", "false"),
                         LOCAL.replace("local: true", 'tokens { sha256: "' + "0" * 64 + '" }')):
            rendered({**MINIMAL, "config": {"text": CONFIG + harmless}})

    def test_selectors_find_the_server_only(self):
        for name, objects in self.objects.items():
            labels = self.deployment(name)["template"]["metadata"]["labels"]
            service = objects[("Service", NAME)]["spec"]["selector"]
            selectors = [service, self.deployment(name)["selector"]["matchLabels"]]
            for kind, path in [("PodDisruptionBudget", "selector"), ("NetworkPolicy", "podSelector")]:
                if (kind, NAME) in objects:
                    selectors.append(objects[(kind, NAME)]["spec"][path]["matchLabels"])
            for selector in selectors:
                self.assertLessEqual(selector.items(), labels.items())
            for one, _ in pods_of(objects):
                if one["kind"] == "Deployment":
                    continue
                metadata = one["metadata"] if one["kind"] == "Pod" else \
                    one["spec"]["template"]["metadata"]
                self.assertFalse(service.items() <= metadata["labels"].items(), one["kind"])

    def test_the_migration_comes_first(self):
        annotations = self.objects["minimal"][("Job", NAME + "-migrate")]["metadata"]["annotations"]
        self.assertEqual(annotations["helm.sh/hook"], "pre-install,pre-upgrade")
        job = self.objects["everything"][("Job", NAME + "-migrate")]["spec"]["template"]["spec"]
        # Before the first install there is no account of the release.
        self.assertNotIn("serviceAccountName", job)
        container = job["containers"][0]
        self.assertIn("--store=postgresql://owner@db:5432/idempotency", container["args"])
        self.assertIn("--grant_to=idempotency", container["args"])
        self.assertIn("--create_roles", container["args"])
        self.assertEqual(container["env"][0]["valueFrom"]["secretKeyRef"]["name"], "owner-password")
        minimal = self.objects["minimal"][("Job", NAME + "-migrate")]["spec"]["template"]["spec"]
        self.assertNotIn("--create_roles", minimal["containers"][0]["args"])

    def test_an_upgrade_does_not_accept_that_redis_lost_its_data(self):
        job = self.objects["redis"][("Job", NAME + "-migrate")]
        self.assertEqual(job["metadata"]["annotations"]["helm.sh/hook"], "pre-install")
        container = job["spec"]["template"]["spec"]["containers"][0]
        self.assertEqual(container["args"], ["migrate", "--store=" + REDIS["store"]["url"]])
        self.assertEqual([one["name"] for one in container["env"]], ["REDIS_PASSWORD"])
        self.assertEqual(container["volumeMounts"][0]["mountPath"], "/etc/idempotency/redis")
        self.assertFalse([arg for arg in self.container("redis")["args"]
                          if arg.startswith("--accept_empty_store")])

    def test_redis_has_a_password(self):
        container = self.container("redis")
        names = {one["name"]: one["valueFrom"]["secretKeyRef"]["name"] for one in container["env"]}
        self.assertEqual(names, {"REDIS_PASSWORD": "redis-password"})
        self.assertIn("--store=" + REDIS["store"]["url"], container["args"])
        egress = self.objects["redis"][("NetworkPolicy", NAME)]["spec"]["egress"]
        self.assertEqual(6379, egress[1]["ports"][0]["port"])

    def test_the_login_for_maintenance_has_a_password_of_its_own(self):
        container = self.deployment("everything")["template"]["spec"]["containers"][0]
        self.assertIn("--maintenance_store=postgresql://maintenance@db:5432/idempotency",
                      container["args"])
        names = {one["name"]: one["valueFrom"]["secretKeyRef"]["name"] for one in container["env"]}
        self.assertEqual(names, {"PGPASSWORD": "db-password",
                                 "IDEMPOTENCYD_MAINTENANCE_PASSWORD": "maintenance-password"})
        minimal = self.deployment("minimal")["template"]["spec"]["containers"][0]
        self.assertFalse([arg for arg in minimal["args"] if arg.startswith("--maintenance_store")])

    def test_the_memory_is_over_the_sum_of_the_bounds(self):
        def default(flag):
            return int(re.search(rf"--{flag}=N  \(default (\d+)\)", help_of("serve"))[1])

        def of_processor(field):
            page = (ROOT / "docs/configuration.md").read_text()
            return int(re.search(rf"(?m)^\| `{field}` .*[Dd]efault,? (\d+)", page)[1])
        a_call = int(re.search(r"takes \d+ to (\d+) KiB", help_of("serve"))[1])
        parts = {"queue_mib": default("queue_mib"), "transport_mib": default("transport_mib"),
                 "max_calls": default("max_calls") * a_call // 1024,
                 "max_held_bytes": of_processor("max_held_bytes") // 2**20,
                 "max_exchanges": of_processor("max_exchanges") * a_call // 1024,
                 "the process itself": 128}
        comment = re.sub(r"\n# ", " ", re.search(r"(?m)(^#.*\n)+^resources:",
                                                (CHART / "values.yaml").read_text())[0])
        for name, mebibytes in parts.items():
            self.assertRegex(comment, rf"{name}[^(]*\({mebibytes}\)")
        self.assertIn(f"Together {sum(parts.values())}:", comment)
        limit = self.container("minimal")["resources"]["limits"]["memory"]
        self.assertGreater(int(limit.removesuffix("Gi")) * 1024, sum(parts.values()))

    def test_the_autoscaler_alone_sets_the_replicas(self):
        self.assertEqual(self.deployment("minimal")["replicas"], 2)
        self.assertNotIn("replicas", self.deployment("scaled"))
        scaler = self.objects["scaled"][("HorizontalPodAutoscaler", NAME)]["spec"]
        self.assertEqual((scaler["minReplicas"], scaler["maxReplicas"]), (3, 9))
        self.assertEqual(scaler["scaleTargetRef"]["name"], NAME)

    def test_a_pod_ends_after_its_calls(self):
        pod = self.deployment("minimal")["template"]["spec"]
        self.assertIn("--drain_timeout=25s", pod["containers"][0]["args"])
        self.assertGreater(pod["terminationGracePeriodSeconds"], 25)

    def test_the_network_policy_admits_what_is_named(self):
        policy = self.objects["everything"][("NetworkPolicy", NAME)]["spec"]
        self.assertEqual(policy["policyTypes"], ["Ingress", "Egress"])
        self.assertEqual([rule["ports"][0]["port"] for rule in policy["ingress"]],
                         ["grpc", "grpc-ext-proc", "metrics"])
        minimal = self.objects["minimal"][("NetworkPolicy", NAME)]["spec"]
        self.assertEqual([rule["ports"][0]["port"] for rule in minimal["ingress"]],
                         ["grpc", "metrics"])
        self.assertEqual(policy["egress"][1]["to"], [{"ipBlock": {"cidr": "10.1.2.3/32"}}])
        self.assertEqual(policy["egress"][1]["ports"], [{"port": 5432, "protocol": "TCP"}])

    def egress(self, store, policy=None):
        """The ports of the database that the daemons may reach, and the further rules."""
        objects = rendered({**MINIMAL, "store": store, "networkPolicy": policy or {}})
        names, database, *further = objects[("NetworkPolicy", NAME)]["spec"]["egress"]
        self.assertEqual({one["port"] for one in names["ports"]}, {53})
        return [one["port"] for one in database["ports"]], further

    def test_the_network_policy_lets_out_the_ports_that_the_url_names(self):
        for url, ports in [
                (URL, [5432]),
                ("postgresql://u@db/x", [5432]),
                ("postgresql://u@db:25060/x?sslmode=require", [25060]),
                ("postgresql://u@a:6000,b,[::1]:6001/x", [6000, 5432, 6001]),
                ("postgresql:///x?host=a,b&port=6000,6001&user=u", [6000, 6001]),
                ("postgresql://u@a,b/x?port=6000%2C6001", [6000, 6001]),
                ("redis://app@cache", [6379]),
                ("rediss://cache:6380/2?tls_ca=/etc/idempotency/redis/ca.crt", [6380]),
                ("redis+sentinel://a,b:26380/0?master=m", [6379, 26379, 26380]),
                ("redis+cluster://app@a:7000,b:7001", [7000, 7001])]:
            with self.subTest(url):
                self.assertEqual(self.egress({"url": url}), (ports, []))
                self.assertEqual(self.egress({"url": url}, {"databasePorts": [7, 9]}), ([7, 9], []))
        maintenance = {"url": URL, "maintenance": {"url": "postgresql://m@db:6432/x"}}
        self.assertEqual(self.egress(maintenance), ([5432, 6432], []))

    def test_the_network_policy_has_further_rules(self):
        collector = {"to": [{"podSelector": {"matchLabels": {"app": "collector"}}}],
                     "ports": [{"port": 4317, "protocol": "TCP"}]}
        self.assertEqual(self.egress({"url": URL}, {"extraEgress": [collector]}),
                         ([5432], [collector]))

    def test_the_sentinels_have_a_password_of_their_own(self):
        container = rendered({**MINIMAL, "store": {
            "url": "redis+sentinel://a/0?master=m", "passwordSecret": {"name": "server"},
            "sentinelPasswordSecret": {"name": "sentinels"}}})[("Deployment", NAME)]["spec"][
                "template"]["spec"]["containers"][0]
        self.assertEqual({one["name"]: one["valueFrom"]["secretKeyRef"]["name"]
                          for one in container["env"]},
                         {"REDIS_PASSWORD": "server", "REDIS_SENTINEL_PASSWORD": "sentinels"})

    def test_the_version_is_the_projects(self):
        chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
        version = (ROOT / "VERSION").read_text().strip()
        self.assertEqual((chart["version"], chart["appVersion"]), (version, version))

    def test_every_value_has_a_type_and_a_use(self):
        def leaves(tree, schema, path):
            self.assertLessEqual(set(tree), set(schema["properties"]), path)
            for name, value in tree.items():
                below = schema["properties"][name]
                if isinstance(value, dict) and "properties" in below:
                    yield from leaves(value, below, f"{path}.{name}")
                else:
                    yield f"{path}.{name}"
        values = yaml.safe_load((CHART / "values.yaml").read_text())
        schema = json.loads((CHART / "values.schema.json").read_text())
        templates = "".join(file.read_text() for file in CHART.rglob("templates/**/*.*"))
        for path in leaves(values, schema, ".Values"):
            # A Secret is passed to a template as one value.
            whole = path.rsplit(".", 1)[0]
            self.assertTrue(path in templates or whole.endswith("Secret") and whole in templates,
                            path)

    def test_kubernetes_accepts_the_objects_where_its_schemas_are_installed(self):
        schema_packages.add("kubernetes-validate", "test")
        import kubernetes_validate  # pylint: disable=import-outside-toplevel
        for name, objects in self.objects.items():
            for one in objects.values():
                if "monitoring.coreos.com" not in one["apiVersion"]:
                    with self.subTest(f"{name}, {one['kind']}"):
                        kubernetes_validate.validate(one, "1.29", strict=True)


if __name__ == "__main__":
    unittest.main()
