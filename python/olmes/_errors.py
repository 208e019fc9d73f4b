"""What goes wrong, as exceptions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Sequence

if TYPE_CHECKING:
    from ._record import Result


class Error(RuntimeError):
    """An evaluation or a record that failed.

    ``message`` says what and where, ``hint`` what can be done ("" where nothing is
    known), ``code`` is the program's exit code (see ``olmes --help``; None where the
    program had no part in it), ``log`` its last lines.
    """

    def __init__(self, message: str, hint: str = "", code: int | None = None, log: Sequence[str] = ()):
        super().__init__(f"{message}\nhint: {hint}" if hint else message)
        self.message, self.hint, self.code, self.log = message, hint, code, list(log)


class IncompleteError(Error):
    """Some instances have no score, such as where the model gave NaN. ``result`` holds
    all others."""

    result: Result
