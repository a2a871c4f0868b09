"""Sorts a folder of logs into buckets, so that each record is whole in one and fits into memory."""

import os
import pathlib

from .log_format import ANSWERS, MalformedLine, parse

_RECORD_EVENTS = frozenset(("invoke", "start", "effect", "probe"))
_PENDING = 256 * 1024


class LogFolder:
    """The *.jsonl files under a folder; each was written by one process, from start to end."""

    def __init__(self, path):
        self.root = pathlib.Path(path)
        self.files = sorted(self.root.rglob("*.jsonl"))
        self.names = [str(file.relative_to(self.root)) for file in self.files]
        self.bytes = sum(file.stat().st_size for file in self.files)

    def name(self, line):
        return f"{self.names[line[0]]}:{line[1]}"

    def split(self, buckets, on_event, on_malformed):
        """Gives record events to `buckets`, the others to on_event(event, line).

        on_malformed(what, line) gets lines that are not of the format, or
        that answer no request. Returns the number of torn last lines: a
        process that is killed in mid-write leaves one.
        """
        torn = 0
        for number, path in enumerate(self.files):
            torn += self._split_file(number, path, buckets, on_event, on_malformed)
        return torn

    @staticmethod
    def _split_file(number, path, buckets, on_event, on_malformed):
        # The bucket of an answer: bounded by the number of operations in flight.
        sent, started = {}, {}
        with open(path, "rb") as file:
            for count, text in enumerate(file, 1):
                line = (number, count)
                if not text.endswith(b"\n"):
                    return 1
                try:
                    event = parse(text)
                except MalformedLine as what:
                    on_malformed(str(what), line)
                    continue
                kind = event["event"]
                if kind in _RECORD_EVENTS:
                    bucket = buckets.of(event["record"])
                    if kind == "invoke":
                        if event["id"] in sent:
                            on_malformed(f"operation {event['id']} is sent twice", line)
                            continue
                        sent[event["id"]] = bucket
                    elif kind == "start":
                        started[event["id"]] = bucket
                elif kind in ANSWERS or kind == "end":
                    bucket = (started if kind == "end" else sent).pop(event["id"], None)
                    if bucket is None:
                        on_malformed(f"{kind} of {event['id']}, which did not begin here", line)
                        continue
                else:
                    on_event(event, line)
                    continue
                buckets.add(bucket, line, text)
        return 0


class Buckets:
    """Files on disk with the lines of some records each, and their origins."""

    def __init__(self, folder, count):
        self._folder = folder
        self.count = count
        self._pending = [[] for _ in range(count)]
        self._sizes = [0] * count
        self._files = [open(os.path.join(folder, f"{n}.lines"), "wb") for n in range(count)]

    def of(self, record):
        return hash(tuple(record)) % self.count

    def add(self, bucket, line, text):
        self._pending[bucket].append(b"%d %d %s" % (line[0], line[1], text))
        self._sizes[bucket] += len(text)
        if self._sizes[bucket] > _PENDING:
            self._flush(bucket)

    def _flush(self, bucket):
        self._files[bucket].write(b"".join(self._pending[bucket]))
        self._pending[bucket].clear()
        self._sizes[bucket] = 0

    def close(self):
        for bucket, file in enumerate(self._files):
            self._flush(bucket)
            file.close()

    def paths(self):
        return [os.path.join(self._folder, f"{n}.lines") for n in range(self.count)]
