"""What may be set by a line or not, or by whatever a file says, decides nothing: both branches are converted."""

from __future__ import annotations

import pytest
from distify_codemods import Outcome

from tests.rules.scripts import conversion_of, script

SUM = 'nn.functional.mse_loss(model(x), y, reduction="sum")'
CONSTANT = "is decided by a constant"
#: A sum over samples is another thing on shares than a mean: it is rewritten wherever it is reached.
LOOP = f"""\
for epoch in range(3):
    for x, y in loader:
        if MODE == "sum":
            loss = {SUM}
        else:
            loss = nn.functional.mse_loss(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
"""
PARSED = """\
import argparse, os
parser = argparse.ArgumentParser()
parser.add_argument("--mode", default="sum")
args = parser.parse_args()
"""
CONFIG = """\
import argparse, json, os, sys
class Config:
    mode = "mean"
"""
OWN = """\
import argparse, json, os, sys
class Config:
    def __init__(self, mode="mean"):
        self.mode = mode
"""
FIELDS = """\
import dataclasses, json, os
@dataclasses.dataclass
class Config:
    mode: str = "mean"
"""
OPEN: dict[str, tuple[str, str]] = {
    "an option, on some machines": (
        f'{PARSED}if not torch.cuda.is_available():\n    args.mode = "mean"\n',
        "args.mode",
    ),
    "in a function that may end before": (
        f"{PARSED}def settle(given):\n    if os.path.exists('flag'):\n        return\n    given.mode = 'mean'\n\n\n"
        "settle(args)\n",
        "args.mode",
    ),
    "where an attempt fails": (
        f"{PARSED}try:\n    open('flag').close()\nexcept OSError:\n    args.mode = 'mean'\n",
        "args.mode",
    ),
    "in turns, of which there may be none": (
        f"{PARSED}for _ in os.listdir('x'):\n    args.mode = 'mean'\n",
        "args.mode",
    ),
    "by setattr": (f"{PARSED}if os.path.exists('flag'):\n    setattr(args, 'mode', 'mean')\n", "args.mode"),
    "by a function in a test": (
        f"{PARSED}def settle(given):\n    given.mode = 'mean'\n\n\nos.path.exists('flag') and settle(args)\n",
        "args.mode",
    ),
    "of a parser's defaults": (
        "import argparse\nparser = argparse.ArgumentParser()\nparser.add_argument('--lr')\n"
        "parser.set_defaults(mode='sum')\nargs = parser.parse_args()\n"
        "if not torch.cuda.is_available():\n    args.mode = 'mean'\n",
        "args.mode",
    ),
    "of what the parser fills": (
        "import argparse\nparser = argparse.ArgumentParser()\nparser.add_argument('--lr')\n"
        "args = parser.parse_args(namespace=argparse.Namespace(mode='sum'))\n"
        "if not torch.cuda.is_available():\n    args.mode = 'mean'\n",
        "args.mode",
    ),
    "of an option of which the name is not seen": (
        "import argparse\nparser = argparse.ArgumentParser()\nparser.add_argument('--loss-mode', **dict(dest='mode'))\n"
        "args = parser.parse_args()\nif not torch.cuda.is_available():\n    args.mode = 'mean'\n",
        "args.mode",
    ),
    "of a dictionary with attributes": (
        "import yaml\nfrom easydict import EasyDict\ncfg = EasyDict()\ncfg.mode = 'mean'\n"
        "for key, value in yaml.safe_load(open('x')).items():\n    cfg[key] = value\n",
        "cfg.mode",
    ),
    "a table within a table": (
        "import json\nconfig = {'loss': {'mode': 'mean'}}\nfor key, value in json.load(open('x')).items():\n"
        "    config[key] = value\n",
        "config['loss']['mode']",
    ),
    "by setattr in a test": (f"{PARSED}os.path.exists('flag') or setattr(args, 'mode', 'mean')\n", "args.mode"),
    "of a file's table": (
        "import os, yaml\nargs = yaml.safe_load(open('x'))\nif os.path.exists('flag'):\n    args['mode'] = 'mean'\n",
        "args['mode']",
    ),
    "of a dictionary that a file fills": (
        "import json, os\nargs = dict(json.load(open('x')))\nif os.path.exists('flag'):\n    args['mode'] = 'mean'\n",
        "args['mode']",
    ),
    "over what the class says": (
        f"{CONFIG}args = Config()\nif os.path.exists('flag'):\n    args.mode = 'other'\n",
        "args.mode",
    ),
    "of a class, by whatever name": (
        f"{PARSED}{CONFIG}config = Config()\nfor key, value in vars(args).items():\n    setattr(config, key, value)\n",
        "config.mode",
    ),
    "of an object, by whatever name": (
        f"{PARSED}{OWN}config = Config()\nfor key, value in vars(args).items():\n    setattr(config, key, value)\n",
        "config.mode",
    ),
    "the class itself, by whatever name": (
        f"{PARSED}{CONFIG}for key, value in vars(args).items():\n    setattr(Config, key, value)\n",
        "Config.mode",
    ),
    "its dictionary": (f"{CONFIG}config = Config()\nvars(config).update(json.load(open('x')))\n", "config.mode"),
    "a dataclass made of a file": (f"{FIELDS}config = Config(**json.load(open('x')))\n", "config.mode"),
    "keys of a dictionary": (
        "import sys\nconfig = {'mode': 'mean'}\nfor one in sys.argv[1:]:\n    key, value = one.split('=')\n"
        "    config[key] = value\n",
        "config['mode']",
    ),
    "names of the module": (
        "import sys\nmode = 'mean'\nfor one in sys.argv[1:]:\n    key, value = one.split('=')\n"
        "    globals()[key] = value\n",
        "mode",
    ),
    "a text that is run": ("mode = 'mean'\nexec(open('configurator.py').read())\n", "mode"),
    "a file that is merged": (
        "from yacs.config import CfgNode\ncfg = CfgNode()\ncfg.RUN = CfgNode()\ncfg.RUN.MODE = 'mean'\n"
        "cfg.merge_from_file('x.yaml')\n",
        "cfg.RUN.MODE",
    ),
    "a file that is read": (
        "import configparser\ncfg = configparser.ConfigParser()\ncfg['run'] = {'mode': 'mean'}\ncfg.read('x.ini')\n",
        "cfg['run']['mode']",
    ),
    "this, or else a word": (f"{PARSED}mode = args.mode or 'mean'\n", "mode"),
    "what is typed, or else a word": ("mode = input() or 'mean'\n", "mode"),
    "a word, if this": (f"{PARSED}mode = args.mode and 'mean'\n", "mode"),
}
#: What is set in any case is a constant, whatever else the object holds.
SETTLED: dict[str, tuple[str, str]] = {
    "a default of settings that nobody gives": (f"{OWN}config = Config()\n", "config.mode"),
    "a word": ("mode = 'mean'\n", "mode"),
    "an option that is set anew": (f"{PARSED}args.mode = 'mean'\n", "args.mode"),
    "in a function": (f"{PARSED}def settle(given):\n    given.mode = 'mean'\n\n\nsettle(args)\n", "args.mode"),
    "what no option is called": (f"{PARSED}if not torch.cuda.is_available():\n    args.how = 'mean'\n", "args.how"),
    "of a class": (f"{CONFIG}config = Config()\n", "config.mode"),
    "an item": ("config = {'mode': 'mean'}\nconfig['lr'] = 0.1\n", "config['mode']"),
    "a configuration that is frozen": (
        "from yacs.config import CfgNode\ncfg = CfgNode()\ncfg.MODE = 'mean'\ncfg.freeze()\n",
        "cfg.MODE",
    ),
    "a word, or else": ("mode = 'mean' or input()\n", "mode"),
}


