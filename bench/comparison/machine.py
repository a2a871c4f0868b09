"""The machine and the sources of a run."""

import os
import pathlib
import platform
import subprocess


def machine():
    model = next((line.partition(":")[2].strip()
                  for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines()
                  if line.startswith("model name")), platform.machine())
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return {"processor": model, "processors": len(os.sched_getaffinity(0)),
            "memory_gib": round(memory, 1), "kernel": platform.release(),
            "load_average_before": os.getloadavg()[0]}


def commit():
    def git(*arguments):
        done = subprocess.run(["git", *arguments], capture_output=True, text=True, check=False)
        return done.stdout.strip()
    name = git("rev-parse", "--short", "HEAD") or "unknown"
    return name + ("+changes" if git("status", "--porcelain", "--untracked-files=no") else "")


def is_busy(load_average, processors):
    """Whether other work ran beside the measurement."""
    return load_average > processors / 2


def busy_note(load_average, processors):
    """For the caption of numbers that were taken beside other work, or nothing."""
    if not is_busy(load_average, processors):
        return ""
    return f"; beside other work (load average {load_average:.0f})"
