"""Starts the script of one rank and tells the launcher how it ended.

An engine runs this as a file, once per rank, so it imports nothing but the standard library. It is here because
torchrun tells which rank failed first only to a tenth of a second, and in prose; and horovodrun loses its exit code.
On another machine than the launcher's it leaves a note in the folder of the logs, which may be shared.
"""

from __future__ import annotations

import contextlib
import json
import os
import resource
import signal
import socket
import subprocess
import sys
import threading
import time

GRACE_SECONDS = 10.0
#: horovodrun ends all ranks once one has failed, and a rank that lost another may be the first to fail.
LAST_WORDS_SECONDS = 1.0
#: Where each launcher says which rank this is.
RANKS = ("RANK", "HOROVOD_RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID")
#: With this mark, the launcher sees to the others where a rank fails: an engine may leave them no time.
LED = b"\1"
#: In front of a rank's number: what its signs for the launcher are called, beside the channel.
SIGNS = "rank"


def main() -> int:
    """Runs `sys.argv[1:]` (each word behind its mark) and returns the exit code; negative: the signal."""
    rank = int(next(os.environ[name] for name in RANKS if name in os.environ))
    if "DISTIFY_CHANNEL" not in os.environ:
        return by_notes(rank, os.environ.pop("DISTIFY_LOGS"))
    channel = socket.socket(socket.AF_UNIX)
    where = os.environ.pop("DISTIFY_CHANNEL")
    channel.connect(where)
    with contextlib.suppress(OSError):  # torchrun has done it, horovodrun has not
        os.setsid()
    tell(channel, {"rank": rank, "pid": os.getpid(), "host": os.environ.pop("DISTIFY_HOST", "")})
    mark, descriptors, _, _ = socket.recv_fds(channel, 1, 2)
    if len(descriptors) != 2:
        return 1  # the launcher has gone
    ended_by = note_signals()
    os.environ["DISTIFY_SIGNS"] = os.path.join(os.path.dirname(where), f"{SIGNS}{rank}")
    script = start(rank, descriptors[0], descriptors[1])
    for descriptor in descriptors:
        os.close(descriptor)
    threading.Thread(target=heed_launcher, args=(channel, script), daemon=True).start()
    code = script.wait()
    tell(channel, {"code": code, "ended": time.time(), "stopped": bool(ended_by)})
    if mark == LED:
        return 0
    if code != 0 and not ended_by and "RANK" not in os.environ:  # torchrun's
        time.sleep(LAST_WORDS_SECONDS)
    return code


def start(rank: int, out: int | None, err: int | None) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, *(word[1:] for word in sys.argv[1:])],
        # Ranks that read one stdin would each get a part of it; a terminal may be asked for its size.
        stdin=None if rank == 0 or sys.stdin.isatty() else subprocess.DEVNULL,
        stdout=out,
        stderr=err,
        pass_fds=[int(word) for word in os.environ.pop("DISTIFY_DESCRIPTORS", "").split()],
    )


def by_notes(rank: int, folder: str) -> int:
    """The same where no launcher can be reached: rank 0 prints, and the engine shows that; the others write their logs
    on their own machines."""
    os.makedirs(folder, exist_ok=True)
    ended_by = note_signals()
    if rank == 0:
        script = start(rank, None, None)
    else:
        with open(os.path.join(folder, f"rank{rank}.log"), "wb") as log:
            script = start(rank, log.fileno(), log.fileno())
    code = script.wait()
    note = {"rank": rank, "code": code, "ended": time.time(), "stopped": bool(ended_by), "host": socket.gethostname()}
    path = os.path.join(folder, f"rank{rank}.end")
    with open(path + ".new", "w", encoding="utf-8") as file:
        json.dump(note, file)
    os.replace(path + ".new", path)
    if code != 0 and not ended_by:
        time.sleep(LAST_WORDS_SECONDS)
    # MPICH lets the others go on, whatever a rank's exit code is, unless a signal has killed it.
    return -signal.SIGKILL if code > 0 and "PMI_RANK" in os.environ else code


def tell(channel: socket.socket, message: dict[str, object]) -> None:
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):
        channel.sendall(json.dumps(message).encode() + b"\n")


def note_signals() -> list[int]:
    """From now on, signals that end a process are for the script: this process notes them and outlives it."""
    noted: list[int] = []
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
        if signal.getsignal(number) is not signal.SIG_IGN:  # ignored (nohup): the script inherits that
            # A handler, not SIG_IGN: the script must start with the default action.
            signal.signal(number, lambda number, _: noted.append(number))
    return noted


def heed_launcher(channel: socket.socket, script: subprocess.Popen[bytes]) -> None:
    """Sends the script what signals it is to be sent. Ends this rank when the launcher is gone without a word
    (SIGKILL): nobody else would."""
    with contextlib.suppress(ConnectionResetError):
        while numbers := channel.recv(1):
            script.send_signal(numbers[0])
    os.killpg(0, signal.SIGTERM)
    time.sleep(GRACE_SECONDS)
    os.killpg(0, signal.SIGKILL)


def leave(code: int) -> None:
    """Ends this process as the script ended, so that the launcher sees the same."""
    if code >= 0:
        sys.exit(code)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # the script has left its core file, one is enough
    if -code not in (signal.SIGKILL, signal.SIGSTOP):
        signal.signal(-code, signal.SIG_DFL)
    os.kill(os.getpid(), -code)


if __name__ == "__main__":
    leave(main())