@pytest.mark.parametrize("name", OPEN)
def test_both_branches_are_converted(name: str) -> None:
    conversion = conversion_of(script(setup=OPEN[name][0], loop=LOOP.replace("MODE", OPEN[name][1])))
    assert conversion.outcome is Outcome.CONVERTED
    assert not any(CONSTANT in one.message for one in conversion.findings)
    assert SUM not in conversion.files[0].after.decode()


@pytest.mark.parametrize("name", SETTLED)
def test_what_a_constant_turns_off_is_told(name: str) -> None:
    conversion = conversion_of(script(setup=SETTLED[name][0], loop=LOOP.replace("MODE", SETTLED[name][1])))
    assert conversion.outcome is Outcome.CONVERTED
    assert any(CONSTANT in one.message for one in conversion.findings)
    assert SUM in conversion.files[0].after.decode()


def test_a_default_of_what_does_more_than_to_hold_settings_is_no_constant() -> None:
    """A model's, a trainer's: nobody changes it for a run."""
    setup = f"{OWN}\n    def shown(self):\n        return self.mode\n\n\nconfig = Config()\n"
    conversion = conversion_of(script(setup=setup, loop=LOOP.replace("MODE", "config.mode")))
    assert conversion.outcome is Outcome.CONVERTED
    assert not any(CONSTANT in one.message for one in conversion.findings)
