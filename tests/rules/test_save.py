"""SAVE01: rank 0 alone writes checkpoints, with the keys that they had."""

from __future__ import annotations

import pytest
from distify_codemods import Level

from tests.rules.scripts import IMPORTS, LOOP, SHUFFLED, changes, converted, distributed, findings, line_of, script

GUARD = "if rt.is_main_process():\n"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ('torch.save(model.state_dict(), "a.pt")\n', '    torch.save(model.module.state_dict(), "a.pt")\n'),
        ('torch.save(model, "a.pt")\n', '    torch.save(model.module, "a.pt")\n'),
        ("torch.save(obj=model.state_dict(), f='a.pt')\n", "    torch.save(obj=model.module.state_dict(), f='a.pt')\n"),
        (
            'torch.save(\n    {\n        "net": model.state_dict(),  # weights\n'
            '        "rule": optimizer.state_dict(),\n    },\n    "a.pt",\n)\n',
            '    torch.save(\n        {\n            "net": model.module.state_dict(),  # weights\n'
            '            "rule": optimizer.state_dict(),\n        },\n        "a.pt",\n    )\n',
        ),
        ('torch.save({"net": model}, "a.pt")\n', '    torch.save({"net": model.module}, "a.pt")\n'),
        ('torch.save(data, "a.pt")\n', '    torch.save(data, "a.pt")\n'),
        ('torch.save(data, "a.pt")  # kept\n', '    torch.save(data, "a.pt")  # kept\n'),
        (
            'torch.save(data, "a.pt")\ntorch.save(data, "b.pt")\n',
            '    torch.save(data, "a.pt")\n    torch.save(data, "b.pt")\n',
        ),
        (
            'torch.save(data, "a.pt")\n# again\n\ntorch.save(data, "b.pt")\n',
            '    torch.save(data, "a.pt")\n    # again\n\n    torch.save(data, "b.pt")\n',
        ),
    ],
)
def test_statements(before: str, after: str) -> None:
    assert converted(script(after=before)) == distributed(after=GUARD + after)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("if True: {save}\n", "if True:\n    {guard}        {save}\n"),
        ("if True: {save}\nelse: pass\n", "if True:\n    {guard}        {save}\nelse: pass\n"),
        ("if False: pass\nelse: {save}\n", "if False: pass\nelse:\n    {guard}        {save}\n"),
        ("if False: pass\nelif True: {save}\n", "if False: pass\nelif True:\n    {guard}        {save}\n"),
        ("try: {save}\nexcept OSError: pass\n", "try:\n    {guard}        {save}\nexcept OSError: pass\n"),
        ("try: pass\nfinally: {save}\n", "try: pass\nfinally:\n    {guard}        {save}\n"),
        ("for i in range(2): {save}\n", "for i in range(2):\n    {guard}        {save}\n"),
        ("for i in range(2): pass\nelse: {save}\n", "for i in range(2): pass\nelse:\n    {guard}        {save}\n"),
        ("def save(): {save}\nsave()\n", "def save():\n    {guard}        {save}\nsave()\n"),
        ("match 3:\n    case 3: {save}\n", "match 3:\n    case 3:\n        {guard}            {save}\n"),
        ("done = 1; {save}\n", "done = 1\n{guard}    {save}\n"),
        ("{save}; done = 1\n", "{guard}    {save}\ndone = 1\n"),
        ("{save}; done = 1  # both\n", "{guard}    {save}\ndone = 1  # both\n"),
        ("if True: done = 1; {save}\n", "if True:\n    done = 1\n    {guard}        {save}\n"),
    ],
)
def test_suites_and_semicolons(before: str, after: str) -> None:
    save = 'torch.save(data, "a.pt")'
    new = after.format(save=save, guard=GUARD)
    assert converted(script(after=before.format(save=save))) == distributed(after=new)


def test_trailing_semicolon() -> None:
    after = converted(script(after='torch.save(data, "a.pt");\n'))
    assert after.rstrip(";\n") == distributed(after=f'{GUARD}    torch.save(data, "a.pt")\n').rstrip("\n")


