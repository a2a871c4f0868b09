"""DBOS: the key is the id of a workflow."""

from .contender import Contender, Target
from .packages import HERE, run

_THREADS = 64


class DbosWorkflows(Contender):
    """A gRPC server in Python whose handler is a workflow."""

    key = "dbos"
    title = "DBOS workflow ids (Python)"
    settings = (f"a workflow without steps, called directly; {_THREADS} threads of gRPC, DBOS's "
                "own pool of 20 connections by unix socket")
    durability = "every commit is flushed before it is acknowledged (fsync, synchronous_commit)"
    not_comparable = ("a workflow engine: it also recovers workflows after a crash; the "
                      "interpreter runs on one core; the request is not compared with the first one")

    def __init__(self):
        self._python = None

    def prepare(self, bench, packages):
        self._python = packages.python("dbos")

    def versions(self, bench):
        found = run([str(self._python), "-c",
                     "import platform; from importlib.metadata import version;"
                     "print(version('dbos'), version('grpcio'), platform.python_version())"], HERE)
        dbos, grpcio, python = found.split()
        return {"dbos": dbos, "grpcio": grpcio, "language": f"Python {python}"}

    def start(self, bench):
        store = bench.cluster.url(bench.cluster.new_database())
        server = bench.start("dbos", [
            str(self._python), str(HERE / "dbos" / "charges_server.py"), store, str(_THREADS)])
        address = server.wait_for_line("charges: serving on ").split("serving on ")[1]
        return Target([f"-target={address}"])
