"""The CPU time of a load, by purpose."""

import pathlib
import re
import signal
import subprocess

FREQUENCY = 499
# The part of a thread's stack that is sampled; the frames above it show the purpose of the
# rest.
STACK_BYTES = 16384

# The purpose of a frame, by its function or its library; the innermost frame with a rule
# decides. So the time of the kernel, the allocator and protobuf counts for the part that called
# them.
RULES = [(what, re.compile(pattern)) for what, pattern in [
    ("gRPC", r"libgrpc|libgpr|\bgrpc(_|::)|\bgpr_"),
    ("SQL, our side", r"libpq|\bpqxx::|Postgres|Sqlite|libsqlite|CompleteRound|SocketWatchdog"),
    ("framing",
     r"idempotency::internal::(Session|OutstandingOperation|AnswerFrames|RequestFrame"
     r"|GatheredAnswers|UnansweredOperation)|GrpcSessionStream"),
    ("batching",
     r"idempotency::internal::(Batcher|BatchRunner|OperationQueues|QueuedFor|StoreCall|HeldCall"
     r"|FairQueue|RecordQueue|AnswerBatchScope|DeferredStore)"),
    ("service", r"idempotency::internal::(Operations|IdempotencyService|InFlightWaiters|Metrics)"),
    ("load", r"idempotency::internal::bench::"),
]]
OURS = re.compile(r"idempotency::")
# The project's own code without a rule, by the kind of process.
OWN_WORK = {"charges": "guard", "idempotencyd": "service", "load": "client"}
WAL = re.compile(r"^(XLog|pg_pwritev|WalWriter|issue_xlog)|fdatasync")


def spent_for(kind, frames):
    """The purpose of a sample of a process of `kind`; `frames` are innermost first."""
    if kind == "postgres":
        return "WAL" if any(WAL.search(frame) for frame in frames) else "SQL"
    for frame in frames:
        for what, pattern in RULES:
            if pattern.search(frame):
                return what
        if OURS.search(frame):
            return OWN_WORK[kind]
    return "other"


def samples(text):
    """From the output of `perf script -F pid,ip,sym,dso`: pid, frames."""
    for block in text.split("\n\n"):
        lines = block.strip().split("\n")
        if not lines[0].strip().isdigit():
            continue
        frames = []
        for line in lines[1:]:
            _, _, rest = line.strip().partition(" ")
            symbol, _, library = rest.rpartition(" (")
            frames.append(library.rstrip(")") if symbol in ("[unknown]", "") else symbol)
        yield int(lines[0]), frames


class Profile:
    """Samples the whole machine from its creation until micros() is called."""

    def __init__(self, folder):
        self._file = pathlib.Path(folder) / "perf.data"
        self._perf = subprocess.Popen(
            ["perf", "record", "-q", "-a", "-F", str(FREQUENCY),
             "--call-graph", f"dwarf,{STACK_BYTES}", "-o", str(self._file)],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)

    def stop(self):
        self._perf.send_signal(signal.SIGINT)
        self._perf.wait(timeout=60)

    def micros(self, kinds, pieces):
        """Microseconds by (kind of process, purpose) in each of so many pieces of work;
        `kinds` by pid. Processes that are not named are left out."""
        done = subprocess.run(
            ["perf", "script", "-i", str(self._file), "--no-inline", "-F", "pid,ip,sym,dso"],
            capture_output=True, text=True, timeout=1200, check=True, errors="replace")
        self._file.unlink()
        counts = {}
        for pid, frames in samples(done.stdout):
            if pid in kinds:
                key = f"{kinds[pid]}: {spent_for(kinds[pid], frames)}"
                counts[key] = counts.get(key, 0) + 1
        return {key: round(count * 1e6 / FREQUENCY / pieces, 1)
                for key, count in sorted(counts.items(), key=lambda entry: -entry[1])}
