"""An attack with a fault of every kind, by which the campaign itself is tested."""

from __future__ import annotations

import os
import signal
import time

from .attack import Attack, unnamed, wrong

N_TRIALS = 7


class Planted(Attack):
    """Crashes, hangs and fails at known trials."""

    limit = 3.0

    def trial(self, number: int) -> None:
        match number:
            case 1:
                os.kill(os.getpid(), signal.SIGSEGV)
            case 2:
                raise unnamed(KeyError("x"), "planted")
            case 3:
                time.sleep(1000)
            case 4:
                raise wrong("planted", "here")
            case 5:
                raise RuntimeError("of the campaign")
