"""The bills of materials that scripts/sbom.sh writes: complete, closed, the same each time, and
valid CycloneDX."""

import hashlib
import json
import pathlib
import re
import shutil
import subprocess
import tempfile
import unittest

from tests.support import schema_packages

from .packages import BUILD, CTL, DAEMON, LIBRARIES, field, output, package

ROOT = pathlib.Path(__file__).resolve().parents[2]
# What the scripts of the package use, and no program is linked with.
OF_SCRIPTS = {"adduser", "init-system-helpers"}


def written(deb, folder):
    """The text of the bill of a copy of a package."""
    copy = shutil.copy(deb, folder)
    subprocess.run([ROOT / "scripts/sbom.sh", copy], check=True, capture_output=True)
    return pathlib.Path(copy).with_suffix(".cdx.json").read_text()


class SbomTest(unittest.TestCase):

    @classmethod
    def setUpClass(cls):
        cls.debs = {name: package(name) for name in (DAEMON, CTL, LIBRARIES)}
        with tempfile.TemporaryDirectory() as folder:
            cls.texts = {name: written(deb, folder) for name, deb in cls.debs.items()}
        cls.bills = {name: json.loads(text) for name, text in cls.texts.items()}

    def test_it_is_of_the_package(self):
        for name, bill in self.bills.items():
            own = bill["metadata"]["component"]
            self.assertEqual((own["name"], own["version"]),
                             (name, field(self.debs[name], "Version")))
            self.assertEqual(own["hashes"], [{
                "alg": "SHA-256",
                "content": hashlib.sha256(self.debs[name].read_bytes()).hexdigest()}])
            self.assertEqual((bill["bomFormat"], bill["specVersion"]), ("CycloneDX", "1.5"))
            self.assertRegex(bill["serialNumber"], r"^urn:uuid:[0-9a-f-]{36}$")

    def test_it_has_what_the_package_depends_on(self):
        for name, bill in self.bills.items():
            listed = {component["name"] for component in bill["components"]}
            for dependency in field(self.debs[name], "Depends").split(", "):
                needed = re.match(r"\S+", dependency)[0]
                # A name that a package provides, such as libspdlog1.10-fmt9.
                real = {one for one in listed if needed.startswith(one + "-fmt")}
                if needed not in OF_SCRIPTS:
                    self.assertTrue(needed in listed or real, needed)

    def test_it_has_what_the_program_maps(self):
        """Each library that the loader maps is a file of a listed package."""
        with tempfile.TemporaryDirectory() as folder:
            output("dpkg-deb", "--extract", self.debs[DAEMON], folder)
            mapped = re.findall(r"=> (/\S+)", output("ldd", f"{folder}/usr/bin/idempotencyd"))
        self.assertGreater(len(mapped), 20)
        held = set()
        for component in self.bills[DAEMON]["components"]:
            architecture = re.search(r"arch=(\w+)", component["purl"])[1]
            listed = output("dpkg-query", "--listfiles", f"{component['name']}:{architecture}")
            held.update(pathlib.Path(file).resolve() for file in listed.split())
        self.assertEqual({file for file in map(pathlib.Path, mapped)
                          if file.resolve() not in held}, set())

    def test_versions_are_of_the_installed_packages(self):
        for bill in self.bills.values():
            for component in bill["components"]:
                self.assertIn(component["version"], output(
                    "dpkg-query", "--show", "--showformat", "${Version}\n", component["name"]))

    def test_references_are_closed(self):
        for bill in self.bills.values():
            own = bill["metadata"]["component"]["bom-ref"]
            known = [own, *(component["bom-ref"] for component in bill["components"])]
            self.assertEqual(len(known), len(set(known)))
            edges = {entry["ref"]: entry["dependsOn"] for entry in bill["dependencies"]}
            self.assertEqual(set(edges), set(known))
            reached, left = set(), [own]
            while left:
                reference = left.pop()
                if reference not in reached:
                    reached.add(reference)
                    left += edges[reference]
            self.assertEqual(reached, set(known))

    def test_two_bills_are_equal(self):
        for name, deb in self.debs.items():
            with tempfile.TemporaryDirectory() as folder:
                self.assertEqual(written(deb, folder), self.texts[name], BUILD)

    def test_a_missing_package_is_named(self):
        done = subprocess.run([ROOT / "scripts/sbom.sh", "/nowhere.deb"], capture_output=True,
                              text=True, check=False)
        self.assertEqual(done.returncode, 1)
        self.assertIn("/nowhere.deb does not exist", done.stderr)

    def test_the_schema_accepts_it_where_it_is_installed(self):
        schema_packages.add("cyclonedx-python-lib", "package")
        # pylint: disable=import-outside-toplevel
        from cyclonedx.schema import SchemaVersion
        from cyclonedx.validation.json import JsonStrictValidator
        validator = JsonStrictValidator(SchemaVersion.V1_5)
        for text in self.texts.values():
            self.assertIsNone(validator.validate_str(text))
            self.assertIsNotNone(validator.validate_str(text.replace('"library"', '"book"')))


if __name__ == "__main__":
    unittest.main()
