"""Conan 2 recipe. docs/building.md has how it is used, also with the system's libraries."""

import os

from conan import ConanFile
from conan.errors import ConanInvalidConfiguration
from conan.tools.build import check_min_cppstd
from conan.tools.cmake import CMake, CMakeDeps, CMakeToolchain, cmake_layout
from conan.tools.files import copy, load
from conan.tools.gnu import PkgConfigDeps

required_conan_version = ">=2.4"

COMPONENTS = ("client", "key_store_sqlite", "server_guard", "ledger_postgres", "ledger_sqlite",
              "embedded", "daemon")


class GrpcIdempotencyConan(ConanFile):
    name = "grpc-idempotency"
    description = "Idempotency keys for gRPC: each call takes effect once"
    license = "Apache-2.0"
    topics = ("grpc", "idempotency")
    package_type = "library"
    settings = "os", "arch", "compiler", "build_type"
    options = {
        "shared": [True, False],
        "fPIC": [True, False],
        # The guard with a gRPC that its tests have not passed with.
        "allow_other_grpc": [True, False],
        **{component: [True, False] for component in COMPONENTS},
    }
    default_options = {
        "shared": False,
        "fPIC": True,
        "allow_other_grpc": False,
        **{component: component in ("client", "server_guard") for component in COMPONENTS},
    }
    implements = ["auto_shared_fpic"]
    exports = "VERSION"
    exports_sources = ("CMakeLists.txt", "VERSION", "LICENSE", "bench/CMakeLists.txt", "client/*",
                       "cmake/*", "command_line/*", "core/*", "ctl/*", "embedded/*", "idempotencyd/*",
                       "explanation/*", "include/*", "interceptors/*", "migrations/*", "postgres/*",
                       "proto/*", "server/*", "tracing/*")
    test_package_folder = "tests/install/conan"

    def set_version(self):
        self.version = load(self, os.path.join(self.recipe_folder, "VERSION")).strip()

    @property
    def _service(self):
        return bool(self.options.embedded or self.options.daemon)

    @property
    def _postgres(self):
        return bool(self._service or self.options.ledger_postgres)

    @property
    def _sqlite(self):
        return bool(self._service or self.options.ledger_sqlite or self.options.key_store_sqlite)

    def requirements(self):
        visible = {"transitive_headers": True, "transitive_libs": True}
        tested_grpc = self.options.server_guard and not self.options.allow_other_grpc
        self.requires("grpc/[>=1.51 <1.52 || >=1.83 <1.84]" if tested_grpc
                      else "grpc/[>=1.51 <2]", **visible)
        self.requires("protobuf/[>=3.21]", **visible)
        self.requires("abseil/[>=20220623]", **visible)
        self.requires("openssl/[>=3 <4]")
        self.requires("spdlog/[>=1.10 <2]")
        if self._postgres:
            self.requires("libpqxx/[>=6.4 <7 || >=7.10]", **visible)
            self.requires("libpq/[>=13]")
        if self._sqlite:
            self.requires("sqlite3/[>=3.35 <4]", **visible)
        if self._service:
            self.requires("hiredis/[>=0.14 <2]")
            self.requires("prometheus-cpp/[>=1 <2]", **visible)
            # Asio and Beast, of which the headers are all.
            self.requires("boost/[>=1.74 <2]", options={"header_only": True})

    def build_requirements(self):
        self.tool_requires("grpc/<host_version>")
        self.tool_requires("protobuf/<host_version>")

    def validate(self):
        check_min_cppstd(self, 17)
        if self.settings.os != "Linux":
            raise ConanInvalidConfiguration("grpc-idempotency has been built on Linux only")
        for ledger in ("ledger_postgres", "ledger_sqlite"):
            if self.options.get_safe(ledger) and not self.options.server_guard:
                raise ConanInvalidConfiguration(f"{ledger} needs server_guard")

    def layout(self):
        cmake_layout(self)

    def generate(self):
        CMakeDeps(self).generate()
        # libpqxx, libpq and hiredis are found by pkg-config.
        PkgConfigDeps(self).generate()
        toolchain = CMakeToolchain(self)
        toolchain.cache_variables.update({
            "IDEMPOTENCY_BUILD_CLIENT": bool(self.options.client),
            "IDEMPOTENCY_BUILD_GUARD": bool(self.options.server_guard),
            "IDEMPOTENCY_BUILD_DAEMON": self._service,
            "IDEMPOTENCY_POSTGRES": self._postgres,
            "IDEMPOTENCY_SQLITE": self._sqlite,
            "IDEMPOTENCY_BUILD_TESTS": False,
            "IDEMPOTENCY_BUILD_EXAMPLES": False,
            "IDEMPOTENCY_ALLOW_OTHER_GRPC": bool(self.options.allow_other_grpc),
        })
        toolchain.generate()

    def build(self):
        cmake = CMake(self)
        cmake.configure()
        cmake.build()

    def package(self):
        CMake(self).install()
        copy(self, "LICENSE", self.source_folder, os.path.join(self.package_folder, "licenses"))

    def package_info(self):
        # The installed package has a configuration of its own, with components and with
        # idempotency_protobuf_generate(): Conan generates none.
        self.cpp_info.set_property("cmake_find_mode", "none")
        self.cpp_info.builddirs = [os.path.join("lib", "cmake", "grpc-idempotency")]
        self.cpp_info.libs = []
