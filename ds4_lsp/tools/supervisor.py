"""The process between the server and one command: it runs it, stores its output, and outlives no one.

A stand-alone script of the standard library, run as ``python -I -S supervisor.py PARENT CAP SHELL COMMAND`` with

- stdin: control. The lines ``term`` (SIGTERM to every process of the job) and ``kill`` (SIGKILL to every one, then
  exit). End of file means that the server is gone: the same as ``kill``.
- stdout: status lines. ``started PID``; ``size TOTAL DROPPED`` (bytes so far, bytes not kept) at most five times a
  second; ``exited STATUS LEFT`` when the command has ended (128 + n for signal n; LEFT processes go on in the
  background); ``lost TEXT`` when output could not be stored. End of file: no process of the job is left.
- stderr: the output file, opened for writing.

The command waits until ``started`` is written: whatever it does to its supervisor, its job is known by then. A
supervisor that it stops (SIGSTOP) goes on when the server wakes it, and (Linux) when the server dies. One that is
stopped again and again is killed by the server, with its job; when the server itself was killed, nobody is left to.

The command leads a session of its own, so that it has no terminal and one signal reaches its group. Processes that
left the group are found too: as a subreaper (``prctl(2)``, Linux) the supervisor inherits every orphan of its tree,
and the tree is read from /proc. Elsewhere only those with an unbroken chain of parents are found.
"""

from __future__ import annotations

import ctypes
import os
import select
import signal
import sys
import time

TAIL_BYTES = 65536
NOTE_BYTES = 64
TICK = 0.2
"""Seconds between two ``size`` lines."""
SETTLE = 0.1
"""Seconds that children of an ended command get to end too, before they count as left behind."""
PARENT_CHECK = 1.0
"""Seconds between looks at the parent's pid: a second line of defence, should another process hold stdin's pipe."""
KILL_DEADLINE = 2.0
"""Seconds after which processes that even SIGKILL does not end (in an uninterruptible wait) are given up."""
PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36
END_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


