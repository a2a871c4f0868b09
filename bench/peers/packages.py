"""Programs of the alternatives: built or installed into a folder, or the reason why not."""

import os
import pathlib
import shutil
import subprocess

HERE = pathlib.Path(__file__).parent
PROJECT = HERE.parent.parent
# A registry that does not answer must not hold up the others.
_LIMIT_S = 300


class LeftOut(Exception):
    """An alternative that cannot run on this machine, with the reason."""


def run(command, folder, environment=None, limit=_LIMIT_S):
    """Its output; LeftOut if it fails or takes too long."""
    name = pathlib.Path(command[0]).name
    try:
        done = subprocess.run(command, cwd=folder, env={**os.environ, **(environment or {})},
                              capture_output=True, text=True, timeout=limit, check=False)
    except FileNotFoundError as error:
        raise LeftOut(f"{name} is not on this machine") from error
    except subprocess.TimeoutExpired as error:
        raise LeftOut(f"`{name} {command[1]}` did not end within {limit} s") from error
    if done.returncode != 0:
        lines = (done.stderr.strip() or done.stdout.strip() or "no message").splitlines()
        raise LeftOut(f"`{name} {command[1]}` failed: {lines[-1][:200]}")
    return done.stdout


class Packages:
    """What is in `folder`, installed if it is missing and `install` is set."""

    def __init__(self, folder, install=True):
        self.folder = pathlib.Path(folder).absolute()
        self._install = install

    def _missing(self, path, how):
        if not self._install and not path.exists():
            raise LeftOut(f"not installed ({how}); run without --no-install")
        return self._install

    def go_program(self, name):
        """The path of a program of bench/peers/go, built from its sources."""
        program = self.folder / "bin" / name
        if self._missing(program, "Go"):
            self._generate()
            run(["go", "build", "-o", str(program), f"./{name}"], HERE / "go")
        return program

    def go_program_with(self, name, modules):
        """The path of the program of bench/peers/NAME, with Go modules from folders of the user's:
        `modules` by import path."""
        program = self.folder / "bin" / name
        if self._missing(program, "Go"):
            self._generate()
            folder = self.folder / name
            folder.mkdir(parents=True, exist_ok=True)
            for file in (HERE / name).iterdir():
                shutil.copy(file, folder)
            replaced = {"peers": HERE / "go", **modules}
            run(["go", "mod", "edit", *(f"-replace={module}={path}"
                                        for module, path in replaced.items())], folder)
            run(["go", "mod", "tidy"], folder)
            run(["go", "build", "-o", str(program), "."], folder)
        return program

    def _generate(self):
        """The Go code of charges.proto, by the plugins that go.mod names."""
        made, source = HERE / "go" / "chargesv1" / "charges.pb.go", HERE.parent / "charges.proto"
        if made.exists() and made.stat().st_mtime > source.stat().st_mtime:
            return
        tools = self.folder / "tools"
        run(["go", "install", "tool"], HERE / "go", {"GOBIN": str(tools)})
        options = []
        for language in ("go", "go-grpc"):
            options += [f"--{language}_out={HERE / 'go'}", f"--{language}_opt=module=peers",
                        f"--{language}_opt=Mbench/charges.proto=peers/chargesv1"]
        run(["protoc", "-I.", *options, "bench/charges.proto"], PROJECT,
            {"PATH": f"{tools}:{os.environ['PATH']}"})

    def node_folder(self, name):
        """A folder with the files of bench/peers/NAME and their modules."""
        folder = self.folder / name
        modules = folder / "node_modules"
        if self._missing(modules, "npm"):
            folder.mkdir(parents=True, exist_ok=True)
            lock = folder / "package-lock.json"
            fresh = modules.exists() and lock.exists() and (
                lock.read_bytes() == (HERE / name / "package-lock.json").read_bytes())
            for file in (HERE / name).iterdir():
                shutil.copy(file, folder)
            if not fresh:
                run(["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund"], folder)
        return folder

    def python(self, name):
        """The interpreter of a virtual environment with bench/peers/NAME/requirements.txt."""
        folder = self.folder / name
        interpreter = folder / "bin" / "python3"
        if self._missing(interpreter, "pip"):
            run(["python3", "-m", "venv", str(folder)], HERE)
            run([str(interpreter), "-m", "pip", "install", "--quiet", "-r",
                 str(HERE / name / "requirements.txt")], HERE)
        return interpreter