def test_inside_the_loop() -> None:
    line = '    torch.save(model.state_dict(), f"{epoch}.pt")\n'
    new = '    if rt.is_main_process():\n        torch.save(model.module.state_dict(), f"{epoch}.pt")\n'
    assert converted(script(loop=LOOP + line)) == distributed(loop=SHUFFLED + new)


def test_tabs() -> None:
    before = script(loop=LOOP.replace("    ", "\t") + '\ttorch.save(data, "a.pt")\n')
    new = SHUFFLED.replace("    ", "\t") + '\tif rt.is_main_process():\n\t\ttorch.save(data, "a.pt")\n'
    assert converted(before) == distributed(loop=new)


@pytest.mark.parametrize(
    ("imports", "name"),
    [
        ("from torch import save\n", "save"),
        ("from torch import save as keep\n", "keep"),
        ("import torch as t\n", "t.save"),
    ],
)
def test_under_any_name(imports: str, name: str) -> None:
    imports = IMPORTS + imports
    after = f'{GUARD}    {name}(model.module.state_dict(), "a.pt")\n'
    before = script(imports=imports, after=f'{name}(model.state_dict(), "a.pt")\n')
    assert converted(before) == distributed(imports=imports, after=after)


def test_in_a_function_of_the_scripts_own() -> None:
    own = "def save(values, path):\n    torch.save(values, path)\n\n\n"
    guarded = "def save(values, path):\n    if rt.is_main_process():\n        torch.save(values, path)\n\n\n"
    before = script(setup=own, after='save(model.state_dict(), "a.pt")\n')
    assert converted(before) == distributed(setup=guarded, after='save(model.module.state_dict(), "a.pt")\n')


def test_already_under_a_condition_of_its_own() -> None:
    before = script(after='if len(data) > 3:\n    torch.save(data, "a.pt")\nelse:\n    print("few")\n')
    after = f'if len(data) > 3:\n    {GUARD}        torch.save(data, "a.pt")\nelse:\n    print("few")\n'
    assert converted(before) == distributed(after=after, prints=True)


def test_folder_and_file_of_one_block() -> None:
    imports = f"import os\n{IMPORTS}"
    before = script(imports=imports, after='os.makedirs("out", exist_ok=True)\ntorch.save(data, "out/a.pt")\n')
    after = f'os.makedirs("out", exist_ok=True)\n{GUARD}    torch.save(data, "out/a.pt")\n'
    assert converted(before) == distributed(imports=imports, after=after)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param('model.save_pretrained("out")\n', '    model.module.save_pretrained("out")\n', id="transformers"),
        pytest.param('save_file(model.state_dict(), "a")\n', '    save_file(model.module.state_dict(), "a")\n',
                     id="safetensors"),
        pytest.param('save_model(model, "a")\n', '    save_model(model.module, "a")\n', id="the model itself"),
        pytest.param('tokenizer.push_to_hub("me/it")\n', '    tokenizer.push_to_hub("me/it")\n', id="to a server"),
        pytest.param('torch.jit.save(scripted, "a.ts")\n', '    torch.jit.save(scripted, "a.ts")\n', id="scripted"),
    ],
)  # fmt: skip
def test_checkpoints_of_other_libraries(before: str, after: str) -> None:
    imports = f"from safetensors.torch import save_file, save_model\nfrom transformers import T5Tokenizer\n{IMPORTS}"
    setup = "tokenizer = T5Tokenizer()\nscripted = torch.jit.script(nn.Linear(1, 1))\n"
    assert converted(script(imports=imports, setup=setup, after=before)).endswith(f"optimizer.step()\n{GUARD}{after}")


def test_model_that_is_wrapped_or_not_is_saved_by_rank_0() -> None:
    """As scripts do that may use nn.DataParallel: on two ways, one of which saves an object that is not known."""
    model = "from transformers import GPT2LMHeadModel\nmodel = GPT2LMHeadModel()\n"
    after = 'inner = model.module if hasattr(model, "module") else model\ninner.save_pretrained("out")\n'
    assert f"{GUARD}    rt.unwrap(inner).save_pretrained(" in converted(script(model=model, after=after))


