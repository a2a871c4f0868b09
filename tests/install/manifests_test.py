"""vcpkg.json keeps to vcpkg's schema, and it and the recipe for Conan have the version, the
components and the libraries of this project.

The rules are those of vcpkg.schema.json and vcpkg-schema-definitions.schema.json in
microsoft/vcpkg-tool, as far as this manifest can break them."""

import ast
import json
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

from .outside_project import ROOT

IDENTIFIER = re.compile(
    r"(?!(?:prn|aux|nul|con|lpt[1-9]|com[1-9]|core|default)$)[a-z0-9]+(?:-[a-z0-9]+)*")
VERSIONS = ("version", "version-semver", "version-date", "version-string")
TOP = {"name", "maintainers", "summary", "description", "homepage", "documentation", "license",
       "builtin-baseline", "dependencies", "overrides", "features", "default-features",
       "supports", "vcpkg-configuration", "port-version", *VERSIONS}
DEPENDENCY = {"name", "features", "host", "default-features", "platform", "version>="}
FEATURE = {"description", "dependencies", "supports", "license"}
OVERRIDE = {"name", "version", "port-version"}
# The libraries that CMake looks for, as package managers call them.
PACKAGES = {"absl": "abseil", "OpenSSL": "openssl", "Protobuf": "protobuf", "gRPC": "grpc",
            "spdlog": "spdlog", "SQLite3": "sqlite3", "pqxx": "libpqxx", "libpq": "libpq",
            "hiredis": "hiredis", "prometheus-cpp": "prometheus-cpp", "Boost": "boost",
            "GTest": "gtest"}


def read(path):
    return (ROOT / path).read_text()


def fields(value):
    """Without comments."""
    return {name for name in value if not name.startswith("$")}


def components():
    found = re.search(r"^set\(IDEMPOTENCY_COMPONENTS ([\w\s]+)\)",
                      read("cmake/IdempotencyInstall.cmake"), re.MULTILINE)
    # Two are always built; others come with those that need them.
    with_others = {"core", "error_reflection", "postgres", "otlp", "client_interceptor",
                   "guard_tracing"}
    return set(found[1].split()) - with_others | {"daemon"}


def libraries():
    """What CMake looks for, as package managers call it."""
    found = re.findall(r"^ *(?:find_package|pkg_check_modules)\(([\w-]+)",
                       read("cmake/IdempotencyDependencies.cmake"), re.MULTILINE)
    return {PACKAGES[name] for name in found if name not in ("Threads", "PkgConfig")}


def grpc_versions():
    found = re.search(r"^set\(IDEMPOTENCY_GRPC_VERSIONS ([\d. ]+)\)",
                      read("cmake/IdempotencyGrpcVersion.cmake"), re.MULTILINE)
    return found[1].split()


class VcpkgTest(unittest.TestCase):

    def setUp(self):
        self.manifest = json.loads(read("vcpkg.json"))
        self.features = self.manifest["features"]

    def check_dependency(self, dependency):
        """Its name, and its features if it is this package."""
        if isinstance(dependency, str):
            dependency = {"name": dependency}
        self.assertLessEqual(fields(dependency), DEPENDENCY, dependency)
        self.assertRegex(dependency["name"], rf"^{IDENTIFIER.pattern}$")
        for name in dependency.get("features", []):
            if dependency["name"] == self.manifest["name"]:
                self.assertIn(name, self.features)
        return dependency["name"]

    def all_dependencies(self):
        return [self.check_dependency(dependency)
                for part in (self.manifest, *self.features.values())
                for dependency in part.get("dependencies", [])]

    def test_has_only_fields_that_vcpkg_reads(self):
        self.assertLessEqual(fields(self.manifest), TOP)
        for name, feature in self.features.items():
            self.assertLessEqual(fields(feature), FEATURE, name)
            self.assertTrue(feature["description"], name)
        for override in self.manifest["overrides"]:
            self.assertLessEqual(fields(override), OVERRIDE, override)
            self.assertRegex(override["version"], r"^[^#]+(#\d+)?$")

    def test_names_are_identifiers(self):
        for name in (self.manifest["name"], *self.features, *self.manifest["default-features"]):
            self.assertRegex(name, rf"^{IDENTIFIER.pattern}$")
        self.assertLessEqual(set(self.manifest["default-features"]), set(self.features))

    def test_the_version_is_this_projects(self):
        self.assertEqual([name for name in VERSIONS if name in self.manifest], ["version-semver"])
        self.assertEqual(self.manifest["version-semver"], read("VERSION").strip())

    def test_a_feature_for_each_component(self):
        self.assertEqual({name.replace("-", "_") for name in self.features},
                         components() | {"tests"})

    def test_the_libraries_are_those_that_cmake_looks_for(self):
        # Each library of Boost is a package of its own; Beast needs Asio.
        named = {name.replace("boost-beast", "boost") for name in self.all_dependencies()}
        self.assertEqual(named, libraries() | {self.manifest["name"]})

    def test_overrides_have_a_baseline_and_the_gRPC_that_the_guard_was_tested_with(self):
        self.assertRegex(self.manifest["builtin-baseline"], r"^[0-9a-f]{40}$")
        overrides = {each["name"]: each["version"] for each in self.manifest["overrides"]}
        self.assertLessEqual(set(overrides), set(self.all_dependencies()))
        self.assertIn(".".join(overrides["grpc"].split(".")[:2]), grpc_versions())


