"""Forecasts a series with one of several networks, by an experiment that is chosen by its name."""

import argparse

from experiments.long_term import LongTerm
from experiments.short_term import ShortTerm

EXPERIMENTS = {"long": LongTerm, "short": ShortTerm}

parser = argparse.ArgumentParser()
parser.add_argument("--experiment", default="long")
parser.add_argument("--network", default="attention")
parser.add_argument("--data", default="hourly")
parser.add_argument("--embedding", default="fixed")
parser.add_argument("--channels", type=int, default=4)
parser.add_argument("--width", type=int, default=16)
parser.add_argument("--seen", type=int, default=24)
parser.add_argument("--ahead", type=int, default=8)
parser.add_argument("--batch-size", type=int, default=32)
parser.add_argument("--epochs", type=int, default=3)
parser.add_argument("--lr", type=float, default=1e-3)
parser.add_argument("--half", action="store_true")
parser.add_argument("--inverse", action="store_true")
parser.add_argument("--parallel", action="store_true")
args = parser.parse_args()

if __name__ == "__main__":
    experiment = EXPERIMENTS[args.experiment](args)
    experiment.train("runs")
    experiment.test("runs")
