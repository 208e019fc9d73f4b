"""Runs the program with a model in this process as its engine."""

from __future__ import annotations

import hmac
import json
import os
import secrets
import shlex
import signal
import socket
import subprocess
import sys
import threading
from collections import deque
from pathlib import Path
from typing import TYPE_CHECKING, Any, Iterable, Sequence, TextIO

from . import relay
from ._errors import Error, IncompleteError
from ._program import find
from ._record import Result, read

if TYPE_CHECKING:
    import torch

_LOG_LINES = 60
_POLL = 0.1  # seconds between two looks whether the program has ended
_LEAVE = 10.0  # seconds that an interrupted program has to end by itself

# Exit codes of the program.
_INCOMPLETE = 3


def evaluate(
    model: torch.nn.Module,
    tokenizer: Any,
    tasks: str | Iterable[str] = "olmes",
    *,
    formulation: str = "both",
    limit: int | None = None,
    limit_per_subject: int | None = None,
    split: str | None = None,
    normalizations: str | None = None,
    bos: str | None = None,
    name: str | None = None,
    runs: str | os.PathLike = "runs",
    output: str | os.PathLike | None = None,
    resume: bool = True,
    batch: int | None = None,
    cache: str | os.PathLike | None = None,
    progress: bool | TextIO = True,
    args: Sequence[str] = (),
) -> Result:
    """Evaluates a causal language model that is in memory, and seals a record.

    The model is used as it is, where it is: on its device, in its dtype, with
    ``eval()`` for the time being and without gradients. Its modules' modes are as
    before when the call ends, however it ends; parameters, gradients, optimizers and
    random number generators are not touched.

    :param model: a transformers model, or any module that is called like one.
    :param tokenizer: its tokenizer (transformers).
    :param tasks: tasks and suites, as ``olmes run --tasks`` takes them.
    :param formulation: ``cf``, ``mcf`` or ``both``; a score needs both.
    :param limit: instances a task at most; such a run is off-standard.
    :param limit_per_subject: the same for each subject of mmlu.
    :param split: ``test`` or ``validation`` instead of the standard's own. Decisions
        during training belong to ``validation``.
    :param normalizations: ``all`` scores pmi for every cf task too.
    :param bos: ``auto``, ``always``, ``never`` or ``tokenizer``.
    :param name: of the model in the record; by default the one that it was loaded by.
    :param runs: folder that holds runs; finished ones of the same weights are reused.
    :param output: folder of this record instead of ``runs``/ID.
    :param resume: go on with an interrupted run of the same weights and settings.
    :param batch: tokens of one forward at most; by default 512, on a GPU 2048. Out of memory halves it.
    :param cache: the program's folder for downloads.
    :param progress: show the program's progress on standard error, or a stream given.
    :param args: further flags of ``olmes run``.
    :raises Error: with the program's message, hint and exit code.
    :raises IncompleteError: where some instances have no score.
    """
    from ._engine import Engine  # needs torch

    command = [str(find())]
    if cache is not None:
        command.append(f"--cache={os.fspath(cache)}")
    command += [f"--runs={os.fspath(runs)}", "run", "--json", f"--engine=exec:{_relay_command()}"]
    for flag, value in (
        ("tasks", tasks if isinstance(tasks, str) else ",".join(tasks)), ("formulation", formulation), ("limit", limit),
        ("limit-per-subject", limit_per_subject), ("split", split), ("normalizations", normalizations), ("bos", bos),
        ("output", output),
    ):
        if value is not None:
            command.append(f"--{flag}={os.fspath(value) if isinstance(value, os.PathLike) else value}")
    if resume:
        command.append("--resume")
    if not progress:
        command.append("--quiet")
    with Engine(model, tokenizer, name=name, quiet=progress is False) as engine:
        command += [f"--model={engine.name}", f"--batch={batch or engine.plan[0]}", f"--chunk-tokens={engine.plan[1]}"]
        stream = None if progress is False else sys.stderr if progress is True else progress
        program = _Program([*command, *args], stream)
        code = program.serve(engine)
        failure = engine.failure
    if code not in (0, _INCOMPLETE):
        message, hint = program.complaint()
        raise Error(message or f"the program ended with exit code {code}", hint, code, program.log) from failure
    try:
        summary = json.loads(program.output)
    except ValueError:
        message, hint = program.complaint()
        raise Error(message or "the program printed no result", hint, code, program.log) from failure
    result = read(Path(summary["dir"]))
    if code == _INCOMPLETE:
        message, hint = program.complaint()
        error = IncompleteError(message, "", code, program.log)
        error.result = result
        raise error from failure
    return result


