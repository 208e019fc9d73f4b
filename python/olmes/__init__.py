"""Evaluates base language models by the OLMES standard.

``evaluate`` measures a model that is in memory, such as one in training; ``load`` and
``scores`` read the records of finished runs. The program itself is ``olmes`` on the
environment's PATH, or ``python -m olmes``.
"""

from ._errors import Error, IncompleteError
from ._evaluate import evaluate
from ._record import Result, load, scores

__all__ = ["Error", "IncompleteError", "Result", "evaluate", "load", "scores"]
