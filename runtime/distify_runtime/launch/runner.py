"""Runs an engine with its ranks to the end, whichever end it is."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import socket
import tempfile
import time
from pathlib import Path

from distify_runtime.launch.agents import Agent
from distify_runtime.launch.channel import LED, PLAIN, Supervisor
from distify_runtime.launch.config import LaunchConfig
from distify_runtime.launch.engines import ENGINES, start
from distify_runtime.launch.joining import Joining
from distify_runtime.launch.logs import open_log, prepare_logs, short_folder, take_notes
from distify_runtime.launch.machines import Machines
from distify_runtime.launch.news import News
from distify_runtime.launch.processes import (
    ENDING_SIGNALS,
    SCRIPTS_SIGNALS,
    adopting_orphans,
    children,
    end_leftovers,
    send,
    signals_as_bytes,
)
from distify_runtime.launch.ranks import LAST_WORDS_SECONDS, keep_port
from distify_runtime.launch.report import RankEnd, ended_well, read_tail
from distify_runtime.launch.screen import Screen, open_standard_streams
from distify_runtime.launch.stopped import Stopped
from distify_runtime.launch.verdict import verdict

LONGEST_WAIT = 0.2  # seconds; SIGCHLD ends a wait, this is for the signal that was merged into another
FOR_EVER = float("inf")
TIMED_OUT = 124  # as of timeout(1)


def launch(config: LaunchConfig) -> int:
    """Runs the script on all ranks and returns the exit code: 0, the first failing rank's, or 128 + signal.

    Rank 0 is on this process's stdout and stderr, each rank in `config.logs`. When a rank fails or a signal
    asks for the end, every process that the ranks started is gone on return. Main thread only. Raises
    LaunchError where the logs cannot be made.
    """
    prepare_logs(config)
    open_standard_streams()
    with contextlib.ExitStack() as stack:
        log = open_log(config.log(0)) if config.has_rank_0 else os.open(os.devnull, os.O_WRONLY)
        stack.callback(os.close, log)
        screen = Screen(log)
        stack.callback(screen.close)
        folder = tempfile.TemporaryDirectory(prefix="distify-", dir=short_folder())
        scratch = Path(stack.enter_context(folder))
        wakeup = stack.enter_context(signals_as_bytes())
        stack.enter_context(adopting_orphans())
        listener = stack.enter_context(socket.socket(socket.AF_UNIX))
        listener.bind(str(scratch / "channel"))
        listener.listen(config.nproc)
        machines = Machines(config, stack.enter_context(News(config.nodes)))
        job = Job(machines, screen, listener, wakeup, scratch)
        code = job.run(stack.enter_context(keep_port()).getsockname()[1])
    if not read_tail(config.agent_log):
        config.agent_log.unlink(missing_ok=True)
    return code


class Job:
    """One launch, from the launcher's start until nothing of it is left."""

    def __init__(
        self, machines: Machines, screen: Screen, listener: socket.socket, wakeup: socket.socket, scratch: Path
    ) -> None:
        self.config = config = machines.config
        self._scratch = scratch
        self._joining = Joining(config, os.environ, scratch)
        self._stopped = Stopped(config, scratch)
        self._engine = ENGINES[config.launcher]
        self._machines = machines
        self.screen = screen
        self._listener = listener
        self._wakeup = wakeup
        self._supervisors: dict[int, Supervisor] = {}
        self._groups: dict[int, int] = {}  # rank: process group
        self._ends: dict[int, RankEnd] = {}
        self._starts = 1  # how often the ranks were started
        self._failed: set[int] = set()  # which of the starts a rank of this machine has failed in
        self._deadline = time.monotonic() + config.timeout if config.timeout else FOR_EVER
        self._signal = 0  # the one that ended the job
        self._kill_at = FOR_EVER
        self._ask_at = FOR_EVER  # when the others of one that failed are asked to end, where no engine does so

    def run(self, port: int) -> int:
        """Starts the engine, sees it through, and returns the exit code. The ranks of this machine meet at `port`."""
        spared = children()
        noun = "rank" if self.config.nproc == 1 else "ranks"
        here = "" if self.config.nodes is None else f" on this one of {self.config.nodes.count} machines"
        self.screen.say(f"distify: {self.config.nproc} {noun}{here}, logs in {self.config.logs}")
        with open(self.config.agent_log, "wb") as log:
            # What it says is what ranks on other machines print, too.
            output = (log.fileno(), log.fileno()) if self.config.here else self.screen.targets()
            agent = start(self.config, os.environ, self._scratch, port, output)
        while agent.poll() is None:
            self._wait(agent)
        self._take_rest()
        self._ends.update(take_notes(self.config.logs))
        code = 0
        told = self.config.nproc if self.config.here else 0  # others' notes may be where they are
        if agent.returncode or self._signal or not ended_well(self._ends.values(), told):
            self._kill_at = min(self._kill_at, time.monotonic() + self.config.grace)
            end_leftovers(self._groups.values(), spared, self._patience)
            self._take_rest()
            self._machines.tell(self._ends.values(), for_good=self._has_failed, settled=0)
            if self._ends and not self._signal:
                self._machines.wait_for_cause(self._look, self._is_hurried)
            code = self._report(agent.returncode or 0)
            self._take_rest()
        return code

    def _wait(self, agent: Agent) -> None:
        """Waits for the next thing to happen and sees to it."""
        self._look(min(LONGEST_WAIT, max(0.0, self._seconds_left())))
        if time.monotonic() > self._deadline and not self._signal:
            self.screen.say(f"distify: not done within {self.config.timeout:g} s (--timeout); ending all ranks")
            self._end(agent, signal.SIGALRM)
        for number in self._signals():
            if number == signal.SIGWINCH:
                self.screen.resize()
            elif number in ENDING_SIGNALS:
                self._end(agent, number)
            elif number in SCRIPTS_SIGNALS:
                for rank in self._groups.keys() - self._ends.keys():
                    self._ask(rank, number)
        self._see_who_joins(agent)
        self._machines.tell(self._ends.values(), for_good=self._has_failed)
        if self._machines.has_failed and self._kill_at == FOR_EVER:
            self._kill_at = time.monotonic() + self.config.grace
            agent.send_signal(signal.SIGTERM)
        if time.monotonic() > self._ask_at:
            self._ask_at = FOR_EVER
            self._ask_ranks()
        if self.screen.broken and not self._signal:
            # As a script under plain python ends when its `| head` has had enough.
            self._end(agent, signal.SIGPIPE)
        if self._seconds_left() <= 0:
            for group in self._groups.values():
                send(-group, signal.SIGKILL)
            agent.kill()

    def _see_who_joins(self, agent: Agent) -> None:
        """Ends what can only wait; where ranks start anew, that is one of their failures."""
        if told := self._joining.tell_who_left(self._groups, self._ends):
            self.screen.say(told)
        if self._kill_at < FOR_EVER or not (lost := self._joining.look(self._groups, self._ends, self._ask)):
            return
        if not self._joining.ends_the_run or len(self._failed) < self.config.max_restarts:
            for line in self._joining.said():
                self.screen.say(line)
            for rank in lost if self._joining.ends_the_run else ():
                send(-self._groups[rank], signal.SIGKILL)
        else:
            self._end(agent, signal.SIGTERM)

    def _ask(self, rank: int, number: int) -> None:
        for supervisor in self._supervisors.values():
            if supervisor.rank == rank:
                supervisor.ask(number)

    def _look(self, seconds: float) -> bool:
        """Moves what can be moved within `seconds`; False where nothing came in."""
        wakeup, listener = self._wakeup.fileno(), self._listener.fileno()
        others = self._machines.news.sources()
        waiting = [wakeup, listener, *self._supervisors, *others, *self.screen.sources()]
        ready, writable, _ = select.select(waiting, self.screen.sinks(), [], seconds)
        came = False
        for source in ready:
            if source == listener:
                connection, _ = self._listener.accept()
                self._supervisors[connection.fileno()] = Supervisor(connection)
                came = True
            elif source in self._supervisors:
                self._hear(self._supervisors[source])
                came = True
            elif source in others:
                self._machines.news.hear(source)
                came = True
            elif source != wakeup:
                came = self.screen.read(source) or came
        for sink in writable:
            self.screen.write(sink)
        return came

    def _hear(self, supervisor: Supervisor) -> None:
        messages, is_there = supervisor.hear()
        for message in messages:
            if "pid" in message:
                self._started(message["rank"], message["pid"])
                supervisor.rank, supervisor.host = message["rank"], message["host"] or self._machines.host
                self._give_output(supervisor)
            elif supervisor.rank >= 0:
                said = (message["code"], message["ended"], message["stopped"])
                self._ended(RankEnd(supervisor.rank, *said, supervisor.host))
        if not is_there:
            del self._supervisors[supervisor.connection.fileno()]
            supervisor.connection.close()
            if supervisor.rank >= 0 and supervisor.rank not in self._ends:
                # Only SIGKILL keeps a supervisor from saying how its rank ended.
                stopped = self._kill_at < FOR_EVER
                self._ended(RankEnd(supervisor.rank, -signal.SIGKILL, time.time(), stopped, supervisor.host))

    def _started(self, rank: int, group: int) -> None:
        if rank in self._groups or len(self._groups) == self.config.nproc:
            # Anew, by torchrun, and by other numbers where machines have gone: nothing of the last time may go on.
            for former in self._groups.values():
                send(-former, signal.SIGKILL)
            for one in self._supervisors.values():
                one.rank = -1
            self._groups.clear()
            self._ends.clear()
            self._starts += 1
            self._joining.start_anew()
            self._machines.news.forget()
        self._groups[rank] = group
        if self._signal and not self._engine.ends_ranks:
            send(-group, self._asked)

    def _give_output(self, supervisor: Supervisor) -> None:
        with contextlib.ExitStack() as stack:
            log = open_log(self.config.log(supervisor.rank))
            stack.callback(os.close, log)
            if self.config.tee:
                target = self.screen.tee(supervisor.rank, log)
                stack.callback(os.close, target)
                targets = (target, target)
            else:
                targets = self.screen.targets() if supervisor.rank == 0 else (log, log)
            supervisor.give(PLAIN if self._engine.ends_ranks else LED, targets)

    def _ended(self, end: RankEnd) -> None:
        self._ends[end.rank] = end
        if end.code == 0:
            return
        if not end.stopped and self._starts not in self._failed:
            self._failed.add(self._starts)
            if len(self._failed) <= self.config.max_restarts:
                left = f"{len(self._failed)} of {self.config.max_restarts}"
                self.screen.say(f"distify: rank {end.rank} {end.describe()}; all ranks start anew ({left})")
        if self._has_failed:
            self._stopped.wake(self._groups, self._ends)
            if self._kill_at == FOR_EVER and not self._engine.ends_ranks:
                self._ask_at = time.monotonic() + LAST_WORDS_SECONDS
            self._kill_at = min(self._kill_at, time.monotonic() + self.config.grace)

    @property
    def _has_failed(self) -> bool:
        """Whether a rank of this machine has, and its ranks are not started any more."""
        return len(self._failed) > self.config.max_restarts

    def _end(self, agent: Agent, number: int) -> None:
        """Has all ranks asked to end; the second time, and where they are ending already, kills them."""
        if self._kill_at < FOR_EVER:
            self._kill_at = time.monotonic()
            return
        self._signal = number
        self._kill_at = time.monotonic() + self.config.grace
        if self._engine.ends_ranks or not self._groups:
            agent.send_signal(self._asked)
        else:
            self._ask_ranks()
        if number == signal.SIGINT:
            self.screen.say("distify: ending all ranks; Ctrl-C again kills them")

    def _ask_ranks(self) -> None:
        """Asks those that have not ended to do so."""
        for rank in self._groups.keys() - self._ends.keys():
            send(-self._groups[rank], self._asked)

    @property
    def _asked(self) -> int:
        """The signal that ranks are asked to end with."""
        return self._signal if self._signal in ENDING_SIGNALS else signal.SIGTERM

    def _signals(self) -> list[int]:
        try:
            return list(self._wakeup.recv(4096))
        except BlockingIOError:
            return []

    def _seconds_left(self) -> float:
        return self._kill_at - time.monotonic()

    def _patience(self) -> float:
        """Seconds left, or 0 once a further signal came."""
        if self._is_hurried():
            self._kill_at = time.monotonic()
        return self._seconds_left()

    def _is_hurried(self) -> bool:
        """Whether a further signal has come."""
        return any(number in ENDING_SIGNALS for number in self._signals())

    def _take_rest(self) -> None:
        """Takes and shows all that has come; a signal leaves out the showing (the reader may be stuck)."""
        while self._look(LONGEST_WAIT if self.screen.sinks() else 0.0) or self.screen.sinks():
            if self._is_hurried():
                self.screen.mute()

    def _report(self, agent_code: int) -> int:
        """Says why the launch ended badly and returns the exit code for it."""
        config = self.config
        if self._signal == signal.SIGTERM and (said := self._joining.said("the run is ended (--hang-timeout)")):
            for line in said:
                self.screen.say(line)
            return 1
        if self._signal:
            if self._signal == signal.SIGALRM:
                return TIMED_OUT
            self.screen.say(f"distify: ended by {signal.Signals(self._signal).name}; logs in {config.logs}")
            return 128 + self._signal
        others = self._machines.news.failures.values()
        lines, code = verdict(config, list(self._ends.values()), agent_code, others, self._joining.parted())
        for line in (*lines, *self._stopped.said()):
            self.screen.say(line)
        return code