def test_model_of_a_class_of_the_script() -> None:
    """What the class has itself is followed; what it has from a library is the library's."""
    head = "from transformers import PreTrainedModel\n\n\nclass Net(PreTrainedModel):\n    "
    after = 'model.save_pretrained("out")\n'
    model = "model = Net()\n"
    inherited = script(model=f"{head}pass\n\n\n{model}", after=after)
    assert f'{GUARD}    model.module.save_pretrained("out")\n' in converted(inherited)
    method = "def save_pretrained(self, folder):\n        torch.save(self.state_dict(), folder)\n"
    new = converted(script(model=f"{head}{method}\n\n{model}", after=after))
    assert f"        {GUARD}            torch.save(self.state_dict(), folder)\n" in new
    assert new.endswith('optimizer.step()\nmodel.module.save_pretrained("out")\n')


@pytest.mark.parametrize("name", ["keep", "save"])
def test_model_that_saves_itself(name: str) -> None:
    """What a method of a wrapped model does is followed like anything else."""
    model = f"""class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.out = nn.Linear(4, 1)

    def forward(self, x):
        return self.out(x)

    def {name}(self, path):
        print("saved")
        torch.save(self.state_dict(), path)


model = Net()
"""
    new = converted(script(model=model, after=f'model.{name}("a.pt")\n'))
    assert f'        print("saved")\n        {GUARD}            torch.save(self.state_dict(), path)\n' in new
    assert new.endswith(f'optimizer.step()\nmodel.module.{name}("a.pt")\n')
    assert "rank_zero_print as print" in new


def claims(before: str) -> list[str]:
    return [one.message for code in ("SAVE01", "OUT03") for one in findings(code, before, Level.NOT_NEEDED)]


UNKNOWN = "import unheard\nimport os\nimport argparse\nfrom pathlib import Path\n"
ARGS = "args = argparse.ArgumentParser().parse_args()\n"


@pytest.mark.parametrize(
    "after",
    [
        pytest.param('unheard.keep(model, "out/net.bin")\n', id="text with a folder"),
        pytest.param('unheard.keep(model, "net.bin")\n', id="text with an ending"),
        pytest.param('unheard.Keeper().keep(os.path.join("out", "net"))\n', id="method of an unknown object"),
        pytest.param('unheard.keep(Path("out") / "net")\n', id="path"),
        pytest.param('name = f"out/{epoch}"\nunheard.keep(name)\n', id="name that a path was put together for"),
        pytest.param(f"{ARGS}unheard.keep(args.out_dir)\n", id="path from the command line"),
        pytest.param('torch.keep_and_save(model, "net.bin")\n', id="known library that says it writes"),
        pytest.param('log = unheard.LogWriter("out/log")\n', id="object that says it writes"),
        pytest.param('log = unheard.open("log.txt", "w")\n', id="object that is told to"),
    ],
)
def test_nothing_is_claimed_of_what_is_not_known(after: str) -> None:
    before = script(imports=UNKNOWN + IMPORTS, after=after)
    (said,) = findings("OUT03", before, Level.ADVICE)
    assert "with a path, and it is not known" in said.message
    assert said.place is not None
    assert said.place.line == len(before.splitlines())
    assert claims(before) == ["no checkpoint is written, unless by what OUT03 names"]


def test_claims_name_what_they_do_not_know() -> None:
    """An object that is made with a path may write there, by whatever method."""
    before = script(imports=UNKNOWN + IMPORTS, after='net = unheard.build("configs/net.yaml")\n')
    unless = ", unless `unheard.build` at train.py:19 writes: it is given a path, and not known"
    assert claims(before) == [f"no checkpoint is written{unless}", f"no other files are written{unless}"]
    assert findings("OUT03", before, Level.ADVICE) == []


