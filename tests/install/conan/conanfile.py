"""What `conan create` builds against the package: the client of tests/install."""

import os

from conan import ConanFile
from conan.errors import ConanException
from conan.tools.build import can_run
from conan.tools.cmake import CMake, CMakeDeps, CMakeToolchain, cmake_layout
from conan.tools.files import copy


class OrdersClientConan(ConanFile):
    settings = "os", "arch", "compiler", "build_type"

    def requirements(self):
        self.requires(self.tested_reference_str)

    def build_requirements(self):
        self.tool_requires("grpc/<host_version>")
        self.tool_requires("protobuf/<host_version>")

    def layout(self):
        cmake_layout(self)

    def generate(self):
        CMakeDeps(self).generate()
        CMakeToolchain(self).generate()

    def build(self):
        tree = os.path.join(self.build_folder, "orders")
        for part in ("client", "sources"):
            copy(self, "*", os.path.join(self.recipe_folder, os.pardir, part), tree)
        cmake = CMake(self)
        cmake.configure(build_script_folder=tree)
        cmake.build()

    def test(self):
        if not can_run(self):
            return
        client = os.path.join(self.cpp.build.bindir, "orders_client")
        # UNAVAILABLE: nothing listens there.
        if self.run(f"{client} 127.0.0.1:1", env="conanrun", ignore_errors=True) != 14:
            raise ConanException("the client does not end with UNAVAILABLE")