def limits(cap: int) -> tuple[int, int]:
    """(head, tail): bytes kept of the beginning and of the end of an output that is longer than ``cap`` bytes."""
    tail = min(TAIL_BYTES, cap // 4)
    return max(0, cap - tail - NOTE_BYTES), tail


class Sink:
    """The output file, of at most ``cap`` bytes: the beginning as it comes, then a note and a moving tail."""

    def __init__(self, fd: int, cap: int) -> None:
        self.fd = fd
        self.head_limit, self.tail_limit = limits(cap)
        self.head = 0
        self.tail = bytearray()
        self.total = 0
        self.dropped = 0
        self.dirty = False
        self.failure: str | None = None

    def write(self, data: bytes) -> None:
        self.total += len(data)
        room = self.head_limit - self.head
        if room > 0:
            piece = data[:room]
            self._put(piece, self.head)
            self.head += len(piece)
            data = data[room:]
        if data:
            self.tail += data
            excess = len(self.tail) - self.tail_limit
            if excess > 0:
                del self.tail[:excess]
                self.dropped += excess
            self.dirty = True

    def flush(self) -> None:
        if not self.dirty:
            return
        self.dirty = False
        note = f"\n[... {self.dropped} bytes not kept ...]\n".encode() if self.dropped else b""
        self._put(note + self.tail, self.head)
        if self.failure is None:
            os.ftruncate(self.fd, self.head + len(note) + len(self.tail))

    def _put(self, data: bytes | bytearray, offset: int) -> None:
        # A full disk must not stop the command: its output is read on, and is lost.
        view = memoryview(data)
        try:
            while view and self.failure is None:
                written = os.pwrite(self.fd, view, offset)
                view, offset = view[written:], offset + written
        except OSError as error:
            self.failure = error.strerror or str(error)


class Supervisor:
    def __init__(self, parent: int, cap: int, argv: list[str]) -> None:
        self.parent = parent
        self.argv = argv
        self.sink = Sink(2, cap)
        self.outbox = b""
        self.child = 0
        self.status: int | None = None
        self.settled_at = 0.0
        self.exit_told = False
        self.told_size = 0
        self.next_tick = 0.0
        self.failure_told = False
        self.over = False

    def run(self) -> None:
        """Until no process of the job is left, or the server is gone and every one was killed."""
        libc = ctypes.CDLL(None)
        if sys.platform == "linux":
            libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
            # The one signal that a stopped process hears of the server's death and still ends its job after.
            libc.prctl(PR_SET_PDEATHSIG, int(signal.SIGCONT), 0, 0, 0)
        self.wake, wake = os.pipe()
        for fd in (self.wake, wake, 0, 1):
            os.set_blocking(fd, False)
        signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
        for number in (signal.SIGCHLD, *END_SIGNALS):
            signal.signal(number, lambda _number, _frame: None)
        self.output, write_end = os.pipe()
        begin, gate = os.pipe()
        self.child = self._spawn(libc, write_end, begin, gate)
        os.close(write_end)
        os.close(begin)
        os.set_blocking(self.output, False)
        self.poller = select.poll()
        for fd in (0, self.wake, self.output):
            self.poller.register(fd, select.POLLIN)
        self._tell(f"started {self.child}")
        os.close(gate)
        while not self.over:
            self._turn()
        self._flush_status()

    def _spawn(self, libc: ctypes.CDLL, output: int, begin: int, gate: int) -> int:
        """Fork the command, which begins when ``gate`` is closed."""
        supervisor = os.getpid()
        pid = os.fork()
        if pid:
            return pid
        try:
            os.setsid()
            if sys.platform == "linux":
                libc.prctl(PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)
                if os.getppid() != supervisor:
                    os._exit(127)
            os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
            os.dup2(output, 1)
            os.dup2(output, 2)
            # An ignored signal stays ignored across exec, and Python ignores SIGPIPE.
            for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
                if signal.getsignal(number) is not signal.SIG_DFL:
                    signal.signal(number, signal.SIG_DFL)
            signal.pthread_sigmask(signal.SIG_SETMASK, ())
            os.close(gate)
            os.read(begin, 1)
            os.execv(self.argv[0], self.argv)
        except BaseException as error:
            os.write(2, f"cannot run {self.argv[0]}: {error}\n".encode(errors="replace"))
        finally:
            os._exit(127)

    def _turn(self) -> None:
        ready = dict(self.poller.poll(self._timeout() * 1000))
        if os.getppid() != self.parent:
            self.over = True
        if self.wake in ready and set(END_SIGNALS) & set(os.read(self.wake, 512)):
            self.over = True
        if 0 in ready:
            self._control()
        if self.output in ready:
            self._read_output()
        if 1 in ready:
            self.over |= bool(ready[1] & select.POLLERR)
            self._flush_status()
        if self.over:
            self._kill()
            return
        alive = self._reap()
        self._tick(time.monotonic())
        if self.status is not None and not self.exit_told and (not alive or time.monotonic() >= self.settled_at):
            self._tell_exit(len(living(descendants(os.getpid()))) if alive else 0)
        if self.exit_told and not alive:
            self._drain()
            self.over = True

    def _timeout(self) -> float:
        timeout = PARENT_CHECK
        now = time.monotonic()
        if self.sink.total != self.told_size:
            timeout = min(timeout, self.next_tick - now)
        if self.status is not None and not self.exit_told:
            timeout = min(timeout, self.settled_at - now)
        return max(timeout, 0.001)

    def _control(self) -> None:
        words = os.read(0, 4096)
        if not words or b"kill" in words:
            self.over = True
        elif b"term" in words:
            for pid in descendants(os.getpid()):
                send(pid, signal.SIGTERM)
                send(pid, signal.SIGCONT)

    def _read_output(self) -> bool:
        try:
            data = os.read(self.output, 65536)
        except BlockingIOError:
            return False
        if not data:
            self.poller.unregister(self.output)
            os.close(self.output)
            self.output = -1
            return False
        self.sink.write(data)
        return True

    def _drain(self) -> None:
        # What an ended command wrote is in the pipe, which holds 64 KiB by default and 1 MiB at most; more than that
        # comes from processes that it left behind.
        for _ in range(16):
            if self.output < 0 or not self._read_output():
                break
        self.next_tick = 0.0
        self._tick(time.monotonic())

    def _tick(self, now: float) -> None:
        if self.sink.total == self.told_size or now < self.next_tick or self.outbox:
            return
        self.next_tick = now + TICK
        self.sink.flush()
        self.told_size = self.sink.total
        self._tell(f"size {self.sink.total} {self.sink.dropped}")
        if self.sink.failure and not self.failure_told:
            self.failure_told = True
            self._tell(f"lost {self.sink.failure}")

    def _tell_exit(self, left: int) -> None:
        self._drain()
        self.exit_told = True
        code = os.waitstatus_to_exitcode(self.status or 0)
        self._tell(f"exited {code if code >= 0 else 128 - code} {left}")

    def _reap(self) -> bool:
        """Collect what has ended; whether any process of the job is left."""
        try:
            while True:
                pid, status = os.waitpid(-1, os.WNOHANG)
                if pid == 0:
                    return True
                if pid == self.child:
                    self.status = status
                    self.settled_at = time.monotonic() + SETTLE
        except ChildProcessError:
            return False

    def _kill(self) -> None:
        deadline = time.monotonic() + KILL_DEADLINE
        pause = 0.001
        while self._reap() and time.monotonic() < deadline:
            for pid in freeze(os.getpid()):
                send(pid, signal.SIGKILL)
            time.sleep(pause)
            pause = min(pause * 2, 0.02)
        if self.status is not None and not self.exit_told:
            self._tell_exit(0)

    def _tell(self, line: str) -> None:
        self.outbox += line.encode() + b"\n"
        self._flush_status()

    def _flush_status(self) -> None:
        try:
            self.outbox = self.outbox[os.write(1, self.outbox) :] if self.outbox else b""
        except BlockingIOError:
            self.poller.register(1, select.POLLOUT)
            return
        except BrokenPipeError:
            self.over = True
            self.outbox = b""
        if not self.outbox:
            self.poller.register(1, 0)


def send(pid: int, number: int) -> None:
    """Signal a process that may be gone, or another user's."""
    try:
        os.kill(pid, number)
    except (ProcessLookupError, PermissionError):
        return


def descendants(root: int) -> dict[int, str]:
    """Every process below ``root``, with its state as in proc(5)."""
    table = processes()
    children: dict[int, list[int]] = {}
    for pid, (parent, _state) in table.items():
        children.setdefault(parent, []).append(pid)
    found: dict[int, str] = {}
    pending = [root]
    while pending:
        for pid in children.get(pending.pop(), ()):
            if pid not in found:
                found[pid] = table[pid][1]
                pending.append(pid)
    return found


def living(found: dict[int, str]) -> list[int]:
    return [pid for pid, state in found.items() if state not in "ZX"]


def freeze(root: int) -> list[int]:
    """Stop every process below ``root``, so that none can fork away from the kill that follows."""
    seen: set[int] = set()
    while new := descendants(root).keys() - seen:
        for pid in new:
            send(pid, signal.SIGSTOP)
        seen |= new
    return list(seen)


def processes() -> dict[int, tuple[int, str]]:
    """(parent, state) of every process."""
    if sys.platform != "linux":
        return _processes_by_ps()
    table: dict[int, tuple[int, str]] = {}
    with os.scandir("/proc") as entries:
        for name in [entry.name for entry in entries if entry.name.isdigit()]:
            try:
                # The command's name stands in parentheses and may itself hold any character.
                state, parent = _read(f"/proc/{name}/stat").rpartition(b")")[2].split()[:2]
            except (OSError, ValueError):
                continue
            table[int(name)] = int(parent), state.decode()
    return table


def _read(path: str) -> bytes:
    fd = os.open(path, os.O_RDONLY)
    try:
        return os.read(fd, 4096)
    finally:
        os.close(fd)


def _processes_by_ps() -> dict[int, tuple[int, str]]:
    with os.popen("ps -A -o pid=,ppid=,state=") as file:
        rows = [line.split() for line in file]
    return {int(row[0]): (int(row[1]), row[2][:1]) for row in rows if len(row) >= 3}


def main(argv: list[str]) -> None:
    parent, cap, shell, command = argv
    Supervisor(int(parent), int(cap), [shell, "-c", command]).run()


if __name__ == "__main__":
    main(sys.argv[1:])