class ConanRecipeTest(unittest.TestCase):

    def setUp(self):
        self.recipe = ast.parse(read("conanfile.py"))

    def calls(self, method):
        """The first arguments of self.METHOD() that are texts."""
        return [text.value for call in ast.walk(self.recipe)
                if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute)
                and call.func.attr == method
                for text in ast.walk(call.args[0])
                if isinstance(text, ast.Constant) and isinstance(text.value, str)]

    def test_an_option_for_each_component(self):
        values = [node.value for node in self.recipe.body if isinstance(node, ast.Assign)
                  and node.targets[0].id == "COMPONENTS"]
        self.assertEqual(set(ast.literal_eval(values[0])), components())

    def exported(self):
        values = [node.value for node in ast.walk(self.recipe) if isinstance(node, ast.Assign)
                  and getattr(node.targets[0], "id", "") == "exports_sources"]
        return ast.literal_eval(values[0])

    def test_the_package_has_each_folder_that_cmake_builds(self):
        exported = {pattern.split("/")[0] for pattern in self.exported()}
        built = set(re.findall(r"^ *add_subdirectory\((\w+)", read("CMakeLists.txt"),
                               re.MULTILINE))
        self.assertLessEqual(built - {"tests", "examples", "scripts"}, exported)

    def test_every_component_can_be_configured_from_what_the_package_has(self):
        with tempfile.TemporaryDirectory() as folder:
            for pattern in self.exported():
                name = pattern.removesuffix("/*")
                target = pathlib.Path(folder, "source", name)
                target.parent.mkdir(parents=True, exist_ok=True)
                copy = shutil.copytree if pattern.endswith("/*") else shutil.copy
                copy(ROOT / name, target)
            done = subprocess.run(
                ["cmake", "-S", f"{folder}/source", "-B", f"{folder}/build",
                 "-DIDEMPOTENCY_BUILD_TESTS=OFF", "-DIDEMPOTENCY_BUILD_EXAMPLES=OFF",
                 "-DIDEMPOTENCY_BUILD_BENCH=OFF"],
                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
            self.assertEqual(done.returncode, 0, done.stdout)

    def test_the_libraries_are_those_that_cmake_looks_for(self):
        self.assertEqual({text.split("/")[0] for text in self.calls("requires")},
                         libraries() - {"gtest"})

    def test_the_gRPCs_are_those_that_the_guard_was_tested_with(self):
        ranges = []
        for version in grpc_versions():
            major, minor = version.split(".")
            ranges.append(f">={version} <{major}.{int(minor) + 1}")
        self.assertIn(f"grpc/[{' || '.join(ranges)}]", self.calls("requires"))

    def test_the_profile_for_debian_has_every_library(self):
        profile = read("tests/install/conan/debian-12.profile")
        named = re.findall(r"^([\w-]+)/([\d.]+)$", profile, re.MULTILINE)
        self.assertEqual({name for name, _ in named}, libraries() - {"gtest"})
        for name, version in named:
            if name == "grpc":
                self.assertIn(".".join(version.split(".")[:2]), grpc_versions())


if __name__ == "__main__":
    sys.exit(unittest.main())
