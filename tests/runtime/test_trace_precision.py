"""float64 where a script says float, and the bytes of float32 where it looks at those."""

from __future__ import annotations

from ranks import run_script

SCRIPT = """
import struct, torch
from distify_runtime.trace.precision import compute_in

compute_in("float64")
raw = torch.frombuffer(bytearray(struct.pack("4f", 1, 2, 3, 4)), dtype=torch.uint8)
print(raw.view(dtype=torch.float32).tolist(), raw.view(torch.float32).dtype)
print(raw.view(torch.int32).dtype, torch.zeros(4).view(torch.float32).shape, torch.zeros(4).view(2, 2).dtype)
print(torch.zeros(4, dtype=torch.float32).dtype, raw.view(2, 8).shape)
"""


def test_bytes_are_looked_at_as_what_they_are() -> None:
    assert run_script(SCRIPT, ranks=1)[0].out.splitlines() == [
        "[1.0, 2.0, 3.0, 4.0] torch.float64",
        "torch.int32 torch.Size([4]) torch.float64",
        "torch.float64 torch.Size([2, 8])",
    ]
