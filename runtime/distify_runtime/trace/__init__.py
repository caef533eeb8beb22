"""What a training run did, written down so that an original and its conversion can be held against each other.

`program.py` runs a script and records it, `compare.py` says where two records part. Chance is taken out of both runs
alike, and what is left is what a conversion can get wrong: who sees which samples, when gradients are averaged, what
is scaled, who writes.

moment   where a run is, in steps
order    every pass over a loader has an order that follows from its number
passes   long passes are cut short, and a last batch that ranks cannot share evenly is filled up
repeats  such a batch counts once in a running variance
noise    dropout is off, and a sample's augmentation, and noise for a batch, are the same for whoever draws them
draws    in a run of its own, what is drawn where chance is left in, and by whom
chance   whether ranks draw as one process does
moves    models lose their hooks as on a GPU
precision  float64, also where a script says float
"""
