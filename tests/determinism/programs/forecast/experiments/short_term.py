import torch.nn as nn
from experiments.long_term import LongTerm
from experiments.losses import Relative, Scaled


class ShortTerm(LongTerm):
    losses = {"mse": nn.MSELoss, "relative": Relative, "scaled": Scaled}

    def criterion(self):
        return self.losses["relative" if self.args.inverse else "mse"]()
