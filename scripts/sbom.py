#!/usr/bin/env python3
"""Writes PACKAGE.cdx.json beside each PACKAGE.deb: CycloneDX 1.5. Called by scripts/sbom.sh.

Components are the Debian packages, with the versions of this machine, that hold the shared
libraries of the package's programs, found as the loader finds them; of a package without
programs, the packages that it depends on. Two runs write the same bytes."""

import datetime
import hashlib
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import urllib.parse
import uuid

DISTRIBUTION = "debian-12"
# Apache-2.0, as LICENSE.
OWN_LICENSE = [{"license": {"id": "Apache-2.0"}}]


def output(*command):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True,
                          check=False)
    if done.returncode != 0:
        sys.exit(f"sbom: {' '.join(map(str, command))}: {done.stderr.strip()}")
    return done.stdout


def field(deb, name):
    return output("dpkg-deb", "--field", deb, name).strip()


def package_url(name, version, architecture):
    return (f"pkg:deb/debian/{urllib.parse.quote(name, safe='')}@"
            f"{urllib.parse.quote(version, safe='')}?arch={architecture}&distro={DISTRIBUTION}")


def libraries_of(program):
    """{soname: path}: everything that the loader maps, through other libraries as well."""
    found = {}
    for line in output("ldd", program).splitlines():
        if "not found" in line:
            sys.exit(f"sbom: {program.name}: {line.strip()}: install the package's dependencies")
        if named := re.match(r"\s*(\S+) => (/\S+)", line):
            found[named[1]] = pathlib.Path(named[2]).resolve()
        elif loader := re.match(r"\s*(/\S+) \(", line):
            found[pathlib.Path(loader[1]).name] = pathlib.Path(loader[1]).resolve()
    return found


def needed_by(file):
    return re.findall(r"\(NEEDED\).*\[(.+)\]", output("readelf", "--wide", "--dynamic", file))


def owner_of(path):
    """The Debian package of a file, with its architecture."""
    for form in (str(path), str(path).removeprefix("/usr")):
        done = subprocess.run(["dpkg-query", "--search", form], capture_output=True, text=True,
                              check=False)
        if done.returncode == 0:
            return done.stdout.split(": ")[0].split(",")[0]
    sys.exit(f"sbom: {path} is of no Debian package")


def component_of(package):
    """Of an installed package; (component, its reference)."""
    name, version, architecture, source, source_version = output(
        "dpkg-query", "--show", "--showformat",
        "${Package}\t${Version}\t${Architecture}\t${source:Package}\t${source:Version}",
        package).split("\t")
    url = package_url(name, version, architecture)
    return {"type": "library", "bom-ref": url, "name": name, "version": version, "purl": url,
            "properties": [{"name": "debian:source", "value": f"{source} {source_version}"}]}


def linked(programs):
    """Components, and their dependencies, of what programs are linked with: (by reference, edges),
    where None stands for the programs."""
    components, edges = {}, {None: set()}
    libraries = {name: path for program in programs for name, path in libraries_of(program).items()}
    references = {}
    for name, path in libraries.items():
        component = component_of(owner_of(path))
        references[name] = component["bom-ref"]
        components[component["bom-ref"]] = component
    for name, path in libraries.items():
        edges.setdefault(references[name], set()).update(
            references[other] for other in needed_by(path) if other in references)
    for program in programs:
        edges[None].update(references[name] for name in needed_by(program))
    return components, edges


def declared(deb):
    """The same, of what a package without programs depends on."""
    components, edges = {}, {None: set()}
    for dependency in field(deb, "Depends").split(","):
        component = component_of(re.match(r"\s*([a-z0-9.+-]+)", dependency)[1])
        components[component["bom-ref"]] = component
        edges[None].add(component["bom-ref"])
    return components, edges


def programs_in(folder):
    """The programs and shared libraries among the extracted files."""
    return [file for file in sorted(folder.rglob("*")) if file.is_file() and not file.is_symlink()
            and file.open("rb").read(18)[:4] == b"\x7fELF" and file.suffix != ".o"]


def source_date():
    """Of the sources, in seconds: nothing tells when the bill was written."""
    given = os.environ.get("SOURCE_DATE_EPOCH")
    return int(given or output("git", "log", "-1", "--format=%ct"))


def bill_of(deb):
    with tempfile.TemporaryDirectory() as extracted:
        folder = pathlib.Path(extracted)
        output("dpkg-deb", "--extract", deb, folder)
        programs = programs_in(folder)
        components, edges = linked(programs) if programs else declared(deb)
    name, version = field(deb, "Package"), field(deb, "Version")
    url = package_url(name, version, field(deb, "Architecture"))
    digest = hashlib.sha256(deb.read_bytes()).hexdigest()
    edges = {**{reference: set() for reference in components}, **edges}
    edges[url] = edges.pop(None)
    return {
        "$schema": "http://cyclonedx.org/schema/bom-1.5.schema.json",
        "bomFormat": "CycloneDX", "specVersion": "1.5", "version": 1,
        "serialNumber": f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_URL, digest)}",
        "metadata": {
            "timestamp": datetime.datetime.fromtimestamp(
                source_date(), datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"),
            "component": {
                "type": "application" if programs else "library", "bom-ref": url, "name": name,
                "version": version, "purl": url, "licenses": OWN_LICENSE,
                "hashes": [{"alg": "SHA-256", "content": digest}]},
        },
        "components": [components[reference] for reference in sorted(components)],
        "dependencies": [{"ref": reference, "dependsOn": sorted(edges[reference] - {reference})}
                         for reference in sorted(edges)],
    }


def main():
    for name in sys.argv[1:]:
        deb = pathlib.Path(name)
        if not deb.exists():
            sys.exit(f"sbom: {deb} does not exist; scripts/packages.sh builds the packages")
        written = deb.with_suffix(".cdx.json")
        written.write_text(json.dumps(bill_of(deb), indent=2) + "\n", encoding="utf-8")
        print(written)


if __name__ == "__main__":
    main()