@pytest.mark.parametrize(
    ("after", "name"),
    [
        pytest.param('unheard.train(model, 3, "fast")\n', "unheard.train", id="no path"),
        pytest.param('unheard.note("loss of epoch 1/3")\n', "unheard.note", id="a sentence"),
        pytest.param('net = unheard.load_net("configs/net.yaml")\n', "unheard.load_net", id="result is used"),
        pytest.param(
            'tokens = unheard.Tokens()\ntokens.load("a/b.model")\n', "unheard.Tokens", id="says that it reads"
        ),
        pytest.param('unheard.get("https://example.org/a")\n', "unheard.get", id="address"),
        pytest.param("getattr(model, str(data))()\n", "getattr(model, str(data))", id="by a name that is put together"),
        pytest.param("class Own(unheard.Book):\n    pass\n\n\nbook = Own()\n", "Own", id="a subclass"),
        pytest.param("for use in unheard.all_of_them:\n    use()\n", "use", id="whatever comes"),
    ],
)
def test_what_is_not_known_may_write_without_being_given_a_path(after: str, name: str) -> None:
    before = script(imports=UNKNOWN + IMPORTS, after=after)
    line = line_of(before, f"{name}(" if name != "Own" else "= Own(")
    unless = f", unless by `{name}` at train.py:{line}, which is not known"
    assert findings("OUT03", before, Level.ADVICE) == []
    assert claims(before) == [f"no checkpoint is written{unless}", f"no other files are written{unless}"]


@pytest.mark.parametrize(
    "after",
    [
        pytest.param('os.chdir("out/net")\n', id="of the process alone"),
        pytest.param('argparse.ArgumentParser().add_argument("--out", default="out/net.pt")\n', id="known library"),
        pytest.param("def keep(path):\n    pass\n\n\nkeep('out/net.bin')\n", id="function of the script"),
        pytest.param("names = []\nnames.append('out/net.bin')\n", id="list"),
        pytest.param("getattr(torch, str(data))(3)\n", id="a name of a known library"),
        pytest.param("class Loss(nn.MSELoss):\n    pass\n\n\nLoss()(data.tensors[0], 0)\n", id="a known class"),
    ],
)
def test_nothing_is_written(after: str) -> None:
    before = script(imports=UNKNOWN + IMPORTS, after=after)
    assert findings("OUT03", before, Level.ADVICE) == []
    assert claims(before) == ["no checkpoint is written", "no other files are written"]


def test_statement_that_may_save() -> None:
    after = 'len(data) > 3 and torch.save(data, "a.pt")\n'
    assert converted(script(after=after)) == distributed(after=f"if rt.is_main_process():\n    {after}")


@pytest.mark.parametrize(
    "after",
    [
        pytest.param('written = torch.save(data, "a.pt")\n', id="assigned"),
        pytest.param('save = lambda: torch.save(data, "a.pt")\nsave()\n', id="lambda"),
        pytest.param('[torch.save(data, f"{i}.pt") for i in range(2)]\n', id="comprehension"),
        pytest.param('torch.save(next(iter(data)), "a.pt")\n', id="argument that all ranks have to draw"),
    ],
)
def test_inside_another_expression(after: str) -> None:
    expected = after.replace("torch.save(", "rt.main_process_only(torch.save)(")
    assert converted(script(after=after)) == distributed(after=expected)


@pytest.mark.parametrize(
    "after",
    [
        pytest.param("class Torch:\n    def save(self, *given): pass\n\n\nTorch().save(1, 2)\n", id="own class"),
        pytest.param("def save(*given): pass\n\n\nsave(1, 2)\n", id="own function"),
        pytest.param("def never():\n    torch.save(data, 'a.pt')\n", id="never called"),
        pytest.param("text = \"torch.save(model, 'a.pt')\"\n", id="text"),
    ],
)
def test_left_alone(after: str) -> None:
    before = script(after=after)
    assert changes("SAVE01", before) == []
    assert converted(before) == distributed(after=after)


READ = """\
start = 1
if os.path.exists("latest.pt"):
    checkpoint = torch.load("latest.pt")
    start = checkpoint["epoch"] + 1
"""
IN_ARMS = """\
if start > 1:
    pass
elif start % 2 == 0:
    torch.save(model.state_dict(), "even.pt")
"""


def test_an_arm_whose_test_was_read_from_a_file() -> None:
    """Nothing can be put around an arm: what it does is guarded inside."""
    imports = f"import os\n{IMPORTS}"
    text = converted(script(imports=imports, setup=READ, after=IN_ARMS))
    assert text.endswith(
        'elif start % 2 == 0:\n    if rt.is_main_process():\n        torch.save(model.module.state_dict(), "even.pt")\n'
    )


def test_place() -> None:
    before = script(after='torch.save(data, "a.pt")\n')
    assert [change.place.line for change in changes("SAVE01", before)] == [line_of(before, "torch.save")]
