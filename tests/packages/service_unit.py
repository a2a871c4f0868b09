"""A systemd unit, as far as its program can be started without systemd."""

import pathlib
import re
import shlex


class ServiceUnit:

    def __init__(self, path):
        self.settings = {}
        for line in pathlib.Path(path).read_text().splitlines():
            if re.match(r"\w+=", line):
                name, value = line.split("=", 1)
                self.settings.setdefault(name, []).append(value)

    def one(self, name):
        """The value of a setting that is set once."""
        value, = self.settings[name]
        return value

    def environment(self, root, credentials):
        """Of the service; files are below `root`, the folder of credentials is `credentials`."""
        found = {}
        for setting in self.settings.get("Environment", []):
            name, value = setting.split("=", 1)
            found[name] = value.replace("%d", credentials)
        for file in self.settings.get("EnvironmentFile", []):
            for line in (pathlib.Path(root) / file.lstrip("/")).read_text().splitlines():
                if line and not line.startswith("#"):
                    name, value = line.split("=", 1)
                    found[name] = "".join(shlex.split(value))
        return found

    def command(self, environment):
        """The words of ExecStart: ${NAME} is part of a word, $NAME is words."""
        words = []
        for word in self.one("ExecStart").split():
            if whole := re.fullmatch(r"\$(\w+)", word):
                words += shlex.split(environment[whole[1]])
            else:
                words.append(re.sub(r"\$\{(\w+)\}", lambda name: environment[name[1]], word))
        return words