def _relay_command() -> str:
    """The relay as the program's exec engine: this interpreter, alone. The file is
    named, since a child does not see what this process did to sys.path."""
    if not sys.executable:
        raise Error("this Python does not know its own executable, which is to start the relay", "call olmes.evaluate from an ordinary interpreter")
    return " ".join(shlex.quote(word) for word in (sys.executable, "-I", "-S", str(Path(relay.__file__).resolve())))


class _Program:
    """One run of the program, its streams, and the port that its relay comes to."""

    def __init__(self, command: list[str], progress: TextIO | None):
        self.log: list[str] = []
        self.output = ""
        self._token = secrets.token_hex(32)
        self._progress = progress
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._listener.settimeout(_POLL)
        port = self._listener.getsockname()[1]
        # Ctrl-C is for this process, which stops the program in turn.
        own = {"creationflags": subprocess.CREATE_NEW_PROCESS_GROUP} if os.name == "nt" else {"start_new_session": True}
        try:
            self._process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, encoding="utf-8", errors="replace",
                env={**os.environ, relay.VARIABLE: f"{port}:{self._token}"}, **own,
            )
        except BaseException:
            self._listener.close()
            raise
        self._readers = [threading.Thread(target=f, daemon=True) for f in (self._read_output, self._read_log)]
        for reader in self._readers:
            reader.start()

    def serve(self, engine) -> int:
        """Serves the engine to the program until that ends; its exit code."""
        try:
            while self._process.poll() is None:
                connection = self._accept()
                if connection is not None:
                    with connection:
                        engine.serve(connection)
        except BaseException:
            self._stop()
            raise
        finally:
            self._listener.close()
            for reader in self._readers:
                reader.join()
        return self._process.returncode

    def _accept(self) -> socket.socket | None:
        """A connection of somebody who has the token."""
        try:
            connection, _ = self._listener.accept()
        except TimeoutError:
            return None
        connection.settimeout(5)
        got = b""
        try:
            while len(got) < len(self._token) and (part := connection.recv(len(self._token) - len(got))):
                got += part
        except OSError:
            pass
        if not hmac.compare_digest(got, self._token.encode()):
            connection.close()
            return None
        connection.settimeout(None)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return connection

    def _stop(self) -> None:
        """Ends the program, which keeps what is finished."""
        self._listener.close()  # no relay is answered any more
        try:
            self._process.send_signal(signal.CTRL_BREAK_EVENT if os.name == "nt" else signal.SIGINT)
            self._process.wait(_LEAVE)
        except (OSError, subprocess.TimeoutExpired, KeyboardInterrupt):
            self._process.kill()
            self._process.wait()

    def _read_output(self) -> None:
        self.output = self._process.stdout.read()
        self._process.stdout.close()

    def _read_log(self) -> None:
        log: deque[str] = deque(maxlen=_LOG_LINES)
        with self._process.stderr as lines:
            for line in lines:
                log.append(line.rstrip("\n"))
                # What goes wrong is raised, and printed with the exception.
                if self._progress is not None and not line.startswith(("olmes: ", "hint: ", "no interrupted run ")):
                    try:
                        self._progress.write(line)
                        self._progress.flush()
                    except (OSError, ValueError):
                        self._progress = None  # closed; the evaluation goes on
        self.log = list(log)

    def complaint(self) -> tuple[str, str]:
        """The program's last words: what failed, and what can be done."""
        message: list[str] = []
        hint = ""
        for line in self.log:
            if line.startswith("olmes: "):
                message, hint = [line.removeprefix("olmes: ")], ""
            elif line.startswith("hint: "):
                hint = line.removeprefix("hint: ")
            elif message and not hint:
                message.append(line)
        return "\n".join(message), hint
