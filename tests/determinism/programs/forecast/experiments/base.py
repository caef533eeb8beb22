import torch
import torch.nn as nn
from networks.attention import Attention, Stacked
from networks.convolutions import Convolutions
from networks.linear import Linear


class Experiment:
    def __init__(self, args):
        self.args = args
        self.networks = {
            "attention": Attention,
            "stacked": Stacked,
            "convolutions": Convolutions,
            "linear": Linear,
        }
        self.device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        self.model = self.build().to(self.device)

    def build(self):
        model = self.networks[self.args.network](self.args).float()
        if self.args.parallel:
            model = nn.DataParallel(model)
        return model

    def train(self, folder):
        raise NotImplementedError
