import os

import numpy as np
import torch
import torch.nn as nn
from experiments.base import Experiment
from experiments.stopping import Stopping, slower
from series import loader_of


class LongTerm(Experiment):
    def optimizer(self):
        return torch.optim.Adam(self.model.parameters(), lr=self.args.lr)

    def criterion(self):
        return nn.MSELoss()

    def validate(self, data, loader, criterion):
        self.model.eval()
        losses = []
        with torch.no_grad():
            for x, y, marks in loader:
                guess, truth = self.forecast(data, x, y, marks)
                losses.append(criterion(guess.detach().cpu(), truth.detach().cpu()).item())
        self.model.train()
        return np.average(losses)

    def train(self, folder):
        train_data, train_loader = loader_of(self.args, "train")
        valid_data, valid_loader = loader_of(self.args, "validate")
        os.makedirs(folder, exist_ok=True)
        path = os.path.join(folder, "best.pt")
        optimizer, criterion = self.optimizer(), self.criterion()
        scaler = torch.cuda.amp.GradScaler() if self.args.half else None
        stopping = Stopping(patience=3)
        for epoch in range(self.args.epochs):
            losses = []
            self.model.train()
            for step, (x, y, marks) in enumerate(train_loader):
                optimizer.zero_grad()
                guess, truth = self.forecast(train_data, x, y, marks)
                loss = criterion(guess, truth)
                losses.append(loss.item())
                if (step + 1) % 20 == 0:
                    print(f"step {step + 1}, epoch {epoch + 1}: {loss.item():.5f}")
                if self.args.half:
                    scaler.scale(loss).backward()
                    scaler.step(optimizer)
                    scaler.update()
                else:
                    loss.backward()
                    optimizer.step()
            valid_loss = self.validate(valid_data, valid_loader, criterion)
            print(f"epoch {epoch + 1}: {np.average(losses):.5f} {valid_loss:.5f}")
            stopping(valid_loss, self.model, path)
            if stopping.stop:
                break
            slower(optimizer, epoch + 1, self.args)
        self.model.load_state_dict(torch.load(path))
        return self.model

    def test(self, folder):
        data, loader = loader_of(self.args, "test")
        self.model.eval()
        guesses, truths = [], []
        with torch.no_grad():
            for x, y, marks in loader:
                guess, truth = self.forecast(data, x, y, marks)
                guesses.append(guess.cpu().numpy())
                truths.append(truth.cpu().numpy())
        guesses, truths = np.concatenate(guesses), np.concatenate(truths)
        print("error", np.mean((guesses - truths) ** 2))
        np.save(os.path.join(folder, "guesses.npy"), guesses)

    def forecast(self, data, x, y, marks):
        x, marks = x.float().to(self.device), marks.float().to(self.device)
        start = torch.zeros([y.shape[0], self.args.ahead, y.shape[-1]]).float().to(self.device)
        if self.args.half:
            with torch.cuda.amp.autocast():
                outputs = self.model(x, marks, start)
        else:
            outputs = self.model(x, marks, start)
        if self.args.inverse:
            outputs = data.inverse(outputs)
        return outputs, y[:, -self.args.ahead :, :].float().to(self.device)
