"""SAVE01: rank 0 alone writes checkpoints, with the keys that they had."""

from __future__ import annotations

import pytest

from tests.rules.scripts import IMPORTS, LOOP, SHUFFLED, changes, converted, distributed, line_of, script

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


def test_place() -> None:
    before = script(after='torch.save(data, "a.pt")\n')
    assert [change.place.line for change in changes("SAVE01", before)] == [line_of(before, "torch.save")]
