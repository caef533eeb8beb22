import torch


class Stopping:
    def __init__(self, patience):
        self.patience, self.waited, self.best, self.stop = patience, 0, None, False

    def __call__(self, loss, model, path):
        if self.best is None or loss < self.best:
            self.best, self.waited = loss, 0
            torch.save(model.state_dict(), path)
        else:
            self.waited += 1
            self.stop = self.waited >= self.patience


def slower(optimizer, epoch, args):
    for group in optimizer.param_groups:
        group["lr"] = args.lr * 0.5 ** (epoch // 2)
