"""Runs of the program under limits of memory and time, and what the program promises of each: shared by the scripts
here.

A run ends with exit code 0, or with 1 or 2 and one sentence on stderr; never by a signal, and never with an internal
error.
"""

import os
import resource
import signal
import subprocess
import tempfile
import time

MAY_ADD = ("Run `headroom", "Run with --help", "See `headroom", "Try")  # the hint below a usage error


class Run:
    """One run that has ended."""

    def __init__(self, code, out, err, seconds, cpu_seconds, timed_out):
        self.code, self.out, self.err = code, out, err
        self.seconds, self.cpu_seconds, self.timed_out = seconds, cpu_seconds, timed_out

    def fault(self, most_seconds, verdicts=()):
        """What is wrong with it, or None. A refusal takes at most so many seconds; `verdicts` are exit codes of what
        compares.
        """
        text = self.err.decode("utf-8", "replace")
        if self.timed_out:
            return f"still ran after {self.seconds:.0f} s"
        if self.code < 0 or self.code >= 128:
            return f"ended by signal {-self.code if self.code < 0 else self.code - 128}: {text[-300:]}"
        if "internal error" in text or "internal error" in self.out.decode("utf-8", "replace"):
            return "internal error: " + text[-500:]
        if self.code not in (0, 1, 2, *verdicts):
            return f"exit code {self.code}: {text[-300:]}"
        if self.code in (1, 2) and self.cpu_seconds > most_seconds:
            return f"took {self.cpu_seconds:.1f} s of one core to refuse, {most_seconds:.0f} are allowed: {text[-300:]}"
        if self.code in (1, 2):
            lines = [line for line in text.split("\n") if line and not line.startswith("warning: ")]
            sentences = [line for line in lines if line.startswith("headroom: ")]
            if len(sentences) != 1:
                return f"{len(sentences)} sentences in place of one: {text[-500:]!r}"
            if len(lines) > 2:
                return f"{len(lines)} lines: {text[-500:]!r}"
        return None


def run(command, *, input=b"", memory_bytes=8 << 30, most_seconds=60, cwd=None, env=None, file_bytes=1 << 30):
    """Runs it with that much address space, and kills it after so many seconds of the clock."""

    def limit():
        resource.setrlimit(resource.RLIMIT_AS, (memory_bytes, memory_bytes))
        resource.setrlimit(resource.RLIMIT_FSIZE, (file_bytes, file_bytes))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))

    environment = dict(os.environ, OMP_NUM_THREADS="2", OMP_WAIT_POLICY="passive", CUDA_VISIBLE_DEVICES="")
    environment.update(env or {})
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err, tempfile.TemporaryFile() as stdin:
        stdin.write(input)
        stdin.seek(0)
        begin = time.monotonic()
        process = subprocess.Popen(command, stdin=stdin, stdout=out, stderr=err, cwd=cwd, env=environment, preexec_fn=limit)
        timed_out = False
        usage = None
        while usage is None:
            pid, status, used = os.wait4(process.pid, os.WNOHANG)
            if pid != 0:
                usage = used
                break
            if time.monotonic() - begin > most_seconds and not timed_out:
                timed_out = True
                process.send_signal(signal.SIGKILL)
            time.sleep(0.002)
        code = os.waitstatus_to_exitcode(status)
        process.returncode = code
        seconds = time.monotonic() - begin
        out.seek(0)
        err.seek(0)
        return Run(code, out.read(1 << 22), err.read(1 << 22), seconds, usage.ru_utime + usage.ru_stime, timed_out)
