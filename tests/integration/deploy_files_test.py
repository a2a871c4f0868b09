#!/usr/bin/env python3
"""Checks Dockerfile, docker-compose.yml and the systemd unit without an engine for them.

- The compose file is valid YAML of known shape: images or builds, commands,
  dependencies on services that exist, volumes that are declared.
- Every path that either file copies or mounts from here exists.
- Every binary that they run is built by the project, and takes every flag that
  they pass: the binaries' own help is read.
- Every CMake target that the Dockerfile builds exists.
- No command line contains a password, in these files or in the README.
- Each listener of idempotencyd has one port everywhere, and the payments example another.
- Each file that runs idempotencyd sets the number of descriptors that it may have.
- The runtime packages contain every shared library that the binaries need.

usage: deploy_files_test.py PROJECT_ROOT BIN_FOLDER
"""

import os
import re
import shlex
import subprocess
import sys

import yaml

SERVICE_KEYS = {"image", "build", "command", "entrypoint", "environment", "volumes", "ports",
                "depends_on", "healthcheck", "restart", "networks", "profiles", "ulimits", "user"}
CONDITIONS = {"service_healthy", "service_started", "service_completed_successfully"}
# The ports of idempotencyd's listeners, by flag; docs/installing.md lists them.
PORTS = {"listen": "7411", "console": "7412", "ext_proc": "7413", "metrics": "9464"}
PAYMENTS_PORT = "7420"
OURS = {"idempotencyd", "payments_server", "payments_client"}
PASSWORD_IN_URI = re.compile(r"\w+://[^\s/:@]+:[^\s/@]+@")


def read(*path):
    with open(os.path.join(*path), encoding="utf-8") as file:
        return file.read()


def flags_of(binary, command, bin_folder):
    """The flags in the binary's own help."""
    done = subprocess.run([os.path.join(bin_folder, binary), *([command] if command else []), "--help"],
                          capture_output=True, text=True, timeout=30, check=False)
    return done.stdout + done.stderr


def command_faults(where, words, bin_folder):
    binary, *arguments = words
    if binary not in OURS:
        return
    if not os.path.exists(os.path.join(bin_folder, binary)):
        yield f"{where}: {binary} is not built"
        return
    command = ""
    if binary == "idempotencyd":
        command, *arguments = arguments
    known = flags_of(binary, command, bin_folder)
    for argument in arguments:
        if PASSWORD_IN_URI.search(argument):
            yield f"{where}: a password in {argument.split('=')[0]}"
        name = argument.split("=")[0]
        if not re.search(re.escape(name) + r"\b", known):
            yield f"{where}: {binary} does not know {name}"


def dockerfile_commands(text):
    """ENTRYPOINT + CMD, and the health check's command."""
    json_forms = dict(re.findall(r"^(ENTRYPOINT|CMD) (\[.*\])$", text, re.M))
    entrypoint, command = (yaml.safe_load(json_forms[k]) for k in ("ENTRYPOINT", "CMD"))
    yield entrypoint + command
    yield yaml.safe_load(re.search(r"HEALTHCHECK.*\n\s+CMD (\[.*\])$", text, re.M).group(1))


def dockerfile_faults(root, bin_folder):
    text = read(root, "Dockerfile").replace("\\\n", " ")
    for line in re.findall(r"^COPY (?!--from)(.*)$", text, re.M):
        *sources, _ = shlex.split(line)
        for source in sources:
            if not os.path.exists(os.path.join(root, source)):
                yield f"Dockerfile: COPY {source}: not there"
    for script in re.findall(r"RUN (scripts/\S+)", text):
        if not os.access(os.path.join(root, script), os.X_OK):
            yield f"Dockerfile: {script} cannot be run"
    targets = re.search(r"--target ([\w ]+?)\s*&&", text).group(1).split()
    for target in targets:
        if not os.path.exists(os.path.join(bin_folder, target)):
            yield f"Dockerfile: no target {target}"
    if not re.search(r"^USER (?!root)\w+", text, re.M):
        yield "Dockerfile: runs as root"
    if "HEALTHCHECK" not in text:
        yield "Dockerfile: no health check"
    for words in dockerfile_commands(read(root, "Dockerfile").replace("\\\n", "  \n")):
        yield from command_faults("Dockerfile", words, bin_folder)
    yield from library_faults(text, bin_folder, targets)


