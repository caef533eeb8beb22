"""Checkpoints: what writes them, and what reads them."""

from __future__ import annotations

SAVE, LOAD = "torch.save", "torch.load"
#: The positional parameters of what reads.
PARAMETERS = ("f", "map_location")
#: What writes objects as they are, with the place in the program that their class is of.
PICKLES = frozenset({SAVE, "pickle.dump"})
#: Whatever they are in, also where no file is written.
WHOLE = PICKLES | {"pickle.dumps", "dill.dump", "joblib.dump"}
