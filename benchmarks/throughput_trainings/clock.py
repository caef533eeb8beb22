"""How long the epochs of a training took, on the clock and on the CPU: left in the file that $CLOCK names."""

import json
import os
import time
from pathlib import Path


class Clock:
    """Of so many epochs, the first of which is not counted: what is made at the first step is made there."""

    def __init__(self, epochs):
        self.left, self.epochs = epochs, []

    def start(self):
        self.begun = time.perf_counter(), time.process_time()

    def stop(self, steps):
        ended = time.perf_counter(), time.process_time()
        self.epochs.append([(end - begin) / steps for begin, end in zip(self.begun, ended)])
        self.left -= 1
        if self.left == 0:
            Path(os.environ["CLOCK"].format(rank=os.environ.get("RANK", "0"))).write_text(json.dumps(self.epochs[1:]))