def closure_of(packages):
    """The packages and their dependencies, by this machine's dpkg."""
    closure, todo = set(), set(packages)
    while todo:
        closure |= todo
        done = subprocess.run(["dpkg-query", "-W", "-f=${Depends},", *todo], capture_output=True, text=True,
                              check=False)
        todo = {part.split()[0].split(":")[0] for part in re.split(r"[,|]", done.stdout) if part.strip()} - closure
    return closure


def owners_of(libraries):
    """{path: package}, read once: dpkg reads its whole database for each query."""
    paths = [path for library in libraries for path in (library, library.removeprefix("/usr"))]
    done = subprocess.run(["dpkg", "-S", *paths], capture_output=True, text=True, check=False)
    owners = {}
    for line in done.stdout.splitlines():
        packages, _, path = line.partition(": ")
        if not line.startswith("diversion "):
            owners[path] = packages.split(":")[0]
    return {library: owners.get(library) or owners.get(library.removeprefix("/usr"), "") for library in libraries}


def libraries_of(program):
    """{name as linked: the file itself}"""
    done = subprocess.run(["ldd", program], capture_output=True, text=True, check=True)
    return {os.path.basename(library): os.path.realpath(library)
            for library in re.findall(r"=> (/\S+)", done.stdout)}


def library_faults(text, bin_folder, targets):
    runtime = text.split("FROM debian:12-slim")[1]
    closure = closure_of(re.findall(r"\blib[\w.+-]+", runtime.split("&& rm")[0]))
    linked = {target: libraries_of(os.path.join(bin_folder, target)) for target in targets}
    owners = owners_of(sorted({path for libraries in linked.values() for path in libraries.values()}))
    assert any(owners.values()), "dpkg knows none of the libraries"
    for target, libraries in linked.items():
        for name, path in libraries.items():
            owner = owners[path]
            # Sanitizers and coverage are in test builds only.
            if owner and owner not in closure and not re.match(r"lib(asan|ubsan|tsan|gcc)", owner):
                yield f"Dockerfile: {target} needs {owner} ({name})"


def service_faults(name, service, compose, root, bin_folder):
    if unknown := set(service) - SERVICE_KEYS:
        yield f"{name}: unknown keys {sorted(unknown)}"
    if not ("image" in service or "build" in service):
        yield f"{name}: neither image nor build"
    for other, rule in (service.get("depends_on") or {}).items() if isinstance(
            service.get("depends_on"), dict) else ((o, None) for o in service.get("depends_on", [])):
        if other not in compose["services"]:
            yield f"{name}: depends on {other}, which is not there"
        if rule is not None and rule.get("condition") not in CONDITIONS:
            yield f"{name}: unknown condition {rule}"
    for volume in service.get("volumes", []):
        source = volume.split(":")[0]
        if source.startswith("."):
            if not os.path.exists(os.path.join(root, source)):
                yield f"{name}: mounts {source}: not there"
            elif source.endswith(".textproto"):
                yield f"{name}: mounts the file {source}: a replaced file is not seen, mount its folder"
        elif source not in compose["volumes"]:
            yield f"{name}: volume {source} is not declared"
    for port in service.get("ports", []):
        if not re.fullmatch(r"127\.0\.0\.1:\d+:\d+", port):
            yield f"{name}: port {port} is open to the world"
    if service.get("image") == "grpc-idempotency":
        words = service.get("entrypoint", ["idempotencyd"]) + service.get("command", [])
        yield from command_faults(name, words, bin_folder)
        if words[:2] == ["idempotencyd", "serve"] and "nofile" not in service.get("ulimits", {}):
            yield f"{name}: no ulimits.nofile"
    check = service.get("healthcheck", {}).get("test", [])
    if check[:1] == ["CMD"]:
        yield from command_faults(f"{name} healthcheck", check[1:], bin_folder)


