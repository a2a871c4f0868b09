"""The workshop's build with one source changed. Only the changed parts are compiled and linked,
into a separate folder, so that several changes are tried at a time on one build."""

import json
import pathlib
import re
import shlex
import shutil

from tests.mutations.sandbox import Sandbox
from tests.mutations.workshop import Failed

_LIMIT = 900


class Links:
    """The commands that link the libraries and programs of a build, by their output."""

    def __init__(self, description):
        """`description` is the output of `ninja -t compdb`."""
        self._commands = {}
        for edge in json.loads(description):
            # A link is a line for the shell: `: && clang++ ... -o MADE A.o B.o ... && :`.
            if edge["command"].startswith(":") and re.match(r"bin/|.*\.so[.\d]*$", edge["output"]):
                self._commands[edge["output"]] = edge["command"]

    def made_of(self, objects):
        """The libraries and programs that have one of the objects in them."""
        return sorted(made for made, command in self._commands.items()
                      if not objects.isdisjoint(command.split()))

    def loaded_as(self, made):
        """The name by which programs load it."""
        soname = re.search(r" -Wl,-soname,(\S+) ", self._commands[made])
        return soname[1] if soname else pathlib.PurePath(made).name

    def command(self, made, replaced):
        """The command that makes it, with other files in place of those that `replaced`
        names."""
        return " ".join(replaced.get(word, word) for word in self._commands[made].split(" "))


class Variant:
    """Does for one Bench the work of a Workshop, without a copy of the tree: the planted file
    is
    compiled from here, and the programs find its libraries first. Not thread-safe; any number
    may share a workshop that does not change meanwhile."""

    def __init__(self, workshop, build, links):
        self.tree = workshop.tree
        self.build_folder = workshop.build_folder
        self._build = build
        self._links = links
        self._sandbox = Sandbox("mutant.")
        self._sources = self._sandbox.folder / "sources"
        self._objects = self._sandbox.folder / "objects"
        self._libraries = self._sandbox.folder / "libraries"
        self._programs = self._sandbox.folder / "bin"
        self._planted = None
        self._replaced = {}

    def __enter__(self):
        self._sandbox.set_environment(LD_LIBRARY_PATH=str(self._libraries), CCACHE_DISABLE="1")
        self.take_out()
        return self

    def __exit__(self, *error):
        self._sandbox.__exit__(*error)

    @property
    def scratch(self):
        """A folder for files that are not needed later."""
        return self._sandbox.folder

    def end_at(self, instant):
        self._sandbox.end_at(instant)

    def stop(self):
        self._sandbox.stop()

    def run(self, command, limit):
        return self._sandbox.run(command, limit)

    def replace(self, file, text):
        """The file has this text until take_out()."""
        self._planted = file
        (self._sources / file).parent.mkdir(parents=True, exist_ok=True)
        (self._sources / file).write_text(text)

    def take_out(self):
        self._planted = None
        self._replaced = {}
        for folder in (self._sources, self._objects, self._libraries, self._programs):
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
        # A test starts the programs beside it.
        for program in (self.build_folder / "bin").iterdir():
            (self._programs / program.name).symlink_to(program)

    def object_path(self, made):
        return pathlib.Path(self._replaced.get(made, self.build_folder / made))

    def command_of(self, file):
        """(the command that compiles it, its folder), for the file in this variant."""
        made, command, folder = self._build.commands[file]
        arguments = shlex.split(command)
        if self._planted is not None:
            arguments = [str(self._sources / file) if file == self._planted
                         and part == str(self.tree / file) else part for part in arguments]
            # Headers are searched here first.
            at = arguments.index(f"-I{self.tree}")
            arguments[at:at] = [f"-I{self._sources}",
                                f"-ffile-prefix-map={self._sources}={self.tree}"]
        path = str(self._objects / made)
        arguments[arguments.index("-o") + 1] = path
        if "-MF" in arguments:
            arguments[arguments.index("-MF") + 1] = path + ".d"
        return arguments, folder

    def build(self, targets):
        """Object files by their name in the build, and tests by theirs. Raises Failed."""
        if self._planted is None:
            return
        users = {self._build.object_of(user): user for user in self._build.users(self._planted)}
        for target in targets:
            if target in users:
                self._compile(target, users[target])
            else:
                self._build_test(target, users)

    def test(self, command, limit):
        status, output = self.run(
            ["nice", self._programs / command[0], *command[1:]], limit)
        self._sandbox.end_leftovers()
        return status, output

    def _build_test(self, target, users):
        started = self.build_folder / "bin" / f"{target}.programs"
        programs = {target, *(started.read_text().split() if started.exists() else ())}
        linked = self._links.made_of(set(users))
        if not linked:
            raise RuntimeError(f"nothing links {self._planted}: a test would not run it")
        for made in linked:
            name = self._links.loaded_as(made)
            if made in self._replaced or (made.startswith("bin/") and name not in programs):
                continue
            command = self._links.command(made, {})
            for path, source in users.items():
                if path in command.split():
                    self._compile(path, source)
            self._link(made, name)

    def _compile(self, made, source):
        if made in self._replaced:
            return
        arguments, folder = self.command_of(source)
        (self._objects / made).parent.mkdir(parents=True, exist_ok=True)
        self._expect(["env", "-C", folder, *arguments])
        self._replaced[made] = str(self._objects / made)

    def _link(self, made, name):
        place = (self._programs if made.startswith("bin/") else self._libraries) / name
        place.unlink(missing_ok=True)
        command = self._links.command(made, {**self._replaced, made: str(place)})
        self._expect(["env", "-C", self.build_folder, "sh", "-c", command])
        self._replaced[made] = str(place)

    def _expect(self, command):
        status, output = self.run(["nice", *command], _LIMIT)
        if status != 0:
            errors = [line for line in output.splitlines() if "error" in line]
            raise Failed("it does not build: " + "; ".join(errors[:3]))


def links_of(workshop):
    _, description = workshop.run(
        ["ninja", "-C", workshop.build_folder, "-t", "compdb"], 60)
    return Links(description[description.index("["):])
