"""gRPC services and clients that are not of this project, made from their registries, in four
languages. Each service is a published one with a counter in front (tests/envoy/services/)."""

import dataclasses
import hashlib
import json
import os
import pathlib
import shutil
import subprocess
import sys

from .child import Child

FOLDER = pathlib.Path(__file__).resolve().parent / "services"
BUILD_WITHIN_S = 1200

GHZ = "github.com/bojand/ghz/cmd/ghz@v0.121.0"
GRPCURL = "github.com/fullstorydev/grpcurl/cmd/grpcurl@v1.9.3"
SPICEDB = "github.com/authzed/spicedb/cmd/spicedb@v1.56.2"

HEALTH = "/grpc.health.v1.Health/Check"


@dataclasses.dataclass(frozen=True)
class Service:
    """A method that is called through Envoy, and two requests for it that differ."""
    method: str
    request: str
    other: str


# The interoperability service echoes a payload of response_size bytes. Health answers for its own
# name ("") and is NOT_FOUND for another one, with an error that is recorded.
SERVICES = {
    "go": Service("/grpc.testing.TestService/UnaryCall", "108008", "108108"),
    "java": Service(HEALTH, "", "0a0178"),
    "node": Service(HEALTH, "", "0a0178"),
    "python": Service(HEALTH, "", "0a0178"),
}


def _run(command, **options):
    done = subprocess.run([str(one) for one in command], check=False, text=True, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, timeout=BUILD_WITHIN_S, **options)
    if done.returncode != 0:
        raise AssertionError(f"{command}:\n{done.stdout[-4000:]}")


class Toolbox:
    """Builds what is missing in the build folder, once for each version of its sources."""

    def __init__(self, build):
        self._folder = pathlib.Path(build) / "tools/envoy-services"

    def _made(self, language, make):
        sources = sorted(file for file in (FOLDER / language).rglob("*") if file.is_file()
                         and "node_modules" not in file.parts)
        digest = hashlib.sha256(b"".join(file.read_bytes() for file in sources)).hexdigest()
        folder = self._folder / language
        stamp = folder / "digest"
        if not stamp.exists() or stamp.read_text() != digest:
            shutil.rmtree(folder, ignore_errors=True)
            shutil.copytree(FOLDER / language, folder,
                            ignore=shutil.ignore_patterns("node_modules"))
            make(folder)
            stamp.write_text(digest)
        return folder

    def _go(self):
        return self._made("go", lambda folder: _run(
            ["go", "build", "-buildvcs=false", "-o", f"{folder}/bin/", "./server", "./client"],
            cwd=folder))

    def _java(self):
        def make(folder):
            _run(["mvn", "-q", "-B", "dependency:copy-dependencies",
                  f"-DoutputDirectory={folder}/lib"], cwd=folder)
            _run(["javac", "-d", folder / "classes", "-cp", f"{folder}/lib/*",
                  folder / "Server.java", folder / "Client.java"])
        return self._made("java", make)

    def _node(self):
        return self._made("node", lambda folder: _run(
            ["npm", "ci", "--no-audit", "--no-fund", "--ignore-scripts"], cwd=folder))

    def _python(self):
        def make(folder):
            _run([sys.executable, "-m", "venv", folder / "venv"])
            _run([folder / "venv/bin/pip", "install", "-q", "--disable-pip-version-check", "-r",
                  folder / "requirements.txt"])
        return self._made("python", make)

    def command(self, language, role):
        """The command line of the `server` or `client` of a language."""
        folder = {"go": self._go, "java": self._java, "node": self._node,
                  "python": self._python}[language]()
        if language == "go":
            return [folder / "bin" / role]
        if language == "java":
            return ["java", "-cp", f"{folder}/classes:{folder}/lib/*", role.capitalize()]
        if language == "node":
            return ["node", folder / f"{role}.js"]
        return [folder / "venv/bin/python", folder / f"{role}.py"]

    def program(self, module):
        """The path of a Go program of the registry."""
        path = self._folder / "bin" / module.partition("@")[0].rpartition("/")[2]
        if not path.exists():
            _run(["go", "install", module], env={**os.environ, "GOBIN": str(path.parent)})
        return path

    def serve(self, language):
        return RunningService(self.command(language, "server"))

    def call(self, language, target, method, key, request):
        """The reply to a client of a language: code, message, reply, execution, replayed."""
        done = subprocess.run(
            [*map(str, self.command(language, "client")), target, method, key, request],
            capture_output=True, text=True, check=False, timeout=60)
        if done.returncode != 0 or not done.stdout:
            raise AssertionError(f"the client of {language}: {done.stdout}{done.stderr}")
        return json.loads(done.stdout.splitlines()[-1])


class RunningService(Child):
    def __init__(self, command):
        super().__init__(command, "serving on ")
        self.address = self.ready.rpartition(" ")[2]

    def executions(self, key):
        """How often the service ran for a key, by its own count."""
        return self.count(lambda line: line.startswith("executed ") and line.endswith(f" {key}"))