def unit_faults(root, bin_folder):
    name = "deploy/idempotencyd.service"
    text = read(root, name).replace("\\\n", " ")
    words = re.search(r"^ExecStart=/usr/bin/idempotencyd (.*)$", text, re.M).group(1).split()
    # The flags of $IDEMPOTENCYD_FLAGS are checked in tests/packages.
    yield from command_faults(name, ["idempotencyd", *(w for w in words if w[0] != "$")],
                              bin_folder)
    for setting in ("LimitNOFILE", "Restart"):
        if not re.search(rf"^{setting}=", text, re.M):
            yield f"{name}: no {setting}"


def port_faults(root, bin_folder, compose):
    texts = {name: read(root, name) for name in
             ("Dockerfile", "deploy/debian/idempotencyd.default", "docs/production.md", "docs/console.md",
              "deploy/helm/grpc-idempotency/templates/deployment.yaml")}
    for name, service in compose["services"].items():
        words = service.get("command", [])
        if words[:1] == ["serve"]:
            texts[name] = " ".join(words)
        if service.get("entrypoint") == ["payments_server"] and f"--listen=0.0.0.0:{PAYMENTS_PORT}" not in words:
            yield f"{name}: listens on another port than {PAYMENTS_PORT}"
    for name, text in texts.items():
        for flag, port in re.findall(r"(?:--|IDEMPOTENCYD_)(\w+)=[\w.%]+:(\d+)\b", text):
            if port != PORTS.get(flag.lower(), port):
                yield f"{name}: {flag} is on {port}, elsewhere on {PORTS[flag.lower()]}"
    known = flags_of("idempotencyd", "serve", bin_folder)
    for flag in PORTS:
        if not re.search(rf"--{flag}=ADDRESS[^-]*:{PORTS[flag]}\b", known):
            yield f"idempotencyd serve --help: --{flag} does not name {PORTS[flag]}"
    for program in ("payments_server", "payments_client"):
        if f":{PAYMENTS_PORT}" not in flags_of(program, "", bin_folder):
            yield f"{program}: its default is not port {PAYMENTS_PORT}"
    published = [port.rsplit(":", 1)[0] for service in compose["services"].values()
                 for port in service.get("ports", [])]
    if len(published) != len(set(published)):
        yield f"compose: a port is published twice: {sorted(published)}"


def main():
    root, bin_folder = sys.argv[1:3]
    compose = yaml.safe_load(read(root, "docker-compose.yml"))
    faults = list(dockerfile_faults(root, bin_folder))
    faults += unit_faults(root, bin_folder)
    for page in ("README.md", "docker-compose.yml", "Dockerfile"):
        faults += [f"{page}: a password in {uri}" for uri in PASSWORD_IN_URI.findall(read(root, page))]
    wanted = {"password", "postgres", "migrate", "idempotencyd-1", "idempotencyd-2", "payments", "prometheus"}
    if missing := wanted - set(compose["services"]):
        faults.append(f"compose: no {sorted(missing)}")
    for name, service in compose["services"].items():
        faults += service_faults(name, service, compose, root, bin_folder)
    faults += port_faults(root, bin_folder, compose)
    scrape = yaml.safe_load(read(root, "deploy/compose/prometheus.yml"))
    for target in scrape["scrape_configs"][0]["static_configs"][0]["targets"]:
        if target.split(":")[0] not in compose["services"]:
            faults.append(f"prometheus: scrapes {target}, which is no service")
    print("\n".join(faults) or "Dockerfile and compose file agree with the project")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
